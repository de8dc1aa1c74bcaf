// Products of a group compared with each product alone.

#include "ecq/matmul/grouped_matmul.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "ecq/ecq.hpp"
#include "ecq/matmul/matmul.hpp"
#include "ecq/methods/any_method.hpp"
#include "ecq/methods/pack.hpp"
#include "support/instruction_sets.hpp"
#include "support/weights.hpp"

namespace {

using ecq::activation_type;
using ecq::cpu;
using ecq::errc;
using ecq::grouped_product;
using ecq::instruction_set;
using ecq::matmul_plan;
using ecq::matrix_view;
using ecq::packed_block;
using ecq_test::gaussian;

/// Returns a block of two matrices of `rows` x `columns`.
packed_block packed(const ecq::any_method& method, std::size_t rows, std::size_t columns) {
  const std::vector<float> weights = gaussian(2 * rows, columns, rows + columns);
  const std::vector<ecq::named_weights> matrices{
      {"first", matrix_view<const float>(weights.data(), rows, columns)},
      {"second", matrix_view<const float>(weights.data() + rows * columns, rows, columns)}};
  auto made = ecq::detail::compress_block(cpu{}, **method.get(), matrices, {.chunk_bits = 12},
                                          ecq::detail::encode_function_of<ecq::rans>);
  EXPECT_TRUE(made) << made.error().to_string();
  return std::move(*made);
}

/// Plans of different matrices, one of them without rows, and activations for each.
class GroupedMatmul : public testing::Test {
 protected:
  GroupedMatmul() {
    const ecq::any_method fp8 = ecq::entquant{.lambda = 14.5}, int8 = {ecq::dtype::int8, ecq::entquant{.lambda = 10}};
    for (const auto& [method, rows, columns] : {std::tuple{fp8, 40, 256}, std::tuple{int8, 3, 700},
                                                std::tuple{ecq::any_method(ecq::lossless_weights{}), 64, 128}}) {
      blocks.push_back(packed(method, static_cast<std::size_t>(rows), static_cast<std::size_t>(columns)));
    }
    const std::vector<ecq::row_selection> second{{1}}, none;
    for (const packed_block& block : blocks) {
      add(matmul_plan::of(cpu{}, block));
      add(matmul_plan::of(cpu{}, block, second));
    }
    add(matmul_plan::of(cpu{}, blocks.front(), none));
    for (std::size_t i = 0; i < plans.size(); ++i) {
      x.push_back(gaussian(most, plans[i].columns(), 90 + i, 1.0F));
      halves.emplace_back(x.back().begin(), x.back().end());
    }
  }

  void add(ecq::result<matmul_plan> plan) {
    ASSERT_TRUE(plan) << plan.error().to_string();
    plans.push_back(std::move(*plan));
  }

  /// Returns the number of rows of x for product `i`.
  static std::size_t rows_of(std::size_t i) { return std::vector<std::size_t>{1, 5, 0, 1, most, 2, 3}[i]; }

  template <class Element>
  matrix_view<const Element> input(std::size_t i) const {
    if constexpr (std::is_same_v<Element, float>) {
      return {x[i].data(), rows_of(i), plans[i].columns()};
    } else {
      return {halves[i].data(), rows_of(i), plans[i].columns()};
    }
  }

  std::vector<std::vector<float>> ones() const {
    std::vector<std::vector<float>> all;
    for (std::size_t i = 0; i < plans.size(); ++i) all.emplace_back(rows_of(i) * plans[i].rows(), 1.0F);
    return all;
  }
  matrix_view<float> output(std::size_t i, std::vector<float>& y) const {
    return {y.data(), rows_of(i), plans[i].rows()};
  }

  template <class Element>
  void expect_same(const cpu& backend, ecq::matmul_options how) const {
    std::vector<std::vector<float>> alone = ones(), together = ones();
    std::vector<grouped_product<Element>> group;
    for (std::size_t i = 0; i < plans.size(); ++i) {
      ASSERT_TRUE(ecq::matmul(backend, plans[i], input<Element>(i), output(i, alone[i]), how));
      group.push_back({&plans[i], input<Element>(i), output(i, together[i])});
    }
    const auto done = ecq::matmul(backend, group, how);
    ASSERT_TRUE(done) << done.error().to_string();
    for (std::size_t i = 0; i < plans.size(); ++i) EXPECT_EQ(together[i], alone[i]) << i;
  }

