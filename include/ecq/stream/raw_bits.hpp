#pragma once
/// \file
/// Packing of the raw bits of codes of one byte, many codes at a time.

#include <cstddef>

#include "ecq/base/config.hpp"
#include "ecq/base/instruction_set.hpp"
#include "ecq/stream/raw_bits_avx512.hpp"

namespace ecq::detail {

/// Packs the low `bits` (1..7) bits of the leading codes, at most `count`, and returns the number of codes that it
/// packed, a multiple of 8.
inline std::size_t pack_many_raw_bits([[maybe_unused]] unsigned bits, [[maybe_unused]] const std::byte* codes,
                                      [[maybe_unused]] std::size_t count, [[maybe_unused]] std::byte* to) {
#if ECQ_X86
  // On machines without AVX-512, PEXT may be microcode that takes longer than plain code.
  if (chosen_instruction_set(instruction_set::automatic) == instruction_set::avx512) {
    return pack_raw_bits_avx512(bits, codes, count, to);
  }
#endif
  return 0;
}

}  // namespace ecq::detail
