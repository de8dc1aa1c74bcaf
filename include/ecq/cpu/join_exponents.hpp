#pragma once
/// \file
/// Joining exponents with signs and mantissas, many numbers at a time: of 16 bits with 8 raw ones (BF16), and of 8 bits
/// (FP8). The numbers are arranged exponent, mantissa, sign (exponent_split) and turned right by one bit.

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "ecq/config.hpp"
#include "ecq/cpu/instruction_set.hpp"

#if ECQ_X86
#include <immintrin.h>
#endif

namespace ecq::detail {

#if ECQ_X86

ECQ_AVX512 inline void join_bf16_avx512(const std::uint8_t* symbols, const std::byte* raw, std::size_t count,
                                        std::byte* to) {
  for (std::size_t at = 0; at < count; at += 32) {
    const __m256i high = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(symbols + at));
    const __m256i low = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(raw + at));
    const __m512i words = _mm512_or_si512(_mm512_slli_epi16(_mm512_cvtepu8_epi16(high), 8), _mm512_cvtepu8_epi16(low));
    const __m512i turned = _mm512_or_si512(_mm512_srli_epi16(words, 1), _mm512_slli_epi16(words, 15));
    _mm512_storeu_si512(to + 2 * at, turned);
  }
}

ECQ_AVX2 inline void join_bf16_avx2(const std::uint8_t* symbols, const std::byte* raw, std::size_t count,
                                    std::byte* to) {
  for (std::size_t at = 0; at < count; at += 16) {
    const __m128i high = _mm_loadu_si128(reinterpret_cast<const __m128i*>(symbols + at));
    const __m128i low = _mm_loadu_si128(reinterpret_cast<const __m128i*>(raw + at));
    const __m256i words = _mm256_or_si256(_mm256_slli_epi16(_mm256_cvtepu8_epi16(high), 8), _mm256_cvtepu8_epi16(low));
    const __m256i turned = _mm256_or_si256(_mm256_srli_epi16(words, 1), _mm256_slli_epi16(words, 15));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + 2 * at), turned);
  }
}

/// `bits` (1..7) raw bits a number, of which the low `low_bits` are below the symbol's.
ECQ_AVX2 inline void join_fp8_avx2(unsigned low_bits, unsigned bits, const std::uint8_t* symbols, const std::byte* raw,
                                   std::size_t count, std::byte* to) {
  constexpr std::uint64_t ones = 0x0101010101010101U;
  const std::uint64_t mask = ones * ((1U << bits) - 1U);
  const std::uint64_t symbol_mask = ones * (0xFFU >> low_bits);
  for (std::size_t at = 0; at < count; at += 8, raw += bits) {
    std::uint64_t eight = 0;
    std::uint64_t kept = 0;
    std::memcpy(&eight, symbols + at, 8);
    std::memcpy(&kept, raw, 8);
    eight = ((eight & symbol_mask) << low_bits) | _pdep_u64(kept, mask);
    eight = ((eight >> 1) & (ones * 0x7FU)) | ((eight & ones) << 7);
    std::memcpy(to + at, &eight, 8);
  }
}

#endif

/// Joins the first of `count` numbers of `width` bytes and returns how many, a multiple of 64; `low_bits` of their
/// `bits` raw bits no coder sees. Reads up to 8 bytes beyond the raw bits. `to` may be `symbols` if width is 1.
inline std::size_t join_many_exponents([[maybe_unused]] std::size_t width, [[maybe_unused]] unsigned low_bits,
                                       [[maybe_unused]] unsigned bits, [[maybe_unused]] const std::uint8_t* symbols,
                                       [[maybe_unused]] const std::byte* raw, [[maybe_unused]] std::size_t count,
                                       [[maybe_unused]] std::byte* to, [[maybe_unused]] instruction_set isa) {
#if ECQ_X86
  const instruction_set chosen = chosen_instruction_set(isa);
  if (chosen < instruction_set::avx2) return 0;
  count &= ~std::size_t{63};
  if (width == 1 && bits < 8) {
    join_fp8_avx2(low_bits, bits, symbols, raw, count, to);
    return count;
  }
  if (width == 2 && low_bits == 8 && bits == 8) {
    chosen == instruction_set::avx512 ? join_bf16_avx512(symbols, raw, count, to)
                                      : join_bf16_avx2(symbols, raw, count, to);
    return count;
  }
#endif
  return 0;
}

}  // namespace ecq::detail
