#include "ecq/calibrated/trellis_feedback.hpp"

#include <gtest/gtest.h>

#include <Eigen/Core>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "ecq/analysis/code_statistics.hpp"
#include "ecq/calibrated/error_feedback.hpp"
#include "ecq/calibrated/input_moments.hpp"
#include "ecq/entropy/trellis_walk.hpp"
#include "ecq/quantize/trellis_codes.hpp"
#include "ecq/quantize/trellis_indices.hpp"
#include "support/weights.hpp"

namespace {

using ecq::cpu;
using ecq::errc;
using ecq::input_factor;
using ecq::input_moments;
using ecq::instruction_set;
using ecq::matrix_view;
using ecq::trellis;
using ecq::detail::trellis_feedback;
using ecq::detail::trellis_order;

/// Returns moments of columns that are correlated with their neighbours.
input_moments moments_of(std::size_t columns) {
  input_moments moments;
  moments.width = columns;
  moments.tokens = 1000000;
  moments.second.resize(columns * columns);
  for (std::size_t row = 0; row < columns; ++row) {
    for (std::size_t column = 0; column < columns; ++column) {
      const double scales = (1.5 + std::sin(static_cast<double>(row))) * (1.5 + std::sin(static_cast<double>(column)));
      const double distance = static_cast<double>(row) - static_cast<double>(column);
      const double far = std::cos(distance * 0.7) * 0.3;
      moments.second[row * columns + column] = scales * (0.6 * std::exp(-std::fabs(distance) / 9) + far);
      if (row == column) moments.second[row * columns + column] += 0.1 * scales;
    }
  }
  return moments;
}

input_factor factor_of(const input_moments& moments, std::uint64_t first = 0) {
  const trellis_order order(moments.width, first);
  auto made = input_factor::make(cpu{}, ecq::detail::in_order(moments, order.columns()));
  EXPECT_TRUE(made) << made.error().to_string();
  return std::move(*made);
}

std::vector<std::uint8_t> codes_of(const trellis_feedback& how, const std::vector<float>& weights, std::size_t columns,
                                   const cpu& backend = {}) {
  std::vector<std::uint8_t> codes(weights.size());
  const auto done =
      how.quantize(backend, matrix_view<const float>(weights.data(), weights.size() / columns, columns), codes);
  EXPECT_TRUE(done) << done.error().to_string();
  return codes;
}

/// Returns tr((W - Q) H (W - Q)^T).
double loss_of(const std::vector<float>& weights, const std::vector<std::uint8_t>& codes, float step,
               const input_moments& moments) {
  using matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const auto columns = static_cast<Eigen::Index>(moments.width);
  matrix error(static_cast<Eigen::Index>(weights.size()) / columns, columns);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    error.data()[i] = static_cast<double>(weights[i] - ecq::int8::decode(codes[i]) * step);
  }
  const Eigen::Map<const matrix> second(moments.second.data(), columns, columns);
  return (error * second).cwiseProduct(error).sum();
}

TEST(TrellisOrder, GivesEachLaneOneClassOfASetInEveryRow) {
  for (const std::size_t first : {0U, 8U, 35U, 127U, 1000U}) {
    for (const std::size_t columns : {4U, 64U, 100U, 128U, 172U, 192U, 200U, 256U, 448U, 1152U}) {
      const trellis_order order(columns, first);
      std::vector<bool> seen(columns);
      for (const std::uint32_t column : order.columns()) seen[column] = true;
      EXPECT_EQ(std::count(seen.begin(), seen.end(), true), columns) << columns;
      for (std::size_t row = 0; row < 40; ++row) {
        for (std::size_t set = 0; set < order.sets(); ++set) {
          for (std::size_t index = 0; index < order.classes(); ++index) {
            const std::size_t lane = order.lane(set, index, first, row);
            EXPECT_EQ(order.lane(set, index == 0 ? order.classes() - 1 : index - 1, first, row + 1), lane);
            for (std::size_t place = order.place(set, index); place < order.place(set, index + 1); ++place) {
              ASSERT_EQ(trellis::lane(first + row * columns + order.columns()[place]), lane) << columns << ' ' << first;
              if (place == order.place(set, index)) continue;
              ASSERT_LT(order.columns()[place - 1], order.columns()[place]) << columns;  // in the order of the lane
            }
          }
        }
      }
    }
  }
  EXPECT_EQ(trellis_order(256, 0).sets(), 32);
  EXPECT_EQ(trellis_order(192, 0).sets(), 16);
  EXPECT_EQ(trellis_order(200, 0).sets(), 2);
  EXPECT_EQ(trellis_order(100, 0).sets(), 1);
  EXPECT_EQ(trellis_order(100, 0).classes(), 32);
  EXPECT_FALSE(trellis_order(99, 0).has_classes());
}

