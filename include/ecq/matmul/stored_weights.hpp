#pragma once
/// \file
/// Weights that have been decoded to memory, to be multiplied.

#include <cstddef>
#include <cstdint>

namespace ecq::detail {

/// How weights lie in memory.
enum class stored_as : unsigned char {
  elements,  ///< as they are
  bytes,     ///< codes that are integers, in the order of quantised activations (integer_order); those of Int8 + 128
  words      ///< the same as std::int16_t, of integer_order::words_avx2; those of Int8 as they are
};

struct stored_weights {
  const std::byte* first;
  std::size_t width;  ///< bytes of one
  stored_as how;

  stored_weights behind(std::uint64_t weights) const { return {first + weights * width, width, how}; }
};

}  // namespace ecq::detail
