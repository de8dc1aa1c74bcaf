#pragma once
/// \file
/// Raw bits of codes of one byte, many codes at a time.

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

/// Eight codes have `bits` bytes of raw bits: a byte permutation brings each eight codes' bytes into a lane of 64
/// bits, a multishift each code's bits into its byte.
ECQ_AVX512 inline void merge_raw_bits_avx512(unsigned bits, const std::byte* from, std::uint8_t* codes,
                                             std::size_t count) {
  std::uint8_t bytes[64];
  std::uint8_t shifts[64];
  for (unsigned i = 0; i < 64; ++i) {
    bytes[i] = static_cast<std::uint8_t>(i / 8 * bits + i % 8);
    shifts[i] = static_cast<std::uint8_t>(i % 8 * bits);
  }
  const __m512i byte = _mm512_loadu_si512(bytes);
  const __m512i shift = _mm512_loadu_si512(shifts);
  const __mmask64 used = (std::uint64_t{1} << (8 * bits)) - 1;
  const __m512i mask = _mm512_set1_epi8(static_cast<char>((1U << bits) - 1U));
  for (std::size_t at = 0; at < count; at += 64, from += std::size_t{8} * bits) {
    const __m512i lanes = _mm512_maskz_permutexvar_epi8(~__mmask64{0}, byte, _mm512_maskz_loadu_epi8(used, from));
    const __m512i spread = _mm512_maskz_multishift_epi64_epi8(~__mmask64{0}, shift, lanes);
    // codes | (spread & mask)
    _mm512_storeu_si512(codes + at, _mm512_ternarylogic_epi32(_mm512_loadu_si512(codes + at), spread, mask, 0xF8));
  }
}

ECQ_AVX2 inline void merge_raw_bits_avx2(unsigned bits, const std::byte* from, std::uint8_t* codes, std::size_t count) {
  const std::uint64_t mask = 0x0101010101010101U * ((1U << bits) - 1U);
  for (std::size_t at = 0; at < count; at += 8, from += bits) {
    std::uint64_t raw = 0;
    std::uint64_t eight = 0;
    std::memcpy(&raw, from, 8);
    std::memcpy(&eight, codes + at, 8);
    eight |= _pdep_u64(raw, mask);
    std::memcpy(codes + at, &eight, 8);
  }
}

ECQ_AVX512 inline std::size_t pack_raw_bits_avx512(unsigned bits, const std::byte* codes, std::size_t count,
                                                   std::byte* to) {
  const std::uint64_t mask = 0x0101010101010101U * ((1U << bits) - 1U);
  std::size_t at = 0;
  // Eight bytes are written of which the first `bits` stay: as long as they lie within those to be written anyway.
  for (; (count - at) / 8 * bits >= 8; at += 8, to += bits) {
    std::uint64_t eight = 0;
    std::memcpy(&eight, codes + at, 8);
    eight = _pext_u64(eight, mask);
    std::memcpy(to, &eight, 8);
  }
  return at;
}

#endif

/// Joins the raw bits from `from` on, 1..7 of them a code, to the first codes of `codes` and returns how many: all
/// `count`, a multiple of 64, or none. Reads up to 8 bytes beyond the raw bits.
inline std::size_t merge_many_raw_bits([[maybe_unused]] unsigned bits, [[maybe_unused]] const std::byte* from,
                                       [[maybe_unused]] std::uint8_t* codes, [[maybe_unused]] std::size_t count,
                                       [[maybe_unused]] instruction_set isa) {
#if ECQ_X86
  switch (chosen_instruction_set(isa)) {
    case instruction_set::avx512: merge_raw_bits_avx512(bits, from, codes, count); return count;
    case instruction_set::avx2: merge_raw_bits_avx2(bits, from, codes, count); return count;
    default: break;
  }
#endif
  return 0;
}

/// Writes the low `bits` (1..7) bits of the first of `count` codes and returns how many it took, a multiple of 8.
inline std::size_t pack_many_raw_bits([[maybe_unused]] unsigned bits, [[maybe_unused]] const std::byte* codes,
                                      [[maybe_unused]] std::size_t count, [[maybe_unused]] std::byte* to) {
#if ECQ_X86
  // Where there is no more than AVX2, PEXT may be microcode that takes longer than plain code.
  if (chosen_instruction_set(instruction_set::automatic) == instruction_set::avx512) {
    return pack_raw_bits_avx512(bits, codes, count, to);
  }
#endif
  return 0;
}

}  // namespace ecq::detail