TEST(TrellisOrder, MovesMomentsWithTheirColumns) {
  for (const std::size_t columns : {1U, 5U, 128U, 192U, 256U}) {
    input_moments moments = moments_of(columns);
    moments.cross = moments.second;
    for (double& value : moments.cross) value += 1;
    const trellis_order order(columns, 0);
    const input_moments moved = ecq::detail::in_order(moments, order.columns());
    for (std::size_t row = 0; row < columns; ++row) {
      for (std::size_t column = 0; column < columns; ++column) {
        const std::size_t from = order.columns()[row] * columns + order.columns()[column];
        ASSERT_EQ(moved.second[row * columns + column], moments.second[from]);
        ASSERT_EQ(moved.cross[row * columns + column], moments.cross[from]);
      }
    }
  }
}

TEST(TrellisFeedback, MakesCodesThatLieOnTheTrellis) {
  constexpr std::size_t behind = 300;
  for (const std::size_t columns : {1U, 3U, 36U, 64U, 100U, 192U, 200U, 256U}) {
    const std::vector<float> weights = ecq_test::gaussian(150, columns, columns, 1.0F);
    const std::pair<std::size_t, unsigned> begins[] = {{0, 2}, {1027, 4}, {13 * columns, 5}};
    for (const auto& [first, other_bits] : begins) {
      const input_factor factor = factor_of(moments_of(columns), first);
      for (const unsigned state_bits : {3U, other_bits}) {
        const trellis walk{state_bits, state_bits == 3 ? 14U : 8 + state_bits};
        const auto made = codes_of(
            {.input = &factor, .first = first, .walk = walk, .bits = ecq::detail::usual_index_bits(), .step = 0.3F},
            weights, columns);
        // Zeros before and behind the matrix stand for other matrices of the stream.
        std::vector<std::uint8_t> codes(first), indices(first + made.size() + behind);
        codes.insert(codes.end(), made.begin(), made.end());
        codes.resize(indices.size());
        EXPECT_EQ(ecq::detail::indices_of_codes(walk, codes, indices.data(), {}), codes.size())
            << columns << " columns from " << first << ", 2^" << state_bits << " states";
        EXPECT_EQ(std::count(indices.end() - behind, indices.end(), 0), behind);
      }
    }
  }
}

TEST(TrellisFeedback, IsTheSameForAllInstructionSetsAndThreads) {
  constexpr std::pair<std::size_t, unsigned> shapes[] = {{72, 3},  {72, 5},  {100, 3}, {100, 4},
                                                         {192, 3}, {256, 2}, {256, 4}};
  for (const auto& [columns, state_bits] : shapes) {
    std::vector<float> weights = ecq_test::gaussian(300, columns, 3, 1.0F);
    weights[7] = 500;  // beyond all codes
    weights[8] = 0;
    const input_factor factor = factor_of(moments_of(columns));
    const trellis_feedback how{
        .input = &factor, .walk = {state_bits, 12}, .bits = ecq::detail::usual_index_bits(), .step = 0.5F};
    const auto scalar = codes_of(how, weights, columns, {.isa = instruction_set::scalar});
    EXPECT_EQ(codes_of(how, weights, columns, {.threads = 3}), scalar)
        << columns << " columns, 2^" << state_bits << " states";
  }
}

TEST(TrellisFeedback, LowersTheErrorOfOutputsAtTheSameRate) {
  for (const std::size_t columns : {192U, 200U, 256U}) {
    const std::vector<float> weights = ecq_test::gaussian(512, columns, 5, 1.0F);
    const input_moments moments = moments_of(columns);
    auto natural = input_factor::make(cpu{}, moments);
    ASSERT_TRUE(natural);
    std::vector<std::uint8_t> rounded(weights.size());
    ecq::bf16 scale;
    const ecq::error_feedback scalar{.input = &*natural, .scale = 0.5F};
    const matrix_view<const float> view(weights.data(), 512, columns);
    ASSERT_TRUE(scalar.quantize<ecq::int8>({}, view, rounded, {&scale, 1}));
    const auto quality = [&](double loss, double bits) { return 10 * std::log10(loss) + 6.02 * bits; };
    const double before =
        quality(loss_of(weights, rounded, 0.5F, moments), ecq::entropy_of(*ecq::count_codes(cpu{}, rounded)));
    const input_factor factor = factor_of(moments);
    const auto codes =
        codes_of({.input = &factor, .bits = ecq::detail::usual_index_bits(), .step = 0.27F}, weights, columns);
    const auto made = ecq::count_codes(cpu{}, codes);
    const double after =
        quality(loss_of(weights, codes, 0.27F, moments), ecq::entropy_of(ecq::counts_of_indices(*made)));
    EXPECT_LT(after, before - 1.6) << columns << " columns, in dB";
  }
}

