#pragma once
/// \file
/// In the place of the compiler's <immintrin.h>: AVX-512 instruction by instruction, by SIMDe, for machines without it
/// (ECQ_AVX512_EMULATED).

#pragma GCC system_header  // as the one that it stands for
#include_next <immintrin.h>

extern "C++" {  // Eigen includes this as C

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

// Calls, because kernels unroll and inlined bodies would take minutes to compile.
#define SIMDE_NO_INLINE
#define SIMDE_X86_AVX512F_ENABLE_NATIVE_ALIASES
#define SIMDE_X86_AVX512BW_ENABLE_NATIVE_ALIASES
#define SIMDE_X86_AVX512DQ_ENABLE_NATIVE_ALIASES
#define SIMDE_X86_AVX512VL_ENABLE_NATIVE_ALIASES
#define SIMDE_X86_AVX512VBMI_ENABLE_NATIVE_ALIASES
#define SIMDE_X86_AVX512VBMI2_ENABLE_NATIVE_ALIASES
#define SIMDE_X86_AVX512VNNI_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx512.h>

/// What SIMDe 0.7.4 lacks or gets wrong, as Intel's manual defines it.
namespace ecq_test::avx512 {

template <typename T>
struct elements {
  static constexpr int count = 64 / sizeof(T);
  T at[count];

  explicit elements(__m512i from) { std::memcpy(at, &from, 64); }
  explicit elements(__m512 from) { std::memcpy(at, &from, 64); }
  elements() : at{} {}

  template <typename To = __m512i>
  To vector() const {
    To to;
    std::memcpy(&to, at, 64);
    return to;
  }
};

/// The high halves of products.
[[gnu::noinline]] inline __m512i multiply_high(__m512i a, __m512i b) {
  elements<std::uint16_t> to(a);
  const elements<std::uint16_t> second(b);
  for (int i = 0; i < to.count; ++i)
    to.at[i] = static_cast<std::uint16_t>(std::uint32_t{to.at[i]} * second.at[i] >> 16);
  return to.vector();
}

/// The low bits of all elements.
template <typename Narrow, typename Wide, typename To>
[[gnu::noinline]] To narrow(__m512i a) {
  const elements<Wide> from(a);
  Narrow low[elements<Wide>::count];
  for (int i = 0; i < from.count; ++i) low[i] = static_cast<Narrow>(from.at[i]);
  To to;
  std::memcpy(&to, low, sizeof to);
  return to;
}

/// FP16 nearest to 16 numbers, ties to even, which is how numbers of FP64 become integers.
[[gnu::noinline]] inline __m256i nearest_halves(__m512 a) {
  const elements<float> from(a);
  std::uint16_t halves[16];
  for (int i = 0; i < from.count; ++i) {
    const auto sign = static_cast<std::uint16_t>(std::signbit(from.at[i]) ? 0x8000 : 0);
    const double magnitude = std::fabs(static_cast<double>(from.at[i]));
    int exponent = 0;
    const double fraction = std::frexp(magnitude, &exponent);
    double half = std::nearbyint(std::ldexp(magnitude, 24));  // subnormal
    if (std::isnan(magnitude)) {
      half = 0x7E00;
    } else if (magnitude >= 65520) {
      half = 0x7C00;
    } else if (magnitude >= 0x1p-14) {
      half = std::nearbyint(std::ldexp(fraction, 11)) + 1024 * (exponent + 13);
    }
    halves[i] = static_cast<std::uint16_t>(static_cast<int>(half) | sign);
  }
  __m256i to;
  std::memcpy(&to, halves, 32);
  return to;
}

/// Elements of `a` where the mask is set, else those of `other`.
template <typename T>
[[gnu::noinline]] __m512i pick(__m512i other, std::uint64_t mask, __m512i a) {
  elements<T> to(other);
  const elements<T> from(a);
  for (int i = 0; i < to.count; ++i) {
    if ((mask >> i & 1U) != 0) to.at[i] = from.at[i];
  }
  return to.vector();
}

/// Bit i is set where a[i] < b[i].
template <typename T>
[[gnu::noinline]] std::uint64_t less(__m512i a, __m512i b) {
  const elements<T> first(a);
  const elements<T> second(b);
  std::uint64_t mask = 0;
  for (int i = 0; i < first.count; ++i) mask |= std::uint64_t{first.at[i] < second.at[i]} << i;
  return mask;
}

/// Bit i is set where a[i] and b[i] share no bit.
template <typename T>
[[gnu::noinline]] std::uint64_t share_no_bit(__m512i a, __m512i b) {
  const elements<T> first(a);
  const elements<T> second(b);
  std::uint64_t mask = 0;
  for (int i = 0; i < first.count; ++i) mask |= std::uint64_t{(first.at[i] & second.at[i]) == 0} << i;
  return mask;
}

/// Whole elements of memory where the mask is set, else 0. Nothing else is read.
template <typename T, typename To>
[[gnu::noinline]] To load(std::uint64_t mask, const void* memory) {
  elements<T> to;
  for (int i = 0; i < to.count; ++i) {
    if ((mask >> i & 1U) != 0) std::memcpy(&to.at[i], static_cast<const T*>(memory) + i, sizeof(T));
  }
  return to.template vector<To>();
}

/// The element at table + stride * index where the mask is set, else that of `other`; indices are the first elements of
/// `index`.
template <typename T>
[[gnu::noinline]] __m512i gather(__m512i other, std::uint64_t mask, __m512i index, const void* table, int stride) {
  elements<T> to(other);
  const elements<std::int32_t> from(index);
  for (int i = 0; i < to.count; ++i) {
    if ((mask >> i & 1U) == 0) continue;
    std::memcpy(&to.at[i], static_cast<const char*>(table) + std::ptrdiff_t{from.at[i]} * stride, sizeof(T));
  }
  return to.vector();
}

[[gnu::noinline]] inline __m512i count_bits(__m512i a) {
  elements<std::uint64_t> to(a);
  for (auto& bits : to.at) bits = static_cast<std::uint64_t>(std::popcount(bits));
  return to.vector();
}

template <typename T>
[[gnu::noinline]] void store(void* memory, std::uint64_t mask, __m512i a) {
  const elements<T> from(a);
  for (int i = 0; i < from.count; ++i) {
    if ((mask >> i & 1U) != 0) std::memcpy(static_cast<T*>(memory) + i, &from.at[i], sizeof(T));
  }
}

[[gnu::noinline]] inline __m256 half_of(__m512 a, int which) {
  __m256 half;
  std::memcpy(&half, reinterpret_cast<const char*>(&a) + 32 * which, sizeof half);
  return half;
}

/// The lowest elements of `a`, one for each bit that is set, at the places of those bits.
template <typename T>
[[gnu::noinline]] __m512i expand(__m512i other, std::uint64_t mask, __m512i a) {
  elements<T> to(other);
  const elements<T> from(a);
  int next = 0;
  for (int i = 0; i < to.count; ++i) {
    if ((mask >> i & 1U) != 0) to.at[i] = from.at[next++];
  }
  return to.vector();
}

template <typename T>
[[gnu::noinline]] __m512i expand_load(__m512i other, std::uint64_t mask, const void* memory) {
  elements<T> to(other);
  const T* next = static_cast<const T*>(memory);
  for (int i = 0; i < to.count; ++i) {
    if ((mask >> i & 1U) != 0) std::memcpy(&to.at[i], next++, sizeof(T));
  }
  return to.vector();
}

template <typename T>
[[gnu::noinline]] __m512i compress(std::uint64_t mask, __m512i a) {
  elements<T> to;
  const elements<T> from(a);
  int next = 0;
  for (int i = 0; i < to.count; ++i) {
    if ((mask >> i & 1U) != 0) to.at[next++] = from.at[i];
  }
  return to.vector();
}

template <typename To, typename From>
[[gnu::noinline]] __m512i widen(__m256i a) {
  From from[32 / sizeof(From)];
  std::memcpy(from, &a, 32);
  elements<To> to;
  for (int i = 0; i < to.count; ++i) to.at[i] = static_cast<To>(from[i]);
  return to.vector();
}

[[gnu::noinline]] inline __m512i widen_128(__m128i a) {
  std::uint8_t from[16];
  std::memcpy(from, &a, 16);
  elements<std::uint32_t> to;
  for (int i = 0; i < 16; ++i) to.at[i] = from[i];
  return to.vector();
}

/// The high half of a:b, moved left by `by` bits.
template <typename T>
T shift_left(T a, T b, unsigned by) {
  constexpr unsigned bits = 8 * sizeof(T);
  by %= bits;
  const std::uint64_t both = std::uint64_t{a} << bits | b;
  return static_cast<T>(both << by >> bits);
}

/// The low half of b:a, moved right by `by` bits.
template <typename T>
T shift_right(T a, T b, unsigned by) {
  constexpr unsigned bits = 8 * sizeof(T);
  const std::uint64_t both = std::uint64_t{b} << bits | a;
  return static_cast<T>(both >> by % bits);
}

template <typename T, T (*Shift)(T, T, unsigned)>
[[gnu::noinline]] __m512i shift(__m512i a, __m512i b, __m512i by) {
  elements<T> to(a);
  const elements<T> second(b);
  const elements<T> bits(by);
  for (int i = 0; i < to.count; ++i) to.at[i] = Shift(to.at[i], second.at[i], bits.at[i]);
  return to.vector();
}

template <typename T, T (*Shift)(T, T, unsigned)>
[[gnu::noinline]] __m512i shift(__m512i a, __m512i b, int by) {
  elements<T> to(a);
  const elements<T> second(b);
  for (int i = 0; i < to.count; ++i) to.at[i] = Shift(to.at[i], second.at[i], static_cast<unsigned>(by));
  return to.vector();
}

/// FP32 values without their fractions; all ones where they do not fit 32 bits.
[[gnu::noinline]] inline __m512i truncate(__m512 a) {
  const elements<float> from(a);
  elements<std::uint32_t> to;
  for (int i = 0; i < 16; ++i) {
    to.at[i] = from.at[i] > -1.0F && from.at[i] < 4294967296.0F ? static_cast<std::uint32_t>(from.at[i]) : 0xFFFFFFFFU;
  }
  return to.vector();
}

[[gnu::noinline]] inline __m512 to_float(__m512i a) {
  const elements<std::uint32_t> from(a);
  elements<float> to;
  for (int i = 0; i < 16; ++i) to.at[i] = static_cast<float>(from.at[i]);
  return to.vector<__m512>();
}

/// The sum in the order of compilers: halves of halves.
template <class Element, class Register>
[[gnu::noinline]] Element sum(Register a) {
  elements<Element> from(a);
  for (int half = 8; half != 0; half /= 2) {
    for (int i = 0; i < half; ++i) from.at[i] += from.at[i + half];
  }
  return from.at[0];
}

/// The sum of a lane and of two products of BF16 values. Subnormal numbers are not taken for 0, unlike the instruction.
[[gnu::noinline]] inline __m512 dot_halves(__m512 sum, __m512i a, __m512i b) {
  elements<float> to(sum);
  const elements<std::uint16_t> first(a);
  const elements<std::uint16_t> second(b);
  const auto value = [](std::uint16_t half) { return std::bit_cast<float>(std::uint32_t{half} << 16); };
  for (int i = 32; i-- > 0;) to.at[i / 2] += value(first.at[i]) * value(second.at[i]);  // the higher one first
  return to.vector<__m512>();
}

/// Products of matrices of 8 x 8 bits, one for each eight bytes, with bytes.
[[gnu::noinline]] inline __m512i affine(__m512i bytes, __m512i matrices, std::uint8_t constant) {
  elements<std::uint8_t> to(bytes);
  const elements<std::uint8_t> rows(matrices);
  for (int i = 0; i < to.count; ++i) {
    const std::uint8_t from = to.at[i];
    to.at[i] = constant;
    for (int bit = 0; bit < 8; ++bit) {
      const auto chosen = static_cast<unsigned>(rows.at[i / 8 * 8 + 7 - bit] & from);
      to.at[i] = static_cast<std::uint8_t>(to.at[i] ^ (std::popcount(chosen) & 1) << bit);
    }
  }
  return to.vector();
}

}  // namespace ecq_test::avx512

}  // extern "C++"

