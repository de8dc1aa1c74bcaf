#include "../../examples/generate/synthetic_checkpoint.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <set>
#include <string>
#include <vector>

namespace {

using ecq::bf16;
using ecq_examples::fill;
using ecq_examples::find_preset;
using ecq_examples::preset;
using ecq_examples::synthetic_tensor;
using ecq_examples::tensors;

std::vector<bf16> made(const synthetic_tensor& tensor, std::uint64_t seed = 1) {
  std::vector<bf16> weights(static_cast<std::size_t>(tensor.size()));
  fill(tensor, seed, 0, weights);
  return weights;
}

bool same(std::span<const bf16> left, std::span<const bf16> right) {
  return left.size() == right.size() && std::memcmp(left.data(), right.data(), left.size_bytes()) == 0;
}

synthetic_tensor named(const preset& model, const std::string& name) {
  for (auto& tensor : tensors(model)) {
    if (tensor.name == name) return tensor;
  }
  ADD_FAILURE() << name;
  return {};
}

struct moments {
  double mean = 0;
  double deviation = 0;
  double kurtosis = 0;
};

template <class Values>
moments moments_of(const Values& values) {
  double sum = 0, squares = 0, fourths = 0;
  for (const auto value : values) sum += static_cast<double>(value);
  const double mean = sum / static_cast<double>(values.size());
  for (const auto value : values) {
    const double square = (static_cast<double>(value) - mean) * (static_cast<double>(value) - mean);
    squares += square;
    fourths += square * square;
  }
  const double variance = squares / static_cast<double>(values.size());
  return {mean, std::sqrt(variance), fourths / static_cast<double>(values.size()) / (variance * variance)};
}

TEST(QuantileTable, IsTheInverseOfTheNormalDistribution) {
  using table = ecq_examples::quantile_table;
  const auto& values = ecq_examples::gaussian_quantiles().values;
  for (std::size_t cell = 0; cell < values.size(); ++cell) {
    const auto octave = static_cast<double>(table::octaves - 1) - static_cast<double>(cell / table::steps);
    const double tail = std::exp2(-octave - 2) * (1 + static_cast<double>(cell % table::steps) / table::steps);
    EXPECT_NEAR(std::erfc(static_cast<double>(values[cell]) / std::sqrt(2.0)) / 2 / tail, 1, 5e-6) << cell;
  }
}

TEST(QuantileTable, MomentsOfTheDistributions) {
  for (const unsigned degrees : {0U, 6U, 8U, 12U}) {
    const auto& quantiles = ecq_examples::student_t_quantiles(degrees);
    std::vector<float> values(std::size_t{1} << 20);
    for (std::size_t index = 0; index < values.size(); ++index) {
      values[index] = quantiles(ecq_examples::detail::mixed(index));
    }
    const moments found = moments_of(values);
    EXPECT_NEAR(found.mean, 0, 0.004) << degrees;
    EXPECT_NEAR(found.deviation, 1, 0.01) << degrees;
    const double expected = degrees == 0 ? 3.0 : 3 + 6 / (static_cast<double>(degrees) - 4);
    EXPECT_NEAR(found.kurtosis, expected, degrees == 0 ? 0.02 : expected * 0.2) << degrees;
  }
}

TEST(QuantileTable, EveryRandomWordGivesAFiniteNumber) {
  const auto& quantiles = ecq_examples::student_t_quantiles(6);
  for (int shift = 0; shift < 64; ++shift) {
    for (const std::uint64_t bits : {~std::uint64_t{0}, std::uint64_t{1}, ~std::uint64_t{0} >> 1}) {
      const float up = quantiles(bits >> shift & ~(std::uint64_t{1} << 63));
      EXPECT_TRUE(up >= 0 && up < 100) << shift;
      EXPECT_EQ(quantiles(bits >> shift | std::uint64_t{1} << 63), -up);
    }
  }
}

TEST(ExactExp, AgreesWithTheLibrary) {
  for (double exponent = -30; exponent < 30; exponent += 0.37) {
    EXPECT_NEAR(ecq_examples::exact_exp(exponent) / std::exp(exponent), 1, 1e-14);
  }
}

TEST(SyntheticCheckpoint, LooksLikeLlama) {
  for (const preset& model : ecq_examples::presets) {
    const auto all = tensors(model);
    EXPECT_EQ(all.size(), model.layers * 9 + 3);
    EXPECT_EQ(model.hidden % model.heads, 0U);
    EXPECT_EQ(model.heads % model.key_value_heads, 0U);
    std::set<std::string> names;
    for (std::size_t index = 0; index < all.size(); ++index) {
      EXPECT_TRUE(names.insert(all[index].name).second) << all[index].name;
      EXPECT_EQ(all[index].index, index);
      EXPECT_EQ(all[index].columns, all[index].shape.back());
    }
    EXPECT_EQ(named(model, "model.layers.1.self_attn.k_proj.weight").shape,
              (std::vector<std::uint64_t>{model.hidden / model.heads * model.key_value_heads, model.hidden}));
    EXPECT_EQ(named(model, "model.layers.0.mlp.down_proj.weight").shape,
              (std::vector<std::uint64_t>{model.hidden, model.intermediate}));
    EXPECT_EQ(named(model, "model.norm.weight").shape, (std::vector<std::uint64_t>{model.hidden}));
  }
}

TEST(SyntheticCheckpoint, PresetsHaveTheSizesTheySay) {
  const auto weights = [](std::string_view name) {
    std::uint64_t count = 0;
    for (const auto& tensor : tensors(*find_preset(name))) count += tensor.size();
    return static_cast<double>(count);
  };
  EXPECT_NEAR(weights("tiny"), 0.50e6, 0.01e6);
  EXPECT_NEAR(weights("demo"), 64e6, 0.5e6);
  EXPECT_NEAR(weights("1b"), 1.1e9, 0.01e9);
  EXPECT_NEAR(weights("2b") * 2, 0x1p32, 0.01 * 0x1p32);
  EXPECT_FALSE(find_preset("70b"));
}

TEST(SyntheticCheckpoint, AnyRangeIsTheSameAlone) {
  for (const auto& tensor : tensors(*find_preset("tiny"))) {
    const auto whole = made(tensor);
    std::size_t first = 0;
    for (std::size_t length = 1; first < whole.size(); first += length, length = length * 3 + 1) {
      std::vector<bf16> part(std::min(length, whole.size() - first));
      fill(tensor, 1, first, part);
      EXPECT_TRUE(same(part, std::span(whole).subspan(first, part.size()))) << tensor.name << " from " << first;
    }
  }
}

TEST(SyntheticCheckpoint, ThreadsChangeNothing) {
  const auto tensor = named(*find_preset("demo"), "model.layers.1.mlp.down_proj.weight");
  const auto expected = made(tensor);
  for (const unsigned threads : {1U, 3U}) {
    std::vector<bf16> weights(expected.size());
    fill(ecq::cpu{.threads = threads}, tensor, 1, 0, weights);
    EXPECT_TRUE(same(weights, expected));
  }
}

TEST(SyntheticCheckpoint, SeedsAndTensorsDiffer) {
  const auto model = *find_preset("tiny");
  const auto gate = named(model, "model.layers.0.mlp.gate_proj.weight");
  const auto next_gate = named(model, "model.layers.1.mlp.gate_proj.weight");
  EXPECT_FALSE(same(made(gate, 1), made(gate, 2)));
  EXPECT_FALSE(same(made(gate, 1), made(next_gate, 1)));
  double product = 0;
  const auto left = made(gate, 1), right = made(gate, 2);
  for (std::size_t index = 0; index < left.size(); ++index) {
    product += static_cast<double>(left[index]) * static_cast<double>(right[index]);
  }
  const double scale = moments_of(left).deviation * moments_of(right).deviation;
  EXPECT_LT(std::fabs(product / static_cast<double>(left.size()) / scale), 0.03);
}

TEST(SyntheticCheckpoint, StatisticsOfTrainedWeights) {
  const auto model = *find_preset("demo");
  const auto query = named(model, "model.layers.1.self_attn.q_proj.weight");
  const auto weights = made(query);
  const moments all = moments_of(weights);
  EXPECT_NEAR(all.mean, 0, 0.001);
  EXPECT_GT(all.deviation, 0.02);
  EXPECT_LT(all.deviation, 0.06);
  EXPECT_GT(all.kurtosis, 5);
  EXPECT_LT(all.kurtosis, 20);

  std::vector<double> logarithms;
  double most = 0;
  for (std::size_t row = 0; row < query.shape[0]; ++row) {
    const auto values = std::span(weights).subspan(row * query.columns, query.columns);
    logarithms.push_back(std::log(moments_of(values).deviation));
    for (const bf16 value : values) most = std::max(most, std::fabs(static_cast<double>(value)));
  }
  EXPECT_NEAR(moments_of(logarithms).deviation, 0.35, 0.05);
  EXPECT_GT(most, 10 * all.deviation) << "outliers";
  EXPECT_LT(most, 60 * all.deviation);
}

TEST(SyntheticCheckpoint, ScaleGrowsWithDepth) {
  const auto model = *find_preset("demo");
  const auto first = moments_of(made(named(model, "model.layers.0.mlp.up_proj.weight"))).deviation;
  const auto last = moments_of(made(named(model, "model.layers.1.mlp.up_proj.weight"))).deviation;
  EXPECT_NEAR(last / first, 1.5, 0.05);
}

TEST(SyntheticCheckpoint, OneSuperWeight) {
  const auto model = *find_preset("demo");
  int found = 0;
  for (const auto& tensor : tensors(model)) {
    if (!tensor.super_weight) continue;
    ++found;
    EXPECT_EQ(tensor.name, "model.layers.1.mlp.down_proj.weight");
    ASSERT_LT(*tensor.super_weight, tensor.size());
    std::vector<bf16> one(1);
    fill(tensor, 9, *tensor.super_weight, one);
    EXPECT_EQ(one[0], ecq_examples::super_weight_value);
  }
  EXPECT_EQ(found, 1);
}

TEST(SyntheticCheckpoint, EveryWeightIsFinite) {
  for (const auto& tensor : tensors(*find_preset("tiny"))) {
    for (const bf16 weight : made(tensor, 123)) ASSERT_TRUE(bf16::is_finite(weight.bits)) << tensor.name;
  }
}

}  // namespace
