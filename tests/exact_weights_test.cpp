// Weights that are kept exact, besides the codes of their matrix.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "ecq/ecq.hpp"
#include "ecq/methods/any_method.hpp"
#include "support/weights.hpp"

namespace {

using ecq::cpu;
using ecq::errc;
using ecq::exact_weight;
using ecq::matrix_view;

constexpr std::size_t rows = 90, columns = 300;
const std::vector<std::uint64_t> positions = {0, 1, 299, 300, 4095, 4096, 8191, 8192, 20000, rows* columns - 1};

std::vector<float> weights_with_outliers() {
  auto weights = ecq_test::gaussian(rows, columns, 3);
  for (std::size_t i = 0; i < positions.size(); ++i) weights[positions[i]] = (i % 2 == 0 ? 3.0F : -7.0F) + weights[i];
  return weights;
}

template <class Method>
ecq::result<ecq::packed_block> packed(const Method& method, const std::vector<float>& weights,
                                      std::span<const std::uint64_t> exact) {
  const ecq::named_weights matrix{"m", ecq::weights_view(matrix_view(weights.data(), rows, columns)).with_exact(exact)};
  const ecq::any_method any = method;
  return ecq::detail::compress_block(cpu{}, **any.get(), {&matrix, 1}, {.chunk_bits = 12},
                                     ecq::detail::encode_function_of<ecq::rans>);
}

std::vector<ecq::any_method> methods() {
  return {ecq::entquant{.lambda = 14.5},
          {ecq::dtype::int8, ecq::entquant{.lambda = 10.0}},
          ecq::any_method::of<ecq::fp8_e4m3>(
              ecq::basic_entquant<ecq::row_root<>, ecq::per_group>{.lambda = 10.0, .granularity = {.size = 32}}),
          ecq::tcq{.lambda = 10.0},
          ecq::entrollm{},
          {ecq::dtype::uint4, ecq::entrollm{}}};
}

template <class Element>
std::vector<Element> decoded(const cpu& backend, const ecq::packed_block& block, std::size_t first_row,
                             std::size_t count) {
  std::vector<Element> out(count * columns);
  const auto decoder = ecq::block_decoder::open(block);
  EXPECT_TRUE(decoder) << decoder.error().to_string();
  const auto done = decoder->decode(backend, 0, first_row, matrix_view(out.data(), count, columns));
  EXPECT_TRUE(done) << done.error().to_string();
  return out;
}

TEST(ExactWeights, ComeBackAndChangeNoOthers) {
  const auto weights = weights_with_outliers();
  auto without = weights;
  for (const std::uint64_t position : positions) without[position] = 0;
  for (const ecq::any_method& method : methods()) {
    const auto block = packed(method, weights, positions);
    const auto of_others = packed(method, without, {});
    ASSERT_TRUE(block) << block.error().to_string();
    ASSERT_TRUE(of_others);
    EXPECT_EQ(block->stream, of_others->stream);
    EXPECT_EQ(block->size_bytes(), of_others->size_bytes() + 12 * positions.size());
    auto expected = decoded<float>(cpu{}, *of_others, 0, rows);
    for (const std::uint64_t position : positions) expected[position] = weights[position];
    EXPECT_EQ(decoded<float>(cpu{}, *block, 0, rows), expected);
    EXPECT_EQ(decoded<float>(cpu{.threads = 3}, *block, 0, rows), expected);
    for (const auto& [first, count] : {std::pair<std::size_t, std::size_t>{0, 1}, {1, 20}, {13, 2}, {89, 1}, {90, 0}}) {
      const std::vector<float> part(expected.begin() + static_cast<std::ptrdiff_t>(first * columns),
                                    expected.begin() + static_cast<std::ptrdiff_t>((first + count) * columns));
      EXPECT_EQ(decoded<float>(cpu{}, *block, first, count), part);
    }
    const auto narrow = decoded<ecq::bf16>(cpu{}, *block, 0, rows);
    for (const std::uint64_t position : positions) {
      EXPECT_EQ(narrow[position].bits, ecq::bf16(weights[position]).bits);
    }
  }
}

// Ten weights a hundred times as large as the others, in 27,000: their codes cost what they save, and Int8 clips them.
TEST(ExactWeights, SpareTheOthersTheirError) {
  const auto weights = weights_with_outliers();
  const auto error_at_3_bits = [&](ecq::dtype format, std::span<const std::uint64_t> exact) {
    const auto block = packed(ecq::any_method(format, ecq::entquant{.target_bits = 3.0}), weights, exact);
    EXPECT_TRUE(block) << block.error().to_string();
    EXPECT_NEAR(block->bits_per_weight(), 3.0, 0.02);
    const auto out = decoded<float>(cpu{}, *block, 0, rows);
    double error = 0;
    for (std::size_t i = 0; i < out.size(); ++i) error += std::pow(static_cast<double>(out[i] - weights[i]), 2);
    return error;
  };
  for (const ecq::dtype format : {ecq::dtype::fp8_e4m3, ecq::dtype::int8}) {
    EXPECT_LT(error_at_3_bits(format, positions), 0.9 * error_at_3_bits(format, {})) << ecq::to_string(format);
  }
}

TEST(ExactWeights, AreNoMatterWithoutLoss) {
  const auto weights = weights_with_outliers();
  const auto block = packed(ecq::lossless_weights{}, weights, positions);
  ASSERT_TRUE(block);
  EXPECT_TRUE(block->matrices[0].exact.empty());
  EXPECT_EQ(decoded<float>(cpu{}, *block, 0, rows), weights);
}

TEST(ExactWeights, AreRoundedToNarrowTypesAsOthersAre) {
  auto weights = weights_with_outliers();
  weights[299] = 1e6F;
  const auto block = packed(ecq::entquant{.lambda = 14.5}, weights, positions);
  ASSERT_TRUE(block);
  EXPECT_EQ(static_cast<float>(decoded<ecq::fp16>(cpu{}, *block, 0, rows)[299]), 65504.0F);
  EXPECT_EQ(decoded<float>(cpu{}, *block, 0, rows)[299], 1e6F);
}

TEST(ExactWeights, WrongPositionsAreAnError) {
  auto weights = weights_with_outliers();
  const auto code_of = [&](const std::vector<std::uint64_t>& exact) {
    const auto block = packed(ecq::entquant{.lambda = 14.5}, weights, exact);
    return block ? errc::ok : block.error().code();
  };
  EXPECT_EQ(code_of({5}), errc::ok);
  EXPECT_EQ(code_of({5, 5}), errc::invalid_argument);
  EXPECT_EQ(code_of({6, 5}), errc::invalid_argument);
  EXPECT_EQ(code_of({rows * columns}), errc::invalid_argument);
  EXPECT_EQ(code_of({~std::uint64_t{0}}), errc::invalid_argument);
  weights[5] = std::numeric_limits<float>::infinity();
  EXPECT_EQ(code_of({5}), errc::non_finite);
  EXPECT_EQ(code_of({6}), errc::non_finite);  // a weight that has to be quantised
}

TEST(ExactWeights, DamagedOnesAreRefused) {
  const auto weights = weights_with_outliers();
  auto block = packed(ecq::entquant{.lambda = 14.5}, weights, positions);
  ASSERT_TRUE(block);
  const auto opened = [&](std::vector<exact_weight> exact) {
    block->matrices[0].exact = std::move(exact);
    const auto decoder = ecq::block_decoder::open(*block);
    return decoder ? errc::ok : decoder.error().code();
  };
  EXPECT_EQ(opened({{7, 1.0F}, {8, -2.0F}}), errc::ok);
  EXPECT_EQ(opened({{8, 1.0F}, {7, -2.0F}}), errc::corrupt);
  EXPECT_EQ(opened({{7, 1.0F}, {7, 1.0F}}), errc::corrupt);
  EXPECT_EQ(opened({{rows * columns, 1.0F}}), errc::corrupt);
  EXPECT_EQ(opened({{~std::uint64_t{0}, 1.0F}}), errc::corrupt);
  EXPECT_EQ(opened({{7, std::numeric_limits<float>::quiet_NaN()}}), errc::corrupt);
  EXPECT_EQ(opened({{7, -std::numeric_limits<float>::infinity()}}), errc::corrupt);
  block = packed(ecq::lossless_weights{}, weights, {});
  ASSERT_TRUE(block);
  EXPECT_EQ(opened({{7, 1.0F}}), errc::corrupt);
}

}  // namespace
