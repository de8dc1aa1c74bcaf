#pragma once
/// \file
/// Search for a path through a trellis on which each weight compensates for the errors of the weights before it. Every
/// surviving path has targets of its own (per-survivor processing; Raheli, Polydoros and Tzou, 1995).

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "ecq/base/config.hpp"
#include "ecq/base/instruction_set.hpp"
#include "ecq/calibrated/survivor_paths_avx2.hpp"
#include "ecq/calibrated/survivor_paths_neon.hpp"
#include "ecq/calibrated/survivor_run.hpp"
#include "ecq/entropy/trellis.hpp"
#include "ecq/quantize/trellis_lanes.hpp"
#include "ecq/quantize/trellis_search.hpp"

namespace ecq::detail {

/// Rule for the codes of paths and their costs: importance * (target - weight)^2 + the cost of the index, in squares of
/// the step. Each quantiser offers its nearest code with an even index and its nearest code with an odd one.
struct path_rule {
  trellis walk{};
  float step = 1;  ///< of weights, between neighbouring codes
  index_bits index_costs{};
};

/// Weights of a row that follow one another in a lane.
struct lane_weights {
  std::size_t count = 0;
  const float* weights = nullptr;
  const float* targets = nullptr;  ///< values that they should become, before feedback among them
  const float* importance = nullptr;
  const float* feedback = nullptr;  ///< of weight j to weight k > j, at j * stride + k
  std::size_t stride = 0;
};

/// Largest target, in steps. Targets beyond it get the outermost codes of either quantiser, with indices of either
/// parity.
inline constexpr float largest_target = 125.5F;

/// Extends the paths by some weights. `costs` has a number for each state. `futures` has room for a number for each
/// weight and state, which errors on the path to that state add to the target of the weight. Writes, for each weight
/// and state, the code by which the state is reached and, as a bit of `odd`, the parity of its index.
template <unsigned StateBits>
ECQ_EXACT_FLOAT inline void extend_paths(const path_rule& rule, const lane_weights& some, float* costs, float* futures,
                                         std::int8_t* codes, std::uint32_t* odd) {
  ECQ_EXACT_FLOAT_BODY
  constexpr trellis walk{.state_bits = StateBits};
  constexpr unsigned states = walk.states();
  constexpr float pushed = 0x1.8p23F;  // adding it rounds to an integer
  constexpr float offsets[2][2] = {{0, 2}, {1, 3}};
  const float per_step = 1.0F / rule.step;
  std::fill_n(futures, some.count * states, 0.0F);
  for (std::size_t at = 0; at < some.count; ++at) {
    float sums[2][states], made[2][states];
    for (unsigned state = 0; state < states; ++state) {
      const float exact = (some.targets[at] + futures[at * states + state]) * per_step;
      const float below = exact < largest_target ? exact : largest_target;
      const float bounded = below > -largest_target ? below : -largest_target;
      const unsigned quantizer = trellis::quantizer(state);
      for (unsigned parity = 0; parity < 2; ++parity) {
        const float offset = offsets[quantizer][parity];
        const float fourth = ((bounded - offset) * 0.25F + pushed) - pushed;
        const float code = fourth * 4.0F + offset;
        const auto number = static_cast<std::size_t>((static_cast<int>(code) >> 1) - smallest_index);
        made[parity][state] = code;
        const float away = exact - code;
        sums[parity][state] = costs[state] + (away * away * some.importance[at] + rule.index_costs[number]);
      }
    }
    float errors[states];
    unsigned from[states];
    odd[at] = 0;
    for (unsigned state = 0; state < states; ++state) {
      const unsigned even_from = state_before(walk, state, 0), odd_from = state_before(walk, state, 1);
      const bool is_odd = sums[1][odd_from] < sums[0][even_from];
      from[state] = is_odd ? odd_from : even_from;
      costs[state] = sums[is_odd][from[state]];
      const float code = made[is_odd][from[state]];
      errors[state] = code * rule.step - some.weights[at];
      codes[at * states + state] = static_cast<std::int8_t>(code);
      odd[at] |= std::uint32_t{is_odd} << state;
    }
    for (std::size_t later = at + 1; later < some.count; ++later) {
      const float factor = some.feedback[at * some.stride + later];
      float* const future = futures + later * states;
      float before[states];
      std::copy_n(future, states, before);
      for (unsigned state = 0; state < states; ++state) future[state] = before[from[state]] - factor * errors[state];
    }
  }
}

/// Paths of one lane from a known state on. Keeps memory from one search to the next.
class survivor_paths {
 public:
  survivor_paths(const path_rule& rule, instruction_set isa) : rule_(rule), isa_(isa) {}