#define _kandn_mask32(a, b) static_cast<__mmask32>(~(a) & (b))
#undef _mm512_cmplt_epu16_mask
#define _mm512_cmplt_epu16_mask(a, b) static_cast<__mmask32>(ecq_test::avx512::less<std::uint16_t>(a, b))
#undef _mm512_testn_epi16_mask
#define _mm512_testn_epi16_mask(a, b) static_cast<__mmask32>(ecq_test::avx512::share_no_bit<std::uint16_t>(a, b))
#undef _mm512_testn_epi32_mask
#define _mm512_testn_epi32_mask(a, b) static_cast<__mmask16>(ecq_test::avx512::share_no_bit<std::uint32_t>(a, b))
#undef _mm512_gf2p8affine_epi64_epi8
#define _mm512_gf2p8affine_epi64_epi8(bytes, matrices, constant) ecq_test::avx512::affine(bytes, matrices, constant)
#define _mm512_cvtepi32_epi8(a) ecq_test::avx512::narrow<std::uint8_t, std::uint32_t, __m128i>(a)
#undef _mm512_cvtepi32_epi16
#define _mm512_cvtepi32_epi16(a) ecq_test::avx512::narrow<std::uint16_t, std::uint32_t, __m256i>(a)
#undef _mm512_cvtepi16_epi8
#define _mm512_cvtepi16_epi8(a) ecq_test::avx512::narrow<std::uint8_t, std::uint16_t, __m256i>(a)
#undef _mm512_cvtps_ph
#define _mm512_cvtps_ph(a, rounding) ecq_test::avx512::nearest_halves(a)
#define _mm512_cvtepu16_epi32(a) ecq_test::avx512::widen<std::uint32_t, std::uint16_t>(a)
#define _mm512_cvtepu8_epi16(a) ecq_test::avx512::widen<std::uint16_t, std::uint8_t>(a)
#define _mm512_cvtepu8_epi32(a) ecq_test::avx512::widen_128(a)
#define _mm512_dpbf16_ps(sum, a, b) ecq_test::avx512::dot_halves(sum, (__m512i)(a), (__m512i)(b))
#define _mm512_cvttps_epu32(a) ecq_test::avx512::truncate(a)
#undef _mm512_cvtepu32_ps
#define _mm512_cvtepu32_ps(a) ecq_test::avx512::to_float(a)
#define _mm512_mask_expand_epi16(other, mask, a) ecq_test::avx512::expand<std::uint16_t>(other, mask, a)
#define _mm512_maskz_expand_epi16(mask, a) ecq_test::avx512::expand<std::uint16_t>(__m512i{}, mask, a)
#define _mm512_maskz_expand_epi8(mask, a) ecq_test::avx512::expand<std::uint8_t>(__m512i{}, mask, a)
#define _mm512_mask_expandloadu_epi8(other, mask, from) ecq_test::avx512::expand_load<std::uint8_t>(other, mask, from)
#define _mm512_kunpackw(high, low) (static_cast<__mmask32>(high) << 16 | static_cast<__mmask32>(low))
#define _mm512_mask_i32gather_epi32(other, mask, index, table, stride) \
  ecq_test::avx512::gather<std::uint32_t>(other, mask, index, table, stride)
