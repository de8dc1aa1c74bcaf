#pragma once
/// \file
/// Joins symbols with raw bits in AVX-512 registers, 64 elements at a time. The same writers serve kernels that have
/// symbols in registers and a loop over symbols in memory.

#include "ecq/base/config.hpp"

#if ECQ_X86

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "ecq/entropy/element_join.hpp"

ECQ_KERNELS_BEGIN

namespace ecq::detail::avx512 {

/// Writes symbols alone, unchanged. Every writer has `place`, which moves 64 symbols to where `write` needs them in
/// their bytes, and `write`, which writes the elements and advances both pointers.
struct symbol_writer {
  static constexpr bool joins = false;
  static constexpr unsigned alphabet = 256;  ///< number of symbols of its formats
  static constexpr std::size_t width = 1;
  static constexpr std::size_t raw_lines = 0;  ///< largest number of cache lines of raw bits that 128 elements take

  ECQ_AVX512 explicit symbol_writer(const element_join&) {}
  ECQ_AVX512 static __m512i place(__m512i symbols) { return symbols; }
  ECQ_AVX512 void write(__m512i symbols, const std::byte*&, std::byte*& to) const {
    _mm512_storeu_si512(to, symbols);
    to += 64;
  }
};

/// Controls that spread raw bits over elements. `bits` bytes hold the raw bits of eight elements: a byte permutation
/// brings the bytes of each eight elements into a 64-bit lane, and a multishift brings each element's bits into its
/// bytes.
struct raw_bit_lanes {
  std::uint8_t byte[64];
  std::uint8_t shift[64];

  /// Makes the controls for elements of `width` bytes (1 or 2) with raw bits shifted left by `left`. The raw bits of a
  /// register begin at a byte.
  raw_bit_lanes(std::size_t width, unsigned bits, unsigned left) {
    const auto per_lane = static_cast<unsigned>(8 / width);
    for (unsigned i = 0; i < 64; ++i) {
      const unsigned lane_bit = i / 8 * per_lane * bits;
      const auto element = static_cast<unsigned>(i % 8 / width);
      const auto part = static_cast<unsigned>(i % width);
      byte[i] = static_cast<std::uint8_t>(lane_bit / 8 + i % 8);
      shift[i] = static_cast<std::uint8_t>((lane_bit % 8 + element * bits + 8 * part - left) % 64);
    }
  }
};

/// Returns a mask of the first `count` (below 64) lanes of bytes.
constexpr std::uint64_t first_lanes(std::size_t count) { return (std::uint64_t{1} << count) - 1; }

/// Shifts symbols left to their place in the top byte of an element, and keeps only their bits in `kept`.
ECQ_AVX512 inline __m512i shifted_bytes(__m512i symbols, unsigned left, unsigned kept) {
  return _mm512_and_si512(_mm512_sll_epi16(symbols, _mm_cvtsi32_si128(static_cast<int>(left))),
                          _mm512_set1_epi8(static_cast<char>(kept & 0xFFU)));
}

/// Writes elements of one byte: codes with raw low bits, FP8.
struct byte_writer {
  static constexpr bool joins = true;
  static constexpr unsigned alphabet = 256;
  static constexpr std::size_t width = 1;
  static constexpr std::size_t raw_lines = 2;

  static bool takes(const element_join& join) { return join.width == 1 && join.bits > 0 && join.bits < 8; }

  ECQ_AVX512 explicit byte_writer(const element_join& join)
      : bits(join.bits),
        symbol_shift(join.low_bits - join.turned),
        symbol_mask(((0xFFU << join.low_bits) & 0xFFU) >> join.turned),
        used(first_lanes(8 * join.bits)),
        low_mask(_mm512_set1_epi8(static_cast<char>(((1U << join.bits) - 1U) >> join.turned))),
        sign_mask(_mm512_set1_epi8(static_cast<char>(join.turned << 7))) {
    const raw_bit_lanes low(1, bits, 0U - join.turned);
    const raw_bit_lanes sign(1, bits, 7);
    byte = _mm512_loadu_si512(low.byte);
    low_shift = _mm512_loadu_si512(low.shift);
    sign_shift = _mm512_loadu_si512(sign.shift);
  }

  ECQ_AVX512 __m512i place(__m512i symbols) const { return shifted_bytes(symbols, symbol_shift, symbol_mask); }

