#include "ecq/quantize/trellis_search.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "ecq/base/instruction_set.hpp"
#include "support/instruction_sets.hpp"
#include "support/weights.hpp"

namespace {

using ecq::instruction_set;
using ecq::trellis;
using ecq::detail::index_bits;
using ecq::detail::lane_states;
using ecq::detail::path_costs;
using ecq::detail::path_search;

constexpr float rate_weight = 0.4F;

index_bits some_bits() {
  index_bits bits{};
  for (std::size_t number = 0; number < bits.size(); ++number) {  // an index and its negative differ in cost
    const float index = static_cast<float>(number) - 64.0F;
    bits[number] = 1.25F + (index < 0 ? -0.7F : 0.8F) * index;
  }
  return bits;
}

double cost_of(double weight, int code, int index) {
  return (weight - code) * (weight - code) +
         static_cast<double>(rate_weight) * static_cast<double>(some_bits()[static_cast<std::size_t>(index + 64)]);
}

/// Returns the least cost of an index of `parity`, found among all of them.
double least_cost(double weight, unsigned quantizer, unsigned parity) {
  double least = std::numeric_limits<double>::infinity();
  for (int index = -64; index <= 63; ++index) {
    if ((static_cast<unsigned>(index) & 1U) != parity) continue;
    const auto code = static_cast<std::int8_t>(trellis::code(quantizer, static_cast<std::uint8_t>(index)));
    least = std::min(least, cost_of(weight, code, index));
  }
  return least;
}

/// Returns the index of a code that follows `state`, and advances the state. Fails if there is none.
int step(const trellis& walk, std::uint8_t& state, std::uint8_t code) {
  EXPECT_EQ(trellis::quantizer(state), code & 1U);
  const std::uint8_t index = trellis::index(code);
  state = static_cast<std::uint8_t>(walk.next(state, index & 1U));
  return static_cast<std::int8_t>(index);
}

std::vector<std::uint8_t> path_for(const trellis& walk, std::uint64_t position, const std::vector<float>& weights,
                                   const lane_states& states, instruction_set isa) {
  const path_costs costs(some_bits(), rate_weight);
  std::vector<std::uint8_t> codes(weights.size(), 0x55);
  path_search(walk, costs, isa).find(position, weights, states, codes);
  return codes;
}

lane_states some_states(const trellis& walk) {
  lane_states states{};
  for (std::size_t lane = 0; lane < states.size(); ++lane) {
    states[lane] = static_cast<std::uint8_t>(lane * 5 % walk.states());
  }
  return states;
}

// Away from the middle of its cell, a candidate may lose to another one by twice their distance of 4 steps, times half
// a cell.
TEST(PathCosts, AreNearlyTheLeast) {
  const path_costs costs(some_bits(), rate_weight);
  for (double weight = -126.9; weight < 126.9; weight += 0.0137) {
    const auto at = static_cast<std::size_t>((weight + 127) * 16);
    const double away = weight + 127 - (static_cast<double>(at) + 0.5) / 16;
    for (unsigned candidate = 0; candidate < 4; ++candidate) {
      const auto& cell = costs.cells()[at];
      const double cost =
          static_cast<double>(cell.costs[candidate]) + static_cast<double>(cell.slopes[candidate]) * away;
      const double least = least_cost(weight, candidate / 2, candidate % 2);
      EXPECT_GE(cost + away * away, least - 1e-3) << weight << ' ' << candidate;
      EXPECT_LE(cost + away * away, least + 8.0 / 32 + 1e-3) << weight << ' ' << candidate;
    }
  }
}

// Eight codes of one lane have 2^8 paths, as every state has one best index of each parity.
TEST(PathSearch, FindsTheCheapestOfAllPaths) {
  ecq_test::random_numbers random(5);
  for (unsigned bits = trellis::min_state_bits; bits <= trellis::max_state_bits; ++bits) {
    const trellis walk{.state_bits = bits};
    const auto begin = some_states(walk);
    for (int round = 0; round < 20; ++round) {
      std::vector<float> weights(256);
      for (float& weight : weights) {  // in the middle of cells, where candidates are exact
        weight = (std::floor(static_cast<float>(random.normal() * 48)) + 0.5F) / 16;
      }
      for (const auto isa : ecq_test::machine_sets()) {
        const auto codes = path_for(walk, 1024, weights, begin, isa);
        for (const std::size_t lane : {0U, 7U, 13U, 31U}) {
          std::uint8_t state = begin[lane];
          double found = 0;
          const auto place = [&](std::size_t at) { return at / 4 * 128 + lane * 4 + at % 4; };
          for (std::size_t at = 0; at < 8; ++at) {
            const std::uint8_t code = codes[place(at)];
            const int index = step(walk, state, code);
            found += cost_of(static_cast<double>(weights[place(at)]), static_cast<std::int8_t>(code), index);
          }
          double costs[8][2][2];  // of each weight, by quantiser and parity
          for (std::size_t at = 0; at < 8; ++at) {
            for (unsigned i = 0; i < 4; ++i) {
              costs[at][i / 2][i % 2] = least_cost(static_cast<double>(weights[place(at)]), i / 2, i % 2);
            }
          }
          double least = std::numeric_limits<double>::infinity();
          for (unsigned parities = 0; parities < 256; ++parities) {
            double cost = 0;
            unsigned at_state = begin[lane];
            for (std::size_t at = 0; at < 8; ++at) {
              const unsigned parity = (parities >> at) & 1U;
              cost += costs[at][trellis::quantizer(at_state)][parity];
              at_state = walk.next(at_state, parity);
            }
            least = std::min(least, cost);
          }
          EXPECT_NEAR(found, least, 1e-3) << bits << " bits, lane " << lane;
        }
      }
    }
  }
}

// Runs begin and end anywhere in a group.
TEST(PathSearch, StaysOnTheTrellisAndIsTheSameWithEveryInstructionSet) {
  const auto all = ecq_test::student_t4(50, 100, 3, 4.0F);
  for (unsigned bits = trellis::min_state_bits; bits <= trellis::max_state_bits; ++bits) {
    const trellis walk{.state_bits = bits};
    for (const std::size_t position : {0U, 1U, 4U, 127U, 200U, 16384U + 77U}) {
      for (const std::size_t count : {0U, 1U, 3U, 5U, 127U, 128U, 129U, 300U, 5000U}) {
        const std::vector<float> weights(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count));
        const auto codes = path_for(walk, position, weights, some_states(walk), instruction_set::scalar);
        for (const auto isa : ecq_test::machine_sets()) {
          EXPECT_EQ(path_for(walk, position, weights, some_states(walk), isa), codes)
              << ecq::name_of(isa) << ", " << bits << " bits, " << count << " from " << position;
        }
        auto states = some_states(walk);
        for (std::size_t at = 0; at < count; ++at) step(walk, states[trellis::lane(position + at)], codes[at]);
      }
    }
  }
}

TEST(PathSearch, KeepsWithinTheIndicesOfAnyWeights) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  std::vector<float> weights;
  for (int i = 0; i < 300; ++i) {
    for (const float weight : {0.0F, -0.0F, 1e-40F, 126.0F, -126.9F, 127.5F, 1e30F, -infinity, infinity}) {
      weights.push_back(weight);
    }
  }
  const trellis walk{};
  for (const auto isa : ecq_test::machine_sets()) {
    const auto codes = path_for(walk, 0, weights, {}, isa);
    lane_states states{};
    for (std::size_t at = 0; at < codes.size(); ++at) {
      step(walk, states[trellis::lane(at)], codes[at]);
      const int code = static_cast<std::int8_t>(codes[at]);
      if (std::fabs(weights[at]) < 1) {
        EXPECT_LE(std::abs(code), 2);
      } else {
        EXPECT_GE(std::signbit(weights[at]) ? -code : code, 122);
      }
    }
  }
}

}  // namespace