  static constexpr std::size_t most = 70;  // more than tasks take at a time
  std::vector<packed_block> blocks;
  std::vector<matmul_plan> plans;
  std::vector<std::vector<float>> x;
  std::vector<std::vector<ecq::bf16>> halves;
};

TEST_F(GroupedMatmul, GivesTheBitsOfEachAlone) {
  for (const instruction_set isa : ecq_test::machine_sets()) {
    for (const activation_type type : {activation_type::fp32, activation_type::bf16, activation_type::int8}) {
      for (const bool accumulate : {false, true}) {
        SCOPED_TRACE(std::string(ecq::name_of(isa)) + ", " + std::to_string(static_cast<int>(type)));
        const ecq::matmul_options how{.accumulate = accumulate, .activations = type};
        expect_same<float>(cpu{.threads = 1, .isa = isa}, how);
        expect_same<float>(cpu{.threads = 3, .isa = isa}, how);
        expect_same<ecq::bf16>(cpu{.threads = 3, .isa = isa}, how);
      }
    }
  }
}

TEST_F(GroupedMatmul, MayOverwriteItsOwnActivations) {
  std::vector<float> alone(plans[0].rows()), both = x[0];
  ASSERT_TRUE(ecq::matmul(cpu{}, plans[0], input<float>(0), output(0, alone)));
  const std::vector<grouped_product<float>> group{
      {&plans[0], matrix_view<const float>(both.data(), 1, plans[0].columns()), output(0, both)}};
  ASSERT_TRUE(ecq::matmul(cpu{}, group));
  both.resize(alone.size());
  EXPECT_EQ(both, alone);
}

TEST_F(GroupedMatmul, MayBeEmpty) { EXPECT_TRUE(ecq::matmul(cpu{}, std::vector<grouped_product<float>>())); }

TEST_F(GroupedMatmul, NamesTheProductThatDoesNotFit) {
  std::vector<std::vector<float>> y = ones();
  const auto error_of = [&](const grouped_product<float>& second) {
    const std::vector<grouped_product<float>> group{{&plans[0], input<float>(0), output(0, y[0])}, second};
    const auto done = ecq::matmul(cpu{.threads = 2}, group);
    return done ? "none" : done.error().to_string();
  };
  const std::string columns = error_of({&plans[3], input<float>(0), output(3, y[3])});
  EXPECT_TRUE(columns.starts_with("invalid argument: product 1: ")) << columns;
  const std::string outputs = error_of({&plans[3], input<float>(3), output(0, y[0])});
  EXPECT_TRUE(outputs.starts_with("invalid argument: product 1: ")) << outputs;
  const std::string rows = error_of({&plans[1], input<float>(1), {y[1].data(), 1, plans[1].rows()}});
  EXPECT_TRUE(rows.starts_with("invalid argument: product 1: ")) << rows;
}

// The stream changes after its plan was made.
TEST_F(GroupedMatmul, NamesTheProductThatIsDamaged) {
  std::vector<std::vector<float>> y = ones();
  const std::vector<grouped_product<float>> group{{&plans[0], input<float>(0), output(0, y[0])},
                                                  {&plans[4], input<float>(4), output(4, y[4])}};
  std::size_t found = 0;
  std::vector<std::byte>& stream = blocks[2].stream;
  for (std::size_t at = stream.size() / 2; at < stream.size(); at += 97) {
    stream[at] ^= std::byte{0x55};
    const auto done = ecq::matmul(cpu{.threads = 2}, group);
    stream[at] ^= std::byte{0x55};
    if (done) continue;  // wrong weights, which only checksums detect
    ++found;
    EXPECT_EQ(done.error().code(), errc::corrupt);
    EXPECT_TRUE(done.error().message().starts_with("product 1: ")) << done.error().to_string();
  }
  EXPECT_GT(found, 0U);
}

}  // namespace