#undef _mm512_mask_i32gather_epi64
#define _mm512_mask_i32gather_epi64(other, mask, index, table, stride) \
  ecq_test::avx512::gather<std::uint64_t>(other, mask, _mm512_castsi256_si512(index), table, stride)
#define _mm512_maskz_compress_epi8(mask, a) ecq_test::avx512::compress<std::uint8_t>(mask, a)
#define _mm512_maskz_compress_epi16(mask, a) ecq_test::avx512::compress<std::uint16_t>(mask, a)
#define _mm512_mask_shldi_epi32(other, mask, a, b, by) \
  ecq_test::avx512::pick<std::uint32_t>(               \
      other, mask, ecq_test::avx512::shift<std::uint32_t, ecq_test::avx512::shift_left<std::uint32_t>>(a, b, by))
#undef _mm512_mask_slli_epi32
#define _mm512_mask_slli_epi32(other, mask, a, by) \
  ecq_test::avx512::pick<std::uint32_t>(other, mask, simde_mm512_slli_epi32(a, by))
#undef _mm512_mask_srli_epi32
#define _mm512_mask_srli_epi32(other, mask, a, by) \
  ecq_test::avx512::pick<std::uint32_t>(other, mask, simde_mm512_srli_epi32(a, by))
#define _mm512_mask_storeu_epi16(to, mask, a) ecq_test::avx512::store<std::uint16_t>(to, mask, a)
#define _mm512_mask_storeu_ps(to, mask, a) ecq_test::avx512::store<std::uint32_t>(to, mask, _mm512_castps_si512(a))
#undef _mm512_extractf32x8_ps
#define _mm512_extractf32x8_ps(a, which) ecq_test::avx512::half_of(a, which)
#define _mm512_mask_sub_epi16(other, mask, a, b) \
  ecq_test::avx512::pick<std::uint16_t>(other, mask, simde_mm512_sub_epi16(a, b))
