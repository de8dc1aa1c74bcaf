// Products of coded weights with quantised activations against sums of integers.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ecq/base/worker_pool.hpp"
#include "ecq/ecq.hpp"
#include "ecq/matmul/eigen_product.hpp"
#include "ecq/matmul/matmul.hpp"
#include "ecq/methods/any_method.hpp"
#include "ecq/methods/pack.hpp"
#include "support/instruction_sets.hpp"
#include "support/seal.hpp"
#include "support/trellis_path.hpp"
#include "support/weights.hpp"

namespace {

using ecq::activation_type;
using ecq::cpu;
using ecq::dtype;
using ecq::errc;
using ecq::group_layout;
using ecq::instruction_set;
using ecq::matmul_plan;
using ecq::matrix_view;
using ecq::packed_block;
using ecq::row_selection;
using ecq_test::gaussian;

const std::vector<instruction_set> every_set = ecq_test::machine_sets();
constexpr ecq::matmul_options int8_activations{.activations = activation_type::int8};

/// Block of matrices whose codes are known.
struct known_block {
  packed_block block;
  std::vector<std::uint8_t> codes;
};

/// Returns a block with a matrix of `format` for each layout, with scales and a zero point. The stream has single codes
/// or narrow pairs; with a trellis, codes lie on it.
known_block coded(dtype format, const std::vector<group_layout>& layouts, unsigned chunk_bits = 12, bool pairs = false,
                  std::optional<ecq::trellis> walk = {}) {
  std::mt19937 random(17);
  known_block made;
  for (const group_layout& layout : layouts) {
    ecq::packed_matrix matrix;
    matrix.name = "m" + std::to_string(made.block.matrices.size());
    matrix.shape = {layout.rows, layout.columns};
    matrix.format = format;
    matrix.layout = layout;
    matrix.first_symbol = made.codes.size();
    if (ecq::is_affine(format)) matrix.zero = -0.3F;
    for (std::size_t i = 0; i < layout.count(); ++i) {
      matrix.scales.emplace_back(0.01F * static_cast<float>(1 + random() % 100));
    }
    made.block.matrices.push_back(matrix);
    for (std::size_t i = 0; i < layout.rows * layout.columns; ++i) {
      auto code = static_cast<std::uint8_t>(random() % 8 == 0 ? random() : 125 + random() % 6);
      if (pairs) code = static_cast<std::uint8_t>(random() % 16 + 250);
      if (format == dtype::uint4) code &= 15;
      if (format == dtype::fp8_e4m3) code &= 0xBE;  // no NaN
      made.codes.push_back(code);
    }
  }
  ecq::stream_options how{.chunk_bits = chunk_bits, .trellis = walk};
  if (pairs) how.narrow_pairs = 1;
  if (walk) made.codes = ecq_test::random_path(*walk, made.codes.size(), 2).codes;
  auto stream = ecq::encode_stream<ecq::rans>(cpu{}, made.codes, how);
  EXPECT_TRUE(stream) << stream.error().to_string();
  made.block.stream = std::move(*stream);
  return made;
}

/// One row of activations, quantised by the definition.
struct definition {
  double scale = 0;
  std::vector<int> q;

