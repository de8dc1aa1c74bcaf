#pragma once
/// \file
/// Joins symbols in memory with raw bits in AVX2 registers.

#include "ecq/base/config.hpp"

#if ECQ_X86

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "ecq/entropy/element_join.hpp"

namespace ecq::detail::avx2 {

/// Joins elements of one byte with up to 7 raw bits, 32 at a time. The raw bits are added, which for symbols without
/// low bits is the same as joining them. A byte shuffle brings the two bytes that hold an element's bits into 16 bits,
/// and a multiplication moves the bits to the top. (PDEP is microcode on some machines and slower even on others.)
ECQ_AVX2 inline void join_bytes(const element_join& join, const std::uint8_t* symbols, const std::byte* raw,
                                std::size_t count, std::byte* to) {
  std::uint8_t bytes[2][32];  // for the first and the second eight elements of a half register
  std::uint16_t factors[16];
  for (unsigned i = 0; i < 16; ++i) {
    const unsigned bit = i % 8 * join.bits;
    factors[i] = static_cast<std::uint16_t>(1U << (16 - join.bits - bit % 8));
    for (unsigned part = 0; part < 2; ++part) {
      bytes[0][2 * i + part] = static_cast<std::uint8_t>(bit / 8 + part);
      bytes[1][2 * i + part] = static_cast<std::uint8_t>(bit / 8 + part + 8);
    }
  }
  const __m256i first_bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(bytes[0]));
  const __m256i second_bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(bytes[1]));
  const __m256i factor = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(factors));
  const __m256i symbol_mask = _mm256_set1_epi8(static_cast<char>(0xFFU >> join.low_bits));
  const __m256i stays = _mm256_set1_epi8(static_cast<char>(0xFFU >> join.turned));
  const __m128i up = _mm_cvtsi32_si128(static_cast<int>(join.low_bits));
  const __m128i down = _mm_cvtsi32_si128(static_cast<int>(16 - join.bits));
  const auto* from = reinterpret_cast<const std::uint8_t*>(raw);
  for (std::size_t at = 0; at < count; at += 32, from += std::size_t{4} * join.bits) {
    std::uint64_t eight[4];
    ECQ_UNROLL
    for (unsigned i = 0; i < 4; ++i) std::memcpy(&eight[i], from + std::size_t{i} * join.bits, 8);
    const __m256i both = _mm256_set_epi64x(static_cast<std::int64_t>(eight[3]), static_cast<std::int64_t>(eight[2]),
                                           static_cast<std::int64_t>(eight[1]), static_cast<std::int64_t>(eight[0]));
    const __m256i first = _mm256_srl_epi16(_mm256_mullo_epi16(_mm256_shuffle_epi8(both, first_bytes), factor), down);
    const __m256i second = _mm256_srl_epi16(_mm256_mullo_epi16(_mm256_shuffle_epi8(both, second_bytes), factor), down);
    const __m256i coded = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(symbols + at));
    __m256i element =
        _mm256_add_epi8(_mm256_sll_epi16(_mm256_and_si256(coded, symbol_mask), up), _mm256_packus_epi16(first, second));
    if (join.turned != 0) {
      element = _mm256_or_si256(_mm256_and_si256(_mm256_srli_epi16(element, 1), stays),
                                _mm256_andnot_si256(stays, _mm256_slli_epi16(element, 7)));
    }
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + at), element);
  }
}

/// Joins elements of two bytes with 8 raw bits, rotated.
ECQ_AVX2 inline void join_bf16(const element_join& /*join*/, const std::uint8_t* symbols, const std::byte* raw,
                               std::size_t count, std::byte* to) {
  for (std::size_t at = 0; at < count; at += 16) {
    const __m128i high = _mm_loadu_si128(reinterpret_cast<const __m128i*>(symbols + at));
    const __m128i low = _mm_loadu_si128(reinterpret_cast<const __m128i*>(raw + at));
    const __m256i words = _mm256_or_si256(_mm256_slli_epi16(_mm256_cvtepu8_epi16(high), 8), _mm256_cvtepu8_epi16(low));
    const __m256i turned = _mm256_or_si256(_mm256_srli_epi16(words, 1), _mm256_slli_epi16(words, 15));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + 2 * at), turned);
  }
}

/// Joins elements of two or four bytes with 8 to 25 raw bits, rotated, eight at a time in 32 bits each. A byte shuffle
/// brings the four bytes that hold an element's bits into its lane, and the lane's own shift does the rest.
template <std::size_t Width>
struct wide_join {
  ECQ_AVX2 explicit wide_join(const element_join& join)
      : bits(join.bits),
        second(std::size_t{4} * join.bits / 8),
        mask(_mm256_set1_epi32(static_cast<int>((1U << join.bits) - 1U))),
        up(_mm_cvtsi32_si128(static_cast<int>(join.low_bits))),
        in_element(_mm256_set1_epi32(Width == 2 ? 0xFFFF : -1)) {
    std::uint8_t bytes[32];
    std::uint32_t shifts[8];
    for (unsigned i = 0; i < 8; ++i) {
      const unsigned bit = i * bits - (i < 4 ? 0 : static_cast<unsigned>(8 * second));
      for (unsigned part = 0; part < 4; ++part) bytes[4 * i + part] = static_cast<std::uint8_t>(bit / 8 + part);
      shifts[i] = bit % 8;
    }
    byte = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(bytes));
    shift = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(shifts));
  }

  /// Joins eight elements; reads up to 16 bytes beyond the raw bits.
  ECQ_AVX2 __m256i eight(const std::uint8_t* symbols, const std::byte* raw) const {
    const __m256i both =
        _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(raw))),
                                _mm_loadu_si128(reinterpret_cast<const __m128i*>(raw + second)), 1);
    const __m256i low = _mm256_and_si256(_mm256_srlv_epi32(_mm256_shuffle_epi8(both, byte), shift), mask);
    const __m256i coded = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(symbols)));
    const __m256i arranged = _mm256_or_si256(_mm256_and_si256(_mm256_sll_epi32(coded, up), in_element), low);
    return _mm256_and_si256(_mm256_or_si256(_mm256_srli_epi32(arranged, 1), _mm256_slli_epi32(arranged, 8 * Width - 1)),
                            in_element);
  }

  unsigned bits;
  std::size_t second;  ///< byte where the raw bits of elements 4..7 begin
  __m256i byte;
  __m256i shift;
  __m256i mask;
  __m128i up;
  __m256i in_element;
};

template <std::size_t Width>
ECQ_AVX2 inline void join_wide(const element_join& join, const std::uint8_t* symbols, const std::byte* raw,
                               std::size_t count, std::byte* to) {
  const wide_join<Width> constants(join);
  for (std::size_t at = 0; at < count; at += 16) {
    const __m256i first = constants.eight(symbols + at, raw + at / 8 * join.bits);
    const __m256i then = constants.eight(symbols + at + 8, raw + (at / 8 + 1) * join.bits);
    auto* const room = reinterpret_cast<__m256i*>(to + Width * at);
    if constexpr (Width == 2) {
      _mm256_storeu_si256(room, _mm256_permute4x64_epi64(_mm256_packus_epi32(first, then), 0xD8));
    } else {
      _mm256_storeu_si256(room, first);
      _mm256_storeu_si256(room + 1, then);
    }
  }
}

inline constexpr join_kernels joins = {join_bytes, join_bf16, join_wide<2>, join_wide<4>};

}  // namespace ecq::detail::avx2

#endif
