#pragma once
/// \file
/// Packing raw bits of codes of one byte, many codes at a time.

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
