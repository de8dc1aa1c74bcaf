#pragma once
/// \file
/// Weights that have been decoded to memory, to be multiplied.

#include <cstddef>
#include <cstdint>

namespace ecq::detail {

/// How weights lie in memory.
enum class stored_as : unsigned char {
  elements,  ///< as they are
  rounds,    ///< Int8 codes in the order of place_of_byte_in_rounds(), as AVX-512 multiplies them: + 128
  halves     ///< codes as std::int16_t in the order of half_place_avx2()
};

struct stored_weights {
  const std::byte* first;
  std::size_t width;  ///< bytes of one
  stored_as how;

  stored_weights behind(std::uint64_t weights) const { return {first + weights * width, width, how}; }
};

}  // namespace ecq::detail