  ECQ_AVX512 void write(__m512i symbols, const std::byte*& raw, std::byte*& to) const {
    const __m512i lanes = _mm512_maskz_permutexvar_epi8(~__mmask64{0}, byte, _mm512_maskz_loadu_epi8(used, raw));
    const __m512i low = _mm512_maskz_multishift_epi64_epi8(~__mmask64{0}, low_shift, lanes);
    const __m512i sign = _mm512_maskz_multishift_epi64_epi8(~__mmask64{0}, sign_shift, lanes);
    // symbols | (low & low_mask) | (sign & sign_mask)
    const __m512i joined = _mm512_ternarylogic_epi32(symbols, low, low_mask, 0xF8);
    _mm512_storeu_si512(to, _mm512_ternarylogic_epi32(joined, sign, sign_mask, 0xF8));
    raw += std::size_t{8} * bits;
    to += 64;
  }

  unsigned bits;
  unsigned symbol_shift;
  unsigned symbol_mask;
  __mmask64 used;
  __m512i byte;
  __m512i low_shift;
  __m512i sign_shift;
  __m512i low_mask;
  __m512i sign_mask;
};

/// Writes elements of two bytes with 8 raw bits: BF16.
struct bf16_writer {
  static constexpr bool joins = true;
  static constexpr unsigned alphabet = 256;
  static constexpr std::size_t width = 2;
  static constexpr std::size_t raw_lines = 2;

  static bool takes(const element_join& join) { return join.width == 2 && join.low_bits == 8 && join.bits == 8; }

  ECQ_AVX512 explicit bf16_writer(const element_join&) {
    std::uint8_t lanes[2][64];
    for (unsigned i = 0; i < 32; ++i) {
      for (unsigned half = 0; half < 2; ++half) {
        lanes[half][2 * i] = static_cast<std::uint8_t>(32 * half + i);
        lanes[half][2 * i + 1] = static_cast<std::uint8_t>(64 + 32 * half + i);
      }
    }
    zipped[0] = _mm512_loadu_si512(lanes[0]);
    zipped[1] = _mm512_loadu_si512(lanes[1]);
  }

  ECQ_AVX512 static __m512i place(__m512i symbols) { return symbols; }

  /// Returns elements 32 * half, ..., 32 * half + 31 of 64.
  ECQ_AVX512 __m512i joined(__m512i symbols, __m512i raw, std::size_t half) const {
    const __m512i words = _mm512_permutex2var_epi8(raw, zipped[half], symbols);
    return _mm512_shrdi_epi16(words, words, 1);
  }

  ECQ_AVX512 void write(__m512i symbols, const std::byte*& raw, std::byte*& to) const {
    const __m512i low = _mm512_loadu_si512(raw);
    ECQ_UNROLL
    for (std::size_t half = 0; half < 2; ++half) _mm512_storeu_si512(to + 64 * half, joined(symbols, low, half));
    raw += 64;
    to += 128;
  }

  __m512i zipped[2];
};

/// Writes elements of two bytes with any number of raw bits: FP16.
struct half_writer {
  static constexpr bool joins = true;
  static constexpr unsigned alphabet = 32;
  static constexpr std::size_t width = 2;
  static constexpr std::size_t raw_lines = 4;

  static bool takes(const element_join& join) { return join.width == 2 && join.bits < 16 && join.turned == 1; }

  ECQ_AVX512 explicit half_writer(const element_join& join)
      : bits(join.bits),
        symbol_shift(join.low_bits - 8),
        used(first_lanes(std::size_t{4} * join.bits)),
        mask(_mm512_set1_epi16(static_cast<short>((1U << join.bits) - 1U))) {
    const raw_bit_lanes lanes(2, bits, 0);
    byte = _mm512_loadu_si512(lanes.byte);
    shift = _mm512_loadu_si512(lanes.shift);
    std::uint8_t upper[2][64];
    for (unsigned i = 0; i < 64; ++i) {
      upper[0][i] = static_cast<std::uint8_t>(i / 2);
      upper[1][i] = static_cast<std::uint8_t>(32 + i / 2);
    }
    upper_bytes[0] = _mm512_loadu_si512(upper[0]);
    upper_bytes[1] = _mm512_loadu_si512(upper[1]);
  }

  ECQ_AVX512 __m512i place(__m512i symbols) const {
    return shifted_bytes(symbols, symbol_shift, (0xFFU << symbol_shift) & 0xFFU);
  }

