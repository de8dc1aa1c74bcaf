#pragma once
/// \file
/// Replacement of indices by the codes that they stand for on a trellis, by a warp (base/threads.hpp) in registers.

#include <cstdint>

#include "ecq/base/config.hpp"
#include "ecq/base/lanes.hpp"
#include "ecq/base/threads.hpp"
#include "ecq/entropy/trellis.hpp"

namespace ecq {

/// States of a chunk's lanes on a trellis. An object serves one chunk, takes all its groups in ascending order, one or
/// two at a time, and starts anew with each period. All lanes call its functions together.
///
/// A lane takes four steps at once. They are linear, so the effect of state and parities together is the exclusive or
/// of the effect of each alone. Each is an entry that another lane keeps in a register, and one shuffle looks it up.
template <lockstep_warp Warp>
class warp_trellis {
 public:
  using lanes = typename Warp::lanes;

  /// Sets up the trellis `walk`. If it has 0 state bits, there is no trellis, and indices are codes.
  ECQ_HOST_DEVICE explicit warp_trellis(const trellis& walk)
      : period_(Warp::uniform(walk.state_bits == 0 ? 0U : 1U << (walk.period_bits - group_bits))) {
    if (!walks()) return;
    Warp::each_lane([&](std::uint32_t lane) {
      Warp::at(by_state_, lane) = after(walk, lane % walk.states(), 0);
      Warp::at(by_parities_, lane) = after(walk, 0, lane % 16);
    });
  }

  /// Whether there is a trellis. If not, no other function may be called.
  ECQ_HOST_DEVICE bool walks() const { return period_ != 0; }

  /// Returns the codes of group number `group` of indices, of which each lane has four.
  ECQ_HOST_DEVICE lanes operator()(const lanes& indices, std::uint32_t group) {
    if ((group & (period_ - 1)) == 0) states_ = lanes(0U);
    states_ = Warp::shuffle(by_state_, states_) ^ by_parities(indices);
    return codes(indices, states_);
  }

  /// Replaces the indices of groups 2 * `pair` and 2 * `pair` + 1 by their codes. Each lane has eight neighbouring
  /// indices, so half of the warp has the first group, the other half has the second, and each lane of the trellis
  /// belongs to two lanes of the warp.
  ECQ_HOST_DEVICE void walk_two(lanes (&indices)[2], std::uint32_t pair) {
    const lanes first_half = Warp::lane_numbers() & (lane_count / 2 - 1U);
    const auto in_first = Warp::below(Warp::lane_numbers(), lanes(lane_count / 2));
    if ((2 * pair & (period_ - 1)) == 0) states_ = lanes(0U);
    lanes next[2];
    ECQ_UNROLL
    for (unsigned i = 0; i < 2; ++i) {
      const lanes added = by_parities(indices[i]);
      const lanes first = Warp::shuffle(by_state_, states_ >> (8 * i)) ^ added;  // holds in the first half
      const lanes second = Warp::shuffle(by_state_, Warp::shuffle(first, first_half)) ^ added;
      next[i] = Warp::shuffle(second, first_half | lanes(lane_count / 2));
      indices[i] = codes(indices[i], Warp::select(in_first, first, second));
    }
    states_ = Warp::merge_bits(next[0], next[1] << 8, 0xFFU);
  }

 private:
  static constexpr unsigned group_bits = 7;
  static_assert(1U << group_bits == group_symbols && lane_count == 32 && rounds_per_group == 4);

  /// Returns the state after four indices of `parities`, the first one lowest, from `state` on. The highest bit of byte
  /// i is the quantiser of index i. Shuffles use only the state as the number of a lane.
  ECQ_HOST_DEVICE static std::uint32_t after(const trellis& walk, unsigned state, unsigned parities) {
    std::uint32_t quantizers = 0;
    ECQ_UNROLL
    for (unsigned i = 0; i < rounds_per_group; ++i) {
      quantizers |= trellis::quantizer(state) << (8 * i + 7);
      state = walk.next(state, parities >> i & 1U);
    }
    return quantizers | state;
  }

  ECQ_HOST_DEVICE lanes by_parities(const lanes& indices) const {
    // The product moves the lowest bit of each byte into the highest four.
    return Warp::shuffle(by_parities_, ((indices & 0x01010101U) * lanes(0x10204080U)) >> 28);
  }

  /// Returns trellis::code() of each byte, with the quantisers of after().
  ECQ_HOST_DEVICE static lanes codes(const lanes& indices, const lanes& quantizers) {
    return Warp::merge_bits(indices << 1, quantizers >> 7, 0xFEFEFEFEU);
  }

  std::uint32_t period_;           ///< groups between two returns to state 0; 0: no trellis
  lanes by_state_ = lanes(0U);     ///< entry s: after() state s and even indices
  lanes by_parities_ = lanes(0U);  ///< entry p: after() state 0 and indices of parities p
  lanes states_ = lanes(0U);       ///< after() of the previous group; for walk_two(), a byte for each word
};

}  // namespace ecq
