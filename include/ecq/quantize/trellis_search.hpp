#pragma once
/// \file
/// The search for the cheapest path through a trellis (Viterbi): codes near the weights, with indices of few bits.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "ecq/base/config.hpp"
#include "ecq/base/instruction_set.hpp"
#include "ecq/base/lanes.hpp"
#include "ecq/entropy/trellis.hpp"
#include "ecq/quantize/trellis_lanes.hpp"
#include "ecq/quantize/trellis_search_avx2.hpp"
#include "ecq/quantize/trellis_search_neon.hpp"

namespace ecq::detail {

/// Indices of a path are -64..63, those of the codes of Int8.
inline constexpr int smallest_index = -64;
inline constexpr std::size_t index_count = 128;

/// Largest magnitude of a weight, in steps between codes, that lies within the codes of both quantisers.
inline constexpr float largest_path_code = 126;

/// Bits that each index costs, by index - smallest_index.
using index_bits = std::array<float, index_count>;

/// Costs of the steps of a path: (weight - code)^2 + rate_weight * bits of the index. Weights are in steps between
/// codes.
///
/// Each quantiser has a best candidate for a weight among its even indices and one among its odd ones. They are found
/// beforehand for cells of weights, by the middle of a cell. A cell has four candidates, numbered 2 * quantiser +
/// parity. The cost of each candidate is a straight line, because costs leave out the term that depends on the weight
/// alone.
class path_costs {
 public:
  static constexpr float cells_per_step = 16;
  static constexpr float first_weight = -127;  ///< the beginning of the first cell
  static constexpr std::size_t cell_count = 4064;
  /// Weights beyond the limit or its negative count as these, which lie in the last cell and in the first one.
  static constexpr float limit = 126.96875F;

  struct alignas(32) cell {
    std::array<float, 4> costs;   ///< in the middle of the cell
    std::array<float, 4> slopes;  ///< by the distance from the middle
  };

  ECQ_EXACT_FLOAT path_costs(const index_bits& bits, float rate_weight) : cells_(cell_count), codes_(cell_count) {
    ECQ_EXACT_FLOAT_BODY
    for (std::size_t at = 0; at < cell_count; ++at) {
      const float middle = (static_cast<float>(at) + 0.5F) * (1 / cells_per_step) + first_weight;
      std::uint32_t codes = 0;
      for (unsigned candidate = 0; candidate < 4; ++candidate) {
        float least = (std::numeric_limits<float>::max)();
        std::int8_t best = 0;
        for (std::size_t number = candidate & 1; number < index_count; number += 2) {
          const auto index = static_cast<std::uint8_t>(static_cast<int>(number) + smallest_index);
          const auto code = static_cast<std::int8_t>(trellis::code(candidate >> 1, index));
          const float away = middle - static_cast<float>(code);
          const float cost = away * away + rate_weight * bits[number];
          if (!(cost < least)) continue;
          least = cost;
          best = code;
        }
        cells_[at].costs[candidate] = least;
        cells_[at].slopes[candidate] = 2 * (middle - static_cast<float>(best));
        codes |= std::uint32_t{static_cast<std::uint8_t>(best)} << (8 * candidate);
      }
      codes_[at] = static_cast<std::int32_t>(codes);
    }
  }

  const cell* cells() const noexcept { return cells_.data(); }
  /// Returns, for each cell, the codes of its candidates, 8 bits each, the first one lowest.
  const std::int32_t* codes() const noexcept { return codes_.data(); }

 private:
  std::vector<cell> cells_;
  std::vector<std::int32_t> codes_;
};

/// Search for the paths of runs of weights that lie between two returns to state 0. Keeps its memory for the next run.
class path_search {
 public:
  path_search(const trellis& walk, const path_costs& costs, instruction_set isa)
      : walk_(walk), costs_(&costs), isa_(isa) {}

  /// Writes codes for `weights`, the first of which is at `position` of the stream. Lanes begin in `states` and end in
  /// any state. Of paths that cost the same, the one whose last state is lowest is taken, then the one with even
  /// indices, from the end on. Costs are summed in FP32; behind every group of 128 positions, all sums of a lane are
  /// lowered by the least of them. Preconditions: no weight is NaN; no position of a weight after the first is a
  /// multiple of 2^period_bits.
  void find(std::uint64_t position, std::span<const float> weights, const lane_states& states,
            std::span<std::uint8_t> codes) {
    if (weights.empty()) return;
    const auto before = static_cast<std::size_t>(position % group_symbols);
    const std::size_t end = before + weights.size();
    const std::size_t groups = (end + group_symbols - 1) / group_symbols;
    weights_.resize(groups * group_symbols);
    codes_.resize(groups * group_symbols);
    std::fill_n(weights_.begin(), before, 0.0F);
    std::copy(weights.begin(), weights.end(), weights_.begin() + static_cast<std::ptrdiff_t>(before));
    std::fill(weights_.begin() + static_cast<std::ptrdiff_t>(end), weights_.end(), 0.0F);
    const std::size_t last_group = (groups - 1) * group_symbols;
    for (std::size_t lane = 0; lane < lane_count; ++lane) {
      const std::size_t at = lane * rounds_per_group;
      first_steps_[lane] = static_cast<std::int32_t>(std::clamp(before, at, at + rounds_per_group) - at);
      last_steps_[lane] = static_cast<std::int32_t>((groups - 1) * rounds_per_group +
                                                    std::clamp(end - last_group, at, at + rounds_per_group) - at);
    }
    search(groups, states);
    std::copy_n(codes_.begin() + static_cast<std::ptrdiff_t>(before), codes.size(), codes.begin());
  }

