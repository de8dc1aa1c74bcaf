#pragma once
/// \file
/// Trellis between the indices that are coded and codes of Int8: trellis-coded quantisation with Ungerboeck's codes
/// (Marcellin and Fischer, 1990; JPEG 2000 part 2, annex D). docs/format.md is normative.

#include <cstdint>

#include "ecq/base/config.hpp"
#include "ecq/base/lanes.hpp"

namespace ecq {

/// A walk through states, with one state for each lane. In state s, an index k stands for the code 2 k + z, where z = s
/// mod 2: one quantiser has the even numbers, the other the odd ones. The parity of k then leads to the next state. So
/// codes of 8 bits lie on a grid twice as fine as that of the indices, for the same number of indices.
///
/// Code j of a chunk belongs to lane (j mod 128) / 4; a lane takes its codes in ascending order. All lanes begin in
/// state 0, and return to it wherever the position in the stream is a multiple of 2^period_bits.
struct trellis {
  static constexpr unsigned min_state_bits = 2;
  static constexpr unsigned max_state_bits = 5;

  unsigned state_bits = 3;    ///< log2 of the number of states, 2..5
  unsigned period_bits = 14;  ///< log2 of the codes between returns to state 0, 10 to the log2 of a chunk

  ECQ_HOST_DEVICE constexpr unsigned states() const noexcept { return 1U << state_bits; }

  /// Returns the quantiser, 0 or 1, that `state` uses.
  ECQ_HOST_DEVICE static constexpr unsigned quantizer(unsigned state) noexcept { return state & 1; }

  /// Returns the state after an index of `parity` (0 or 1). The step is linear: its result is the exclusive or of the
  /// results for the state alone and for the parity alone.
  ECQ_HOST_DEVICE constexpr unsigned next(unsigned state, unsigned parity) const noexcept {
    // Parity checks h0 and h1, one bit to the right: 05 and 02, 013 and 04, 023 and 04, 045 and 010 (octal).
    const unsigned from_state = state_bits == 2 ? 2 : state_bits == 3 ? 5 : state_bits == 4 ? 9 : 18;
    const unsigned from_parity = state_bits == 2 ? 1 : state_bits == 5 ? 4 : 2;
    return (state >> 1) ^ (quantizer(state) * from_state) ^ (parity * from_parity);
  }

  /// Returns the code of an index, both in two's complement, modulo 256.
  ECQ_HOST_DEVICE static constexpr std::uint8_t code(unsigned quantizer, std::uint8_t index) noexcept {
    return static_cast<std::uint8_t>(2 * index + static_cast<int>(quantizer));
  }

  /// Returns the index of a code, -64..63. The lowest bit of a code is its quantiser.
  ECQ_HOST_DEVICE static constexpr std::uint8_t index(std::uint8_t code) noexcept {
    return static_cast<std::uint8_t>((code < 128 ? code : code - 256) >> 1);
  }

  /// Returns the lane of the code at `position` of the stream.
  ECQ_HOST_DEVICE static constexpr unsigned lane(std::uint64_t position) noexcept {
    return static_cast<unsigned>(position / 4 % lane_count);
  }

  bool operator==(const trellis&) const = default;
};

}  // namespace ecq
