#pragma once
/// \file
/// Joins symbols in memory with raw bits, many elements at a time, with the instruction sets of the machine.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "ecq/base/config.hpp"
#include "ecq/base/instruction_set.hpp"
#include "ecq/entropy/element_join.hpp"
#include "ecq/entropy/join_avx2.hpp"
#include "ecq/entropy/join_avx512.hpp"
#include "ecq/entropy/join_neon.hpp"

namespace ecq::detail {

/// Adds raw bits, `bits` (1..7) each, modulo 256 to some of `count` codes of one byte, from the first on, and returns
/// the number of these codes. Reads up to 8 bytes beyond the raw bits.
inline std::size_t add_many_raw_bits([[maybe_unused]] unsigned bits, [[maybe_unused]] const std::byte* raw,
                                     [[maybe_unused]] std::size_t count, [[maybe_unused]] std::uint8_t* codes,
                                     [[maybe_unused]] instruction_set isa) {
#if ECQ_X86
  const instruction_set chosen = chosen_instruction_set(isa);
  count &= ~std::size_t{63};
  if (chosen == instruction_set::avx512) {
    avx512::add_raw_bits(bits, raw, count, codes);
    return count;
  }
  if (chosen == instruction_set::avx2) {
    avx2::join_bytes({.bits = bits}, codes, raw, count, reinterpret_cast<std::byte*>(codes));
    return count;
  }
#elif ECQ_NEON
  if (chosen_instruction_set(isa) == instruction_set::neon) {
    count &= ~std::size_t{15};
    neon::join_bytes({.bits = bits}, codes, raw, count, reinterpret_cast<std::byte*>(codes));
    return count;
  }
#endif
  return 0;
}

/// Returns `count`, a multiple of 64, or 64 less if kernels read more than 8 bytes beyond an element's raw bits. Those
/// reads then stay within the raw bits of the last 64 elements.
constexpr std::size_t without_last_raw_bits(const element_join& join, std::size_t count) {
  return join.width > 1 && join.bits > 8 ? count - (std::min)(count, std::size_t{64}) : count;
}

/// Joins some of `count` elements, from the first on, and returns the number of these elements. `to` may be where
/// element_target puts the elements of these symbols. Reads up to 8 bytes beyond the raw bits.
inline std::size_t join_many_elements(const element_join& join, const std::uint8_t* symbols, const std::byte* raw,
                                      std::size_t count, std::byte* to, instruction_set isa) {
  [[maybe_unused]] const instruction_set chosen = chosen_instruction_set(isa);
  count &= ~std::size_t{63};
  join_kernels::kernel* kernel = nullptr;
#if ECQ_X86
  if (chosen == instruction_set::avx512 && avx512::with_writer(join, [&]<class Writer>() {
        avx512::join_elements<Writer>(join, symbols, raw, count, to);
      })) {
    return count;
  }
  if (chosen >= instruction_set::avx2) kernel = avx2::joins.of(join);
#elif ECQ_NEON
  if (chosen == instruction_set::neon) kernel = neon::joins.of(join);
#endif
  if (kernel == nullptr) return 0;
  count = without_last_raw_bits(join, count);
  kernel(join, symbols, raw, count, to);
  return count;
}

}  // namespace ecq::detail