  void begin(unsigned state) {
    costs_.fill(unreachable);
    costs_[state] = 0;
    length_ = 0;
  }

  void add(const lane_weights& some) {
    const std::size_t states = rule_.walk.states();
    futures_.resize((std::max)(futures_.size(), some.count * states));
    codes_.resize((std::max)(codes_.size(), (length_ + some.count) * states));
    odd_.resize((std::max)(odd_.size(), length_ + some.count));
    std::int8_t* const codes = codes_.data() + length_ * states;
    std::uint32_t* const odd = odd_.data() + length_;
    switch (rule_.walk.state_bits) {
      case 2: extend<2>(some, codes, odd); break;
      case 3: extend<3>(some, codes, odd); break;
      case 4: extend<4>(some, codes, odd); break;
      default: extend<5>(some, codes, odd); break;
    }
    length_ += some.count;
    // Costs stay near 0, however long paths become.
    const float least = *std::min_element(costs_.begin(), costs_.begin() + static_cast<std::ptrdiff_t>(states));
    for (std::size_t state = 0; state < states; ++state) costs_[state] -= least;
  }

  /// State in which a path may end.
  enum class last : bool {
    any,  ///< in the state that costs least, the lowest if several do
    zero  ///< in state 0, which even indices never leave
  };

  /// Codes of the cheapest path through all weights since begin(); valid until another path is begun.
  struct path {
    const std::int8_t* codes;
    unsigned last_state;
  };

  /// Returns the cheapest path, or nothing if a target was beyond FP32. Precondition: `where` can be reached.
  std::optional<path> finish(last where) {
    const unsigned states = rule_.walk.states();
    for (unsigned state = 0; state < states; ++state) {
      if (!(costs_[state] < 2 * unreachable)) return {};
    }
    const auto least = where == last::zero ? costs_.begin() : std::min_element(costs_.begin(), costs_.begin() + states);
    best_.resize((std::max)(best_.size(), length_));
    const auto last_state = static_cast<unsigned>(least - costs_.begin());
    unsigned state = last_state;
    for (std::size_t at = length_; at-- > 0;) {
      best_[at] = codes_[at * states + state];
      state = state_before(rule_.walk, state, (odd_[at] >> state) & 1U);
    }
    return path{best_.data(), last_state};
  }

 private:
  static constexpr float unreachable = 0x1p60F;

  template <unsigned StateBits>
  void extend(const lane_weights& some, std::int8_t* codes, std::uint32_t* odd) {
#if ECQ_X86 || ECQ_NEON
    if constexpr (StateBits >= 3) {
      const survivor_run run{.step = rule_.step,
                             .index_costs = rule_.index_costs.data() - smallest_index,
                             .largest_target = largest_target,
                             .count = some.count,
                             .weights = some.weights,
                             .targets = some.targets,
                             .importance = some.importance,
                             .feedback = some.feedback,
                             .stride = some.stride,
                             .costs = costs_.data(),
                             .futures = futures_.data(),
                             .codes = codes,
                             .odd = odd};
#if ECQ_X86
      if (isa_ >= instruction_set::avx2) return avx2::extend_paths<StateBits>(run);
#else
      if (isa_ == instruction_set::neon) return neon::extend_paths<StateBits>(run);
#endif
    }
#endif
    extend_paths<StateBits>(rule_, some, costs_.data(), futures_.data(), codes, odd);
  }

  path_rule rule_;
  instruction_set isa_;
  std::array<float, 1U << trellis::max_state_bits> costs_{};
  std::size_t length_ = 0;
  std::vector<float> futures_;
  std::vector<std::int8_t> codes_, best_;
  std::vector<std::uint32_t> odd_;
};

}  // namespace ecq::detail
