#pragma once
/// \file
/// Weights in memory, decoded and ready to be multiplied.

#include <cstddef>
#include <cstdint>

namespace ecq::detail {

/// Layout of weights in memory.
enum class stored_as : unsigned char {
  elements,  ///< elements of the stream, unchanged
  bytes,     ///< integer codes in the order of quantised activations (integer_order); Int8 codes + 128
  words      ///< integer codes as std::int16_t, in the order integer_order::words_avx2; Int8 codes unchanged
};

struct stored_weights {
  const std::byte* first;
  std::size_t width;  ///< bytes of a weight
  stored_as how;

  stored_weights behind(std::uint64_t weights) const { return {first + weights * width, width, how}; }
};

}  // namespace ecq::detail