 private:
  static constexpr float unreachable = 0x1p60F;

  void search(std::size_t groups, const lane_states& states) {
#if ECQ_X86
    if (isa_ >= instruction_set::avx2) {
      return search_side_by_side<8>(groups, states, []<unsigned StateBits>(const lane_run& run) {
        avx2::search_eight_lanes<StateBits>(run, unreachable);
      });
    }
#elif ECQ_NEON
    if (isa_ == instruction_set::neon) {
      return search_side_by_side<4>(groups, states, []<unsigned StateBits>(const lane_run& run) {
        neon::search_four_lanes<StateBits>(run, unreachable);
      });
    }
#endif
    decisions_.resize(groups * rounds_per_group);
    for (std::size_t lane = 0; lane < lane_count; ++lane) search_lane(lane, groups, states[lane]);
  }

  /// Searches `Lanes` lanes at a time with kernel<state bits>(run).
  template <std::size_t Lanes, class Kernel>
  void search_side_by_side(std::size_t groups, const lane_states& states, const Kernel& kernel) {
    const std::size_t steps = groups * rounds_per_group;
    places_.resize(steps * Lanes);
    decisions_.resize(steps * Lanes);
    for (std::size_t lane = 0; lane < lane_count; lane += Lanes) {
      const lane_run run{costs_->cells()->costs.data(),
                         costs_->codes(),
                         path_costs::cells_per_step,
                         path_costs::first_weight,
                         path_costs::limit,
                         weights_.data() + lane * rounds_per_group,
                         groups,
                         first_steps_.data() + lane,
                         last_steps_.data() + lane,
                         states.data() + lane,
                         places_.data(),
                         decisions_.data(),
                         codes_.data() + lane * rounds_per_group};
      switch (walk_.state_bits) {
        case 2: kernel.template operator()<2>(run); break;
        case 3: kernel.template operator()<3>(run); break;
        case 4: kernel.template operator()<4>(run); break;
        default: kernel.template operator()<5>(run); break;
      }
    }
  }

  /// Returns the distance of a weight, bounded to the limits, from the beginning of the first cell.
  static float distance_of(float weight) noexcept {
    return std::clamp(weight, -path_costs::limit, path_costs::limit) - path_costs::first_weight;
  }

  static std::size_t cell_of(float distance) noexcept {
    return static_cast<std::size_t>(distance * path_costs::cells_per_step);
  }

  /// Returns the place of a lane's step in weights_ and codes_.
  static std::size_t place_of(std::size_t lane, std::size_t step) noexcept {
    return step / rounds_per_group * group_symbols + lane * rounds_per_group + step % rounds_per_group;
  }

  bool has_step(std::size_t lane, std::size_t step) const noexcept {
    return step >= static_cast<std::size_t>(first_steps_[lane]) && step < static_cast<std::size_t>(last_steps_[lane]);
  }

  ECQ_EXACT_FLOAT void search_lane(std::size_t lane, std::size_t groups, unsigned begin) {
    ECQ_EXACT_FLOAT_BODY
    const unsigned states = walk_.states();
    std::array<float, 1U << trellis::max_state_bits> costs, next;
    costs.fill(unreachable);
    costs[begin] = 0;
    const auto least = [&] { return std::min_element(costs.begin(), costs.begin() + states); };
    for (std::size_t step = 0; step < groups * rounds_per_group; ++step) {
      if (has_step(lane, step)) {
        const float distance = distance_of(weights_[place_of(lane, step)]);
        const std::size_t at = cell_of(distance);
        const float away = distance - (static_cast<float>(at) + 0.5F) * (1 / path_costs::cells_per_step);
        const path_costs::cell& cell = costs_->cells()[at];
        std::array<float, 4> added;
        for (std::size_t i = 0; i < 4; ++i) added[i] = cell.costs[i] + cell.slopes[i] * away;
        std::uint32_t decided = 0;
        for (unsigned state = 0; state < states; ++state) {
          const unsigned quantizer = state >> (walk_.state_bits - 1);
          const float even = costs[state_before(walk_, state, 0)] + added[2 * quantizer];
          const float odd = costs[state_before(walk_, state, 1)] + added[2 * quantizer + 1];
          next[state] = odd < even ? odd : even;
          decided |= std::uint32_t{odd < even} << state;
        }
        std::copy_n(next.begin(), states, costs.begin());
        decisions_[step] = static_cast<std::int32_t>(decided);
      }
      if (step % rounds_per_group == rounds_per_group - 1) {
        const float lowest = *least();
        for (unsigned state = 0; state < states; ++state) costs[state] -= lowest;
      }
    }
    auto state = static_cast<unsigned>(least() - costs.begin());
    for (std::size_t step = groups * rounds_per_group; step-- > 0;) {
      if (!has_step(lane, step)) continue;
      const unsigned parity = (static_cast<std::uint32_t>(decisions_[step]) >> state) & 1U;
      const unsigned candidate = 2 * (state >> (walk_.state_bits - 1)) + parity;
      const std::size_t place = place_of(lane, step);
      const auto codes = static_cast<std::uint32_t>(costs_->codes()[cell_of(distance_of(weights_[place]))]);
      codes_[place] = static_cast<std::uint8_t>(codes >> (8 * candidate));
      state = state_before(walk_, state, parity);
    }
  }

  trellis walk_;
  const path_costs* costs_;
  instruction_set isa_;
  std::array<std::int32_t, lane_count> first_steps_{}, last_steps_{};
  std::vector<float> weights_;
  std::vector<std::uint8_t> codes_;
  std::vector<std::int32_t> places_, decisions_;
};

}  // namespace ecq::detail