  definition(const float* x, std::size_t count) : q(count) {
    float largest = 0;
    for (std::size_t i = 0; i < count; ++i) largest = std::max(largest, std::fabs(x[i]));
    if (largest == 0 || !std::all_of(x, x + count, [](float one) { return std::isfinite(one); })) return;
    scale = static_cast<double>(largest) / 127;
    for (std::size_t i = 0; i < count; ++i) {
      const float up = largest < 1e-30F ? 0x1p64F : 1;
      const float factor = 127 / (largest * up);
      q[i] = static_cast<int>(std::nearbyint(x[i] * up * factor));
    }
  }
};

/// Product, and the sum of the magnitudes of its terms.
struct reference {
  double sum = 0, magnitude = 0;
};

reference product_of(const known_block& of, const ecq::packed_matrix& matrix, std::size_t row, const definition& x) {
  const group_layout& layout = matrix.layout;
  const auto values = matrix.values_of_codes();
  reference made;
  std::int64_t activations = 0;
  for (std::size_t first = 0; first < layout.columns; first += layout.columns_per_group) {
    double sum = 0;
    for (std::size_t i = first; i < std::min(first + layout.columns_per_group, layout.columns); ++i) {
      const double value =
          static_cast<double>(values[of.codes[matrix.first_symbol + row * layout.columns + i]]) * x.q[i];
      sum += value;
      made.magnitude += std::fabs(value) * 0.01 * 100 + std::fabs(matrix.zero * static_cast<float>(x.q[i]));
      activations += x.q[i];
    }
    const std::size_t group = row / layout.rows_per_group * layout.groups_across() + first / layout.columns_per_group;
    made.sum += static_cast<double>(static_cast<float>(matrix.scales[group])) * sum;
  }
  made.sum = x.scale * (made.sum + static_cast<double>(matrix.zero) * static_cast<double>(activations));
  made.magnitude *= x.scale;
  for (const auto& [position, weight] : matrix.exact) {  // replace the weights of their codes
    if (position / layout.columns != row) continue;
    const std::size_t column = position % layout.columns;
    const std::size_t group = row / layout.rows_per_group * layout.groups_across() + column / layout.columns_per_group;
    const double coded = static_cast<double>(values[of.codes[matrix.first_symbol + position]]) *
                             static_cast<double>(static_cast<float>(matrix.scales[group])) +
                         static_cast<double>(matrix.zero);
    const double activation = x.scale * x.q[column];
    made.sum += (static_cast<double>(weight) - coded) * activation;
    made.magnitude += std::fabs(static_cast<double>(weight) * activation);
  }
  return made;
}

/// Compares y with the definition: exactly, or within the rounding of parts in FP32.
void expect_products(const known_block& of, const std::vector<row_selection>& parts, const std::vector<float>& x,
                     const std::vector<float>& y, std::size_t batch, bool exactly,
                     const std::vector<float>& before = {}) {
  const std::size_t columns = of.block.matrices[parts[0].matrix].layout.columns;
  for (std::size_t b = 0; b < batch; ++b) {
    const definition row_of_x(x.data() + b * columns, columns);
    std::size_t output = 0;
    for (const row_selection& part : parts) {
      const auto& matrix = of.block.matrices[part.matrix];
      const std::size_t end = part.first_row + std::min(part.rows, matrix.layout.rows - part.first_row);
      for (std::size_t row = part.first_row; row < end; ++row, ++output) {
        const std::size_t at = b * (y.size() / batch) + output;
        auto [sum, magnitude] = product_of(of, matrix, row, row_of_x);
        if (exactly) {
          ASSERT_EQ(y[at], static_cast<float>(sum)) << "row " << row << ", batch " << b;
          continue;
        }
        if (!before.empty()) sum += before[at];
        const double bound = (magnitude + std::fabs(sum)) * 0x1p-22 * (1 + static_cast<double>(columns) / 1024);
        ASSERT_NEAR(y[at], sum, bound) << "row " << row << ", batch " << b;
      }
    }
    ASSERT_EQ(output * batch, y.size());
  }
}

std::vector<group_layout> layouts_of(std::size_t rows, std::size_t columns) {
  return {{rows, columns, 1, columns},
          {rows, columns, rows, columns},
          {rows, columns, 1, 32},
          {rows, columns, 3, std::min<std::size_t>(columns, 50)}};
}

TEST(IntegerProducts, AreExactInEveryLayout) {
  for (const dtype format : {dtype::int8, dtype::uint8, dtype::uint4}) {
    for (const auto& [rows, columns] : {std::pair<std::size_t, std::size_t>{9, 301}, {6, 64}, {1, 1}, {40, 1}}) {
      for (const group_layout& layout : layouts_of(rows, columns)) {
        const known_block of = coded(format, {layout});
        const auto plan = matmul_plan::of(cpu{}, of.block);
        ASSERT_TRUE(plan) << plan.error().to_string();
        ASSERT_EQ(plan->tasks(), 1U);
        for (const std::size_t batch : {1U, 2U, 3U, 4U, 5U, 8U, 67U}) {
          const auto x = gaussian(batch, columns, 99, 1.0F);
          for (const instruction_set isa : every_set) {
            SCOPED_TRACE(std::string(ecq::name_of(isa)) + ", " + std::to_string(columns) + " columns");
            std::vector<float> y(batch * rows, std::numeric_limits<float>::quiet_NaN());
            ASSERT_TRUE(ecq::matmul(cpu{.isa = isa}, *plan, matrix_view(x.data(), batch, columns),
                                    matrix_view(y.data(), batch, rows), int8_activations));
            expect_products(of, {{}}, x, y, batch, true);
          }
        }
      }
    }
  }
}

TEST(IntegerProducts, TakeCodesOnATrellis) {
  for (const bool pairs : {false, true}) {
    const known_block of = coded(dtype::int8, {{70, 256, 1, 256}}, 12, pairs, ecq::trellis{3, 11});
    const auto plan = matmul_plan::of(cpu{}, of.block);
    ASSERT_TRUE(plan) << plan.error().to_string();
    for (const std::size_t batch : {1U, 5U}) {
      const auto x = gaussian(batch, 256, 99, 1.0F);
      for (const instruction_set isa : every_set) {
        std::vector<float> y(batch * 70, std::numeric_limits<float>::quiet_NaN());
        ASSERT_TRUE(ecq::matmul(cpu{.isa = isa}, *plan, matrix_view(x.data(), batch, 256),
                                matrix_view(y.data(), batch, 70), int8_activations));
        expect_products(of, {{}}, x, y, batch, false);
      }
    }
  }
}

/// Returns the products with a plan by two threads, or the error. They must be the same with every instruction set.
ecq::result<std::vector<float>> products_of_every_set(const matmul_plan& plan, std::span<const float> x,
                                                      std::size_t batch) {
  std::optional<ecq::result<std::vector<float>>> agreed;
  for (const instruction_set isa : every_set) {
    std::vector<float> y(batch * plan.rows(), 7.0F);
    const auto done = ecq::matmul(cpu{.threads = 2, .isa = isa}, plan, matrix_view(x.data(), batch, plan.columns()),
                                  matrix_view(y.data(), batch, plan.rows()), int8_activations);
    ecq::result<std::vector<float>> made = done ? ecq::result<std::vector<float>>(std::move(y)) : done.error();
    if (!agreed) agreed = made;
    EXPECT_EQ(made ? "products" : made.error().to_string(), *agreed ? "products" : agreed->error().to_string())
        << ecq::name_of(isa);
    if (!made || !*agreed) continue;
    EXPECT_EQ(*made, **agreed) << ecq::name_of(isa);
  }
  return std::move(*agreed);
}

// Rows across chunks and tasks, several matrices, ranges and pairs have the same bits with every instruction set and
// any number of threads.
TEST(IntegerProducts, AreTheSameHoweverTheyAreMade) {
  ecq::worker_pool pool(3);
  for (const dtype format : {dtype::int8, dtype::uint8, dtype::uint4}) {
    for (const bool pairs : {false, true}) {
      for (const std::size_t columns : {256U, 300U, 5003U}) {
        for (const group_layout& layout : layouts_of(25, columns)) {
          if (pairs && format == dtype::uint4) continue;
          known_block of = coded(format, {layout, {7, columns, 1, columns}}, 10, pairs);
          of.block.matrices[0].exact = {{0, 77.0F}, {columns, -5.5F}, {columns + 255, 3.0F}, {21 * columns - 1, 9.0F}};
          for (const auto& parts : {std::vector<row_selection>{{0}, {1}}, {{1, 2, 3}, {0, 1, 20}}}) {
            const auto plan = matmul_plan::of(cpu{}, of.block, parts);
            ASSERT_TRUE(plan) << plan.error().to_string();
            for (const std::size_t batch : {1U, 9U}) {
              const auto x = gaussian(batch, columns, 99, 1.0F);
              const matrix_view<const float> in(x.data(), batch, columns);
              std::vector<float> first;
              for (const instruction_set isa : every_set) {
                for (const cpu& backend : {cpu{.isa = isa}, cpu{.isa = isa, .pool = &pool}}) {
                  std::vector<float> y(batch * plan->rows(), 7.0F);
                  const matrix_view<float> out(y.data(), batch, plan->rows());
                  ASSERT_TRUE(ecq::matmul(backend, *plan, in, out, int8_activations));
                  const auto before = y;
                  ASSERT_TRUE(
                      ecq::matmul(backend, *plan, in, out, {.accumulate = true, .activations = activation_type::int8}));
                  if (first.empty()) {
                    first = y;
                    expect_products(of, parts, x, before, batch, false);
                    expect_products(of, parts, x, y, batch, false, before);
                  }
                  ASSERT_EQ(y, first) << ecq::name_of(isa);
                }
              }
            }
          }
        }
      }
    }
  }
}

// Kernels that multiply pairs in the order in which they are decoded leave out escapes, with any number of raw bits,
// and rows of more columns than they take. Rows lie within a chunk and across chunks, and begin in the middle of
// groups.
TEST(IntegerProducts, OfPairsWithEscapes) {
  for (unsigned raw_bits = 0; raw_bits < 4; ++raw_bits) {
    for (const std::size_t columns : {256U, 768U, 2560U, 131072U, 576U, 896U, 8256U}) {
      SCOPED_TRACE(std::to_string(raw_bits) + " raw bits, " + std::to_string(columns) + " columns");
      const std::size_t rows = columns > 65536 ? 2 : 21;
      known_block of = coded(dtype::int8, {{rows, columns, 1, columns}, {3, columns, 1, 256}});
      std::mt19937 random(raw_bits + 1);
      for (std::uint8_t& code : of.codes) {
        const auto inner = static_cast<std::uint8_t>(random() % (7U << raw_bits) - (3U << raw_bits));
        code = random() % 100 == 0 ? static_cast<std::uint8_t>(random()) : inner;
      }
      const bool few = raw_bits < 3 && (columns == 256 || columns == 896 || columns == 8256);
      auto stream = ecq::encode_stream<ecq::rans>(cpu{}, of.codes,
                                                  {.chunk_bits = 11, .narrow_pairs = raw_bits, .few_pairs = few});
      ASSERT_TRUE(stream) << stream.error().to_string();
      ASSERT_FALSE(ecq::encoded_stream::parse(*stream)->escapes(0).empty());
      of.block.stream = std::move(*stream);
      const std::vector<row_selection> parts = {{0, 1, rows - 1}, {1}};
      const auto plan = matmul_plan::of(cpu{}, of.block, parts);
      ASSERT_TRUE(plan) << plan.error().to_string();
      for (const std::size_t batch : {1U, 9U}) {
        const auto x = gaussian(batch, columns, 99, 1.0F);
        const auto agreed = products_of_every_set(*plan, x, batch);
        ASSERT_TRUE(agreed) << agreed.error().to_string();
        expect_products(of, parts, x, *agreed, batch, false);
      }
    }
  }
}

// So few different codes that AVX2 kernels decode them to the order in which they multiply activations.
TEST(IntegerProducts, OfFewCodes) {
  for (const dtype format : {dtype::int8, dtype::uint8, dtype::uint4}) {
    for (const std::size_t columns : {128U, 640U, 4224U, 288U, 8224U}) {
      const std::size_t rows = 24576 / columns + 5;  // more than two tasks of eight chunks
      known_block of = coded(format, {{rows, columns, 1, columns}, {3, columns, 1, 128}});
      std::mt19937 random(7);
      const int lowest = format == dtype::int8 ? 250 : format == dtype::uint8 ? 180 : 0;
      // Codes are distributed binomially, so that no bits are raw; those of Int8 have both signs.
      for (auto& code : of.codes) code = static_cast<std::uint8_t>(lowest + std::popcount(random() & 0x7FFU));
      of.block.stream = *ecq::encode_stream<ecq::rans>(cpu{}, of.codes, {.chunk_bits = 10});
      const std::vector<row_selection> parts = {{0, 1}, {1}};
      const auto plan = matmul_plan::of(cpu{}, of.block, parts);
      ASSERT_TRUE(plan) << plan.error().to_string();
      for (const std::size_t batch : {1U, 9U}) {
        SCOPED_TRACE(std::string(to_string(format)) + ", " + std::to_string(columns) + " columns");
        const auto x = gaussian(batch, columns, 99, 1.0F);
        const auto agreed = products_of_every_set(*plan, x, batch);
        ASSERT_TRUE(agreed) << agreed.error().to_string();
        expect_products(of, parts, x, *agreed, batch, false);
      }
      if (format != dtype::uint4) continue;
      of.codes[3 * columns + 5] = 16;
      of.block.stream = *ecq::encode_stream<ecq::rans>(cpu{}, of.codes, {.chunk_bits = 10});
      const auto odd = matmul_plan::of(cpu{}, of.block, parts);
      ASSERT_TRUE(odd) << odd.error().to_string();
      const auto x = gaussian(1, columns, 99, 1.0F);
      std::vector<float> y(odd->rows());
      for (const instruction_set isa : every_set) {
        const auto done = ecq::matmul(cpu{.isa = isa}, *odd, x, y, int8_activations);
        ASSERT_FALSE(done);
        EXPECT_EQ(done.error().code(), errc::corrupt);
      }
    }
  }
}

// Damaged streams with correct checksums have the same verdict, and the same products, with every instruction set.
TEST(IntegerProducts, AgreeOnDamage) {
  constexpr std::size_t rows = 40, columns = 512;
  for (const std::optional<unsigned> narrow : {std::optional<unsigned>(), std::optional(0U), std::optional(1U)}) {
    SCOPED_TRACE(narrow ? std::to_string(*narrow) + " raw bits" : "single codes");
    known_block of = coded(dtype::int8, {{rows, columns, 1, columns}});
    std::mt19937 random(3);
    for (auto& code : of.codes) code = static_cast<std::uint8_t>(250 + std::popcount(random() & 0x7FFU));
    if (narrow) of.codes[5] = of.codes[9000] = 100;  // escapes
    of.block.stream = *ecq::encode_stream<ecq::rans>(cpu{}, of.codes, {.chunk_bits = 10, .narrow_pairs = narrow});
    const auto x = gaussian(5, columns, 99, 1.0F);
    std::size_t refused = 0, found = 0, multiplied = 0;
    for (unsigned i = 0; i < 300; ++i) {
      packed_block damaged = of.block;
      damaged.stream[random() % damaged.stream.size()] ^= static_cast<std::byte>(1U << random() % 8);
      ecq_test::seal(damaged.stream);
      const auto plan = matmul_plan::of(cpu{}, damaged);
      refused += plan ? 0U : 1U;
      for (const std::size_t batch : {1U, 5U}) {
        if (!plan) continue;
        const auto agreed = products_of_every_set(*plan, std::span(x).first(batch * columns), batch);
        (agreed ? multiplied : found) += 1;
        ASSERT_FALSE(HasFailure()) << i;
      }
    }
    // Damage is found by a plan, by products, or not at all: some states and words stand for other codes.
    EXPECT_GT(refused, 0U);
    EXPECT_GT(found, 300U);
    EXPECT_GT(multiplied, 0U);
  }
}

// More columns share a scale than one 32-bit sum takes.
TEST(IntegerProducts, OfLongRowsDoNotOverflow) {
  constexpr std::size_t columns = 200'001;
  for (const dtype format : {dtype::int8, dtype::uint8}) {
    known_block of = coded(format, {{2, columns, 1, columns}}, 18);
    for (auto& code : of.codes) code = format == dtype::int8 ? 0x80 : 0xFF;
    of.codes[5] = 3;
    of.block.stream = *ecq::encode_stream<ecq::rans>(cpu{}, of.codes, {.chunk_bits = 18});
    const auto plan = matmul_plan::of(cpu{}, of.block);
    ASSERT_TRUE(plan);
    const std::vector<float> x(columns, -2.0F);
    for (const instruction_set isa : every_set) {
      std::vector<float> y(2);
      ASSERT_TRUE(ecq::matmul(cpu{.isa = isa}, *plan, x, y, int8_activations));
      expect_products(of, {{}}, x, y, 1, false);
    }
  }
}

// Quantising costs at most half a step of each activation, times the weights.
TEST(IntegerProducts, AreWithinTheStatedBound) {
  const std::size_t rows = 30, columns = 700, batch = 5;
  const auto weights = gaussian(rows, columns);
  const auto x = gaussian(batch, columns, 3, 2.0F);
  const std::pair<dtype, ecq::any_method> methods[] = {
      {dtype::fp8_e4m3, {dtype::fp8_e4m3, ecq::entquant{.lambda = 14.5}}},
      {dtype::fp8_e5m2, {dtype::fp8_e5m2, ecq::entquant{.lambda = 10.0}}},
      {dtype::int8, {dtype::int8, ecq::entquant{.lambda = 10.0}}},
      {dtype::uint8, ecq::entrollm{}},
      {dtype::uint4, {dtype::uint4, ecq::entrollm{}}},
      {dtype::fp32, ecq::lossless_weights{}}};
  for (const auto& [format, method] : methods) {
    const std::vector<ecq::named_weights> named = {{"w", matrix_view<const float>(weights.data(), rows, columns)}};
    const auto block = ecq::detail::compress_block(cpu{}, **method.get(), named, {.chunk_bits = 11},
                                                   ecq::detail::encode_function_of<ecq::rans>);
    ASSERT_TRUE(block) << block.error().to_string();
    ASSERT_EQ(block->matrices[0].format, format);
    std::vector<float> decoded(rows * columns);
    ASSERT_TRUE(ecq::decompress(cpu{}, *block, 0, matrix_view(decoded.data(), rows, columns)));
    const auto plan = matmul_plan::of(cpu{}, *block);
    ASSERT_TRUE(plan);
    for (const instruction_set isa : every_set) {
      std::vector<float> y(batch * rows);
      ASSERT_TRUE(ecq::matmul(cpu{.isa = isa}, *plan, matrix_view(x.data(), batch, columns),
                              matrix_view(y.data(), batch, rows), int8_activations));
      bool differs = false;
      for (std::size_t b = 0; b < batch; ++b) {
        float largest = 0;
        for (std::size_t i = 0; i < columns; ++i) largest = std::max(largest, std::fabs(x[b * columns + i]));
        const definition row_of_x(x.data() + b * columns, columns);
        for (std::size_t row = 0; row < rows; ++row) {
          double sum = 0, quantised = 0, magnitude = 0;
          for (std::size_t i = 0; i < columns; ++i) {
            const double weight = decoded[row * columns + i];
            sum += weight * x[b * columns + i];
            quantised += weight * row_of_x.scale * row_of_x.q[i];
            magnitude += std::fabs(weight);
          }
          const double rounding = magnitude * largest * 1e-4;
          EXPECT_NEAR(y[b * rows + row], quantised, rounding) << static_cast<int>(format);
          EXPECT_NEAR(y[b * rows + row], sum, magnitude * largest / 254 + rounding);
          differs = differs || std::fabs(y[b * rows + row] - sum) > rounding;
        }
      }
      EXPECT_TRUE(differs) << "activations were not quantised";
    }
  }
}

TEST(IntegerProducts, OfHostileActivations) {
  const float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  for (const dtype format : {dtype::int8, dtype::uint8, dtype::uint4, dtype::fp8_e4m3}) {
    const std::size_t columns = 130, rows = 5, batch = 9;
    const known_block of = coded(format, {{rows, columns, 1, columns}});
    const auto plan = matmul_plan::of(cpu{}, of.block);
    ASSERT_TRUE(plan) << plan.error().to_string();
    auto x = gaussian(batch, columns, 8, 1.0F);
    const auto row_of = [&](std::size_t b) { return std::span(x).subspan(b * columns, columns); };
    row_of(0)[129] = infinity;
    row_of(1)[3] = -infinity;
    row_of(2)[64] = nan;
    std::ranges::fill(row_of(3), 0.0F);
    std::ranges::fill(row_of(4), -0.0F);
    for (float& one : row_of(5)) one = one < 0 ? -3e38F : 3e38F;
    for (float& one : row_of(6)) one = one < 0 ? -0x1p-149F : 0x1p-148F;
    row_of(7)[5] = 3e38F;  // everything else is negligible beside it
    for (const instruction_set isa : every_set) {
      std::vector<float> y(batch * rows);
      ASSERT_TRUE(ecq::matmul(cpu{.isa = isa}, *plan, matrix_view(x.data(), batch, columns),
                              matrix_view(y.data(), batch, rows), int8_activations));
      for (std::size_t b = 0; b < batch; ++b) {
        const definition row_of_x(x.data() + b * columns, columns);
        for (std::size_t row = 0; row < rows; ++row) {
          const float one = y[b * rows + row];
          if (b < 3) {
            EXPECT_TRUE(std::isnan(one));
          } else if (b < 5) {
            EXPECT_EQ(one, 0.0F);
          } else if (format != dtype::fp8_e4m3) {
            const double sum = product_of(of, of.block.matrices[0], row, row_of_x).sum;
            EXPECT_EQ(one, static_cast<float>(sum)) << "activations " << b;
          } else if (b != 5 && b != 7) {  // sums within the range of FP32
            // FP32 rounds denormals by as much as half of one, here for each activation.
            const auto [sum, magnitude] = product_of(of, of.block.matrices[0], row, row_of_x);
            EXPECT_NEAR(one, sum, magnitude * 1e-5 + 1e-40) << "activations " << b;
          }
        }
      }
    }
  }
}

TEST(IntegerProducts, TakeAnyStridesBf16AndOverlap) {
  const std::size_t columns = 90, rows = 50, batch = 4;
  const known_block of = coded(dtype::int8, {{rows, columns, 1, columns}});
  const auto plan = matmul_plan::of(cpu{}, of.block);
  ASSERT_TRUE(plan);
  std::vector<ecq::bf16> narrow;
  std::vector<float> wide, turned(columns * batch);
  for (const float one : gaussian(batch, columns, 8, 1.0F)) {
    narrow.emplace_back(one);
    wide.push_back(static_cast<float>(narrow.back()));
  }
  for (std::size_t i = 0; i < wide.size(); ++i) turned[i % columns * batch + i / columns] = wide[i];
  std::vector<float> y(batch * rows), again(y.size()), across(y.size());
  ASSERT_TRUE(ecq::matmul(cpu{}, *plan, matrix_view(wide.data(), batch, columns), matrix_view(y.data(), batch, rows),
                          int8_activations));
  expect_products(of, {{}}, wide, y, batch, true);
  ASSERT_TRUE(ecq::matmul(cpu{}, *plan, matrix_view(narrow.data(), batch, columns),
                          matrix_view(again.data(), batch, rows), int8_activations));
  EXPECT_EQ(again, y);
  ASSERT_TRUE(ecq::matmul(cpu{}, *plan, matrix_view<float>(turned.data(), batch, columns, 1, batch),
                          matrix_view<float>(across.data(), batch, rows, 1, batch), int8_activations));
  for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(across[i % rows * batch + i / rows], y[i]);
  // Products may overwrite activations.
  ASSERT_TRUE(ecq::matmul(cpu{}, *plan, matrix_view(wide.data(), batch, columns),
                          matrix_view(wide.data() + 10, batch, rows), int8_activations));
  EXPECT_EQ(std::vector<float>(wide.begin() + 10, wide.begin() + 10 + batch * rows), y);
}

// FP8 codes are multiplied by the quantised activations in FP32, whatever type these had and whatever dot products
// there are.
TEST(IntegerProducts, OfFp8AreTheSameForActivationsOfBf16) {
  const std::size_t columns = 512, rows = 64;
  const auto weights = gaussian(rows, columns, 5, 1.0F);
  for (const auto goal : {ecq::stream_goal::size, ecq::stream_goal::cpu}) {
    const auto packed =
        ecq::compressor<>{{.target_bits = 3.5}, {.goal = goal}}.compress(matrix_view(weights.data(), rows, columns));
    ASSERT_TRUE(packed) << packed.error().to_string();
    const auto plan = matmul_plan::of(cpu{}, *packed);
    ASSERT_TRUE(plan);
    for (const std::size_t batch : {std::size_t{1}, std::size_t{5}}) {
      std::vector<ecq::bf16> narrow;
      std::vector<float> wide;
      for (const float one : gaussian(batch, columns, 8, 1.0F)) {
        narrow.emplace_back(one);
        wide.push_back(static_cast<float>(narrow.back()));
      }
      std::vector<float> y(batch * rows), again(y.size());
      ASSERT_TRUE(ecq::matmul(cpu{}, *plan, matrix_view(wide.data(), batch, columns),
                              matrix_view(y.data(), batch, rows), int8_activations));
      ASSERT_TRUE(ecq::matmul(cpu{}, *plan, matrix_view(narrow.data(), batch, columns),
                              matrix_view(again.data(), batch, rows), int8_activations));
      EXPECT_EQ(again, y) << batch << " rows";
    }
  }
}

// An engine may run tasks on its own threads, in any order.
TEST(IntegerProducts, RunTaskByTask) {
  const known_block of = coded(dtype::uint8, {{9, 3000, 1, 3000}}, 10);
  const auto plan = matmul_plan::of(cpu{}, of.block);
  ASSERT_TRUE(plan);
  ASSERT_GT(plan->tasks(), 1U);
  const auto x = gaussian(2, 3000, 5, 1.0F);
  std::vector<float> expected(18), y(18), edges(plan->edges(2));
  const matrix_view<const float> in(x.data(), 2, 3000);
  const matrix_view<float> out(y.data(), 2, 9);
  ASSERT_TRUE(ecq::matmul(cpu{}, *plan, in, matrix_view(expected.data(), 2, 9), int8_activations));
  const auto input = plan->prepare(in, out, activation_type::int8);
  ASSERT_TRUE(input);
  EXPECT_EQ(input->batch(), 2U);
  for (std::size_t task = plan->tasks(); task-- > 0;) {
    ASSERT_TRUE(plan->run(instruction_set::automatic, task, *input, out, edges));
  }
  plan->join(2, out, edges);
  EXPECT_EQ(y, expected);
}

// A block may hold matrices of integers beside others.
TEST(IntegerProducts, StandBesideOthersInOnePlan) {
  for (const bool pairs : {false, true}) {
    const std::size_t columns = 512;
    const group_layout layout{8, columns, 1, columns};
    known_block of = coded(dtype::int8, {layout, layout}, 11, pairs);
    for (auto& code : of.codes) code &= 0xBE;  // no NaN of FP8
    ecq::stream_options how{.chunk_bits = 11};
    if (pairs) how.narrow_pairs = 1;
    of.block.stream = *ecq::encode_stream<ecq::rans>(cpu{}, of.codes, how);
    of.block.matrices[1].format = dtype::fp8_e4m3;
    const auto plan = matmul_plan::of(cpu{}, of.block);
    ASSERT_TRUE(plan) << plan.error().to_string();
    for (const std::size_t batch : {1U, 5U}) {
      const auto x = gaussian(batch, columns, 8, 1.0F);
      for (const instruction_set isa : every_set) {
        std::vector<float> y(batch * 16);
        ASSERT_TRUE(ecq::matmul(cpu{.isa = isa}, *plan, matrix_view(x.data(), batch, columns),
                                matrix_view(y.data(), batch, 16), int8_activations));
        expect_products(of, {{0}, {1}}, x, y, batch, false);
      }
    }
  }
}

// An exact weight may differ from the weight of its code by more than FP32 holds, in files that no writer makes.
TEST(IntegerProducts, TakeExactWeightsFarFromTheirCodes) {
  known_block of = coded(dtype::int8, {{4, 128, 1, 128}});
  ecq::packed_matrix& matrix = of.block.matrices[0];
  std::ranges::fill(matrix.scales, ecq::bf16(1e36F));
  matrix.exact = {{5, of.codes[5] < 128 ? -3.4e38F : 3.4e38F}};
  const auto plan = matmul_plan::of(cpu{}, of.block);
  ASSERT_TRUE(plan) << plan.error().to_string();
  const std::vector<float> x(128, 0x1p-40F);
  for (const instruction_set isa : every_set) {
    std::vector<float> y(4), exact(4);
    ASSERT_TRUE(ecq::matmul(cpu{.isa = isa}, *plan, x, y, int8_activations));
    ASSERT_TRUE(ecq::matmul(cpu{.isa = isa}, *plan, x, exact));
    for (std::size_t row = 0; row < 4; ++row) EXPECT_NEAR(y[row], exact[row], 1e-5F * 3.4e38F * 0x1p-40F) << row;
  }
}

TEST(IntegerProducts, RefuseWhatDoesNotFit) {
  known_block of = coded(dtype::uint4, {{6, 70, 1, 70}});
  const auto plan = matmul_plan::of(cpu{}, of.block);
  ASSERT_TRUE(plan);
  std::vector<float> x(70, 1.0F), y(6);
  EXPECT_EQ(ecq::matmul(cpu{}, *plan, std::span(x).first(69), y, int8_activations).error().code(),
            errc::invalid_argument);
  EXPECT_EQ(ecq::matmul(cpu{}, *plan, x, std::span(y).first(5), int8_activations).error().code(),
            errc::invalid_argument);
  EXPECT_TRUE(ecq::matmul(cpu{}, *plan, matrix_view<float>(x.data(), 0, 70), matrix_view<float>(y.data(), 0, 6),
                          int8_activations));
  const auto dense =
      ecq::matmul(cpu{}, *plan, matrix_view<const float>(x.data(), 1, 70), y, ecq::eigen_product(), int8_activations);
  EXPECT_EQ(dense.error().code(), errc::unsupported);
  // More activations than memory has addresses, in rows that all lie at the same place.
  const std::size_t many = std::numeric_limits<std::size_t>::max() / 80;
  const auto huge = plan->prepare(matrix_view<const float>(x.data(), many, 70, 0, 1),
                                  matrix_view<float>(y.data(), 1, 6), activation_type::int8);
  EXPECT_EQ(huge.error().code(), errc::invalid_argument);
  // Codes that are no numbers pass every checksum.
  for (const std::size_t at : {0U, 69U, 350U, 419U}) {
    known_block odd = of;
    odd.codes[at] = 16;
    odd.block.stream = *ecq::encode_stream<ecq::rans>(cpu{}, odd.codes, {});
    const auto made = matmul_plan::of(cpu{}, odd.block);
    ASSERT_TRUE(made);
    for (const instruction_set isa : every_set) {
      const auto done = ecq::matmul(cpu{.isa = isa}, *made, x, y, int8_activations);
      ASSERT_FALSE(done);
      EXPECT_EQ(done.error().code(), errc::corrupt);
      EXPECT_NE(done.error().message().find("m0"), std::string::npos);
    }
  }
}

}  // namespace