  ECQ_AVX512 void write(__m512i symbols, const std::byte*& raw, std::byte*& to) const {
    ECQ_UNROLL
    for (int half = 0; half < 2; ++half) {
      const __m512i lanes = _mm512_maskz_permutexvar_epi8(~__mmask64{0}, byte, _mm512_maskz_loadu_epi8(used, raw));
      const __m512i low = _mm512_maskz_multishift_epi64_epi8(~__mmask64{0}, shift, lanes);
      const __m512i high = _mm512_maskz_permutexvar_epi8(0xAAAAAAAAAAAAAAAAU, upper_bytes[half], symbols);
      const __m512i words = _mm512_ternarylogic_epi32(high, low, mask, 0xF8);  // high | (low & mask)
      _mm512_storeu_si512(to + 64 * half, _mm512_shrdi_epi16(words, words, 1));
      raw += std::size_t{4} * bits;
    }
    to += 128;
  }

  unsigned bits;
  unsigned symbol_shift;
  __mmask64 used;
  __m512i mask;
  __m512i byte;
  __m512i shift;
  __m512i upper_bytes[2];
};

/// Writes elements of four bytes with 24 raw bits: FP32.
struct fp32_writer {
  static constexpr bool joins = true;
  static constexpr unsigned alphabet = 256;
  static constexpr std::size_t width = 4;
  static constexpr std::size_t raw_lines = 6;

  static bool takes(const element_join& join) { return join.width == 4 && join.low_bits == 24 && join.bits == 24; }

  ECQ_AVX512 explicit fp32_writer(const element_join&) {
    std::uint8_t lanes[4][64];
    for (unsigned i = 0; i < 256; ++i) {
      const unsigned element = i / 4;
      lanes[i / 64][i % 64] = static_cast<std::uint8_t>(i % 4 == 3 ? 64 + element : element % 16 * 3 + i % 4);
    }
    for (int i = 0; i < 4; ++i) zipped[i] = _mm512_loadu_si512(lanes[i]);
  }

  ECQ_AVX512 static __m512i place(__m512i symbols) { return symbols; }

  ECQ_AVX512 void write(__m512i symbols, const std::byte*& raw, std::byte*& to) const {
    ECQ_UNROLL
    for (int quarter = 0; quarter < 4; ++quarter) {
      const __m512i low = _mm512_maskz_loadu_epi8(first_lanes(48), raw);
      const __m512i words = _mm512_permutex2var_epi8(low, zipped[quarter], symbols);
      _mm512_storeu_si512(to + 64 * quarter, _mm512_ror_epi32(words, 1));
      raw += 48;
    }
    to += 256;
  }

  __m512i zipped[4];
};

/// Adds raw bits, `bits` (1..7) each, to `count` codes of one byte, a multiple of 64, modulo 256.
ECQ_AVX512 inline void add_raw_bits(unsigned bits, const std::byte* raw, std::size_t count, std::uint8_t* codes) {
  const raw_bit_lanes lanes(1, bits, 0);
  const __m512i byte = _mm512_loadu_si512(lanes.byte);
  const __m512i shift = _mm512_loadu_si512(lanes.shift);
  const __m512i mask = _mm512_set1_epi8(static_cast<char>((1U << bits) - 1U));
  const __mmask64 used = first_lanes(std::size_t{8} * bits);
  for (std::size_t at = 0; at < count; at += 64, raw += std::size_t{8} * bits) {
    const __m512i read = _mm512_maskz_permutexvar_epi8(~__mmask64{0}, byte, _mm512_maskz_loadu_epi8(used, raw));
    const __m512i spread = _mm512_maskz_multishift_epi64_epi8(~__mmask64{0}, shift, read);
    const __m512i low = _mm512_and_si512(spread, mask);
    _mm512_storeu_si512(codes + at, _mm512_add_epi8(_mm512_loadu_si512(codes + at), low));
  }
}

/// Calls `use.template operator()<Writer>()` with the writer for `join` and returns true, or false if there is none.
template <class Use>
bool with_writer(const element_join& join, const Use& use) {
  const auto by = [&]<class Writer>() {
    use.template operator()<Writer>();
    return true;
  };
  if (byte_writer::takes(join)) return by.template operator()<byte_writer>();
  if (bf16_writer::takes(join)) return by.template operator()<bf16_writer>();
  if (half_writer::takes(join)) return by.template operator()<half_writer>();
  if (fp32_writer::takes(join)) return by.template operator()<fp32_writer>();
  return false;
}

/// Joins `count` symbols in memory, a multiple of 64. The elements may overlap the symbols as in element_target.
template <class Writer>
ECQ_AVX512 inline void join_elements(const element_join& join, const std::uint8_t* symbols, const std::byte* raw,
                                     std::size_t count, std::byte* to) {
  const Writer writer(join);
  for (std::size_t at = 0; at < count; at += 64) {
    writer.write(writer.place(_mm512_loadu_si512(symbols + at)), raw, to);
  }
}

}  // namespace ecq::detail::avx512

ECQ_KERNELS_END

#endif