TEST(SurvivorPaths, FindTheBestOfAllPathsAsLongAsNoneMeet) {
  // Three steps from a state lead to each of eight states by one path.
  const std::vector<float> values = ecq_test::gaussian(100, 9, 11, 2.0F);
  for (std::size_t round = 0; round < 100; ++round) {
    const float* const weights = &values[round * 9];
    const float* const targets = weights + 3;
    const std::array<float, 3> importance{1.0F, 0.4F, 2.0F};
    const std::array<float, 9> feedback{0, weights[6], weights[7], 0, 0, weights[8], 0, 0, 0};
    const ecq::detail::path_rule rule{.walk = {3, 14}, .step = 0.7F, .index_costs = ecq::detail::usual_index_bits()};
    const unsigned begin = round % 8;
    double least = std::numeric_limits<double>::max();
    std::array<int, 3> best{}, best_to_zero{};
    for (unsigned choice = 0; choice < 8; ++choice) {
      unsigned state = begin;
      std::array<int, 3> codes{};
      std::array<double, 3> errors{};
      double cost = 0;
      for (std::size_t at = 0; at < 3; ++at) {
        double target = static_cast<double>(targets[at]);
        for (std::size_t j = 0; j < at; ++j) target -= static_cast<double>(feedback[j * 3 + at]) * errors[j];
        const unsigned parity = (choice >> at) & 1;
        double nearest = std::numeric_limits<double>::max();
        for (int code = -127; code <= 127; ++code) {
          const auto wrapped = static_cast<std::uint8_t>(code);
          if ((wrapped & 1U) != trellis::quantizer(state) || (trellis::index(wrapped) & 1U) != parity) continue;
          const double away = std::fabs(target / static_cast<double>(rule.step) - code);
          if (!(away < nearest)) continue;
          nearest = away;
          codes[at] = code;
        }
        const auto index = static_cast<std::int8_t>(trellis::index(static_cast<std::uint8_t>(codes[at])));
        cost += nearest * nearest * static_cast<double>(importance[at]) +
                static_cast<double>(rule.index_costs[static_cast<std::size_t>(index + 64)]);
        errors[at] = codes[at] * static_cast<double>(rule.step) - static_cast<double>(weights[at]);
        state = rule.walk.next(state, parity);
      }
      if (state == 0) best_to_zero = codes;
      if (!(cost < least)) continue;
      least = cost;
      best = codes;
    }
    for (const instruction_set isa : {instruction_set::scalar, ecq::chosen_instruction_set({})}) {
      ecq::detail::survivor_paths paths(rule, isa);
      paths.begin(begin);
      paths.add({3, weights, targets, importance.data(), feedback.data(), 3});
      using last = ecq::detail::survivor_paths::last;
      for (const auto& [where, codes] : {std::pair(last::any, best), std::pair(last::zero, best_to_zero)}) {
        const auto found = paths.finish(where);
        ASSERT_TRUE(found);
        for (std::size_t at = 0; at < 3; ++at) ASSERT_EQ(found->codes[at], codes[at]) << round << ' ' << at;
      }
    }
  }
}

TEST(TrellisFeedbackErrors, NameWhatDoesNotFit) {
  std::vector<float> weights = ecq_test::gaussian(4, 6);
  const matrix_view<const float> view(weights.data(), 4, 6);
  std::vector<std::uint8_t> codes(24);
  const input_factor factor = factor_of(moments_of(6)), narrow = factor_of(moments_of(5));
  const auto code_of = [&](const trellis_feedback& how) {
    const auto done = how.quantize({}, view, codes);
    return done ? errc::ok : done.error().code();
  };
  EXPECT_EQ(code_of({.input = &factor}), errc::ok);
  EXPECT_EQ(code_of({.input = &narrow}), errc::invalid_argument);
  EXPECT_EQ(code_of({.input = &factor, .correction = -0.5}), errc::invalid_argument);
  codes.resize(23);
  EXPECT_EQ(code_of({.input = &factor}), errc::invalid_argument);
  codes.resize(24);
  weights[13] = std::numeric_limits<float>::quiet_NaN();
  const auto done = trellis_feedback{.input = &factor}.quantize({}, view, codes);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().to_string(), "non-finite weight: weight at row 2, column 1 is NaN");
  weights[13] = 3e38F;  // overflows FP32 with a step of 1e-30
  EXPECT_EQ(code_of({.input = &factor, .step = 1e-30F}), errc::non_finite);
}

}  // namespace