#define _mm512_maskz_loadu_epi8(mask, from) ecq_test::avx512::load<std::uint8_t, __m512i>(mask, from)
#define _mm512_maskz_loadu_ps(mask, from) ecq_test::avx512::load<float, __m512>(mask, from)
#define _mm512_mulhi_epu16(a, b) ecq_test::avx512::multiply_high(a, b)
#define _mm512_popcnt_epi64(a) ecq_test::avx512::count_bits(a)
#define _mm512_reduce_add_epi32(a) ecq_test::avx512::sum<std::int32_t>(a)
#define _mm512_reduce_add_ps(a) ecq_test::avx512::sum<float>(a)
#define _mm512_shldv_epi16(a, b, by) \
  ecq_test::avx512::shift<std::uint16_t, ecq_test::avx512::shift_left<std::uint16_t>>(a, b, by)
#define _mm512_shrdv_epi16(a, b, by) \
  ecq_test::avx512::shift<std::uint16_t, ecq_test::avx512::shift_right<std::uint16_t>>(a, b, by)
#define _mm512_shrdi_epi16(a, b, by) \
  ecq_test::avx512::shift<std::uint16_t, ecq_test::avx512::shift_right<std::uint16_t>>(a, b, by)
#define _mm512_shrdi_epi32(a, b, by) \
  ecq_test::avx512::shift<std::uint32_t, ecq_test::avx512::shift_right<std::uint32_t>>(a, b, by)
#undef _mm512_madd_epi16
#define _mm512_madd_epi16(a, b) simde_mm512_madd_epi16(a, b)
#undef _mm512_shuffle_f32x4
#define _mm512_shuffle_f32x4(a, b, which) simde_mm512_shuffle_f32x4(a, b, which)
#undef _mm512_maskz_multishift_epi64_epi8
#define _mm512_maskz_multishift_epi64_epi8(mask, a, b) simde_mm512_maskz_multishift_epi64_epi8(mask, a, b)
