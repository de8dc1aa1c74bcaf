// Products with coded weights against sums in double precision over the decoded weights.

#include "ecq/matmul/matmul.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ecq/base/amx.hpp"
#include "ecq/base/worker_pool.hpp"
#include "ecq/ecq.hpp"
#include "ecq/matmul/eigen_product.hpp"
#include "ecq/methods/any_method.hpp"
#include "ecq/methods/pack.hpp"
#include "support/instruction_sets.hpp"
#include "support/trellis_path.hpp"
#include "support/weights.hpp"

namespace {

using ecq::cpu;
using ecq::errc;
using ecq::instruction_set;
using ecq::matmul_plan;
using ecq::matrix_view;
using ecq::packed_block;
using ecq::row_selection;
using ecq_test::gaussian;

const std::vector<instruction_set> every_set = ecq_test::machine_sets();

struct shape {
  std::size_t rows, columns;
};

std::vector<ecq::bf16> rounded(const std::vector<float>& x) { return {x.begin(), x.end()}; }

/// Returns gaussian() of the same arguments, made only once: many blocks and products share these numbers, and an
/// emulated machine takes long to make them.
const std::vector<float>& same_gaussian(std::size_t rows, std::size_t columns, std::uint64_t seed,
                                        float sigma = 0.02F) {
  static std::map<std::array<std::uint64_t, 4>, std::vector<float>> made;
  std::vector<float>& weights = made[{rows, columns, seed, std::bit_cast<std::uint32_t>(sigma)}];
  if (weights.empty()) weights = gaussian(rows, columns, seed, sigma);
  return weights;
}

/// Returns the block of `method` with matrices of these shapes, of FP32 or, if `narrow`, BF16 weights.
packed_block packed(const ecq::any_method& method, const std::vector<shape>& shapes,
                    const ecq::stream_options& stream = {.chunk_bits = 12}, bool narrow = false) {
  std::vector<std::vector<float>> weights;
  std::vector<std::vector<ecq::bf16>> halves;
  std::vector<ecq::named_weights> matrices;
  for (const auto& [rows, columns] : shapes) {
    weights.push_back(same_gaussian(rows, columns, 7 + weights.size()));
    halves.emplace_back();
    for (const float weight : weights.back()) halves.back().emplace_back(weight);
    const std::string name = "m" + std::to_string(matrices.size());
    if (narrow) {
      matrices.push_back({name, matrix_view<const ecq::bf16>(halves.back().data(), rows, columns)});
    } else {
      matrices.push_back({name, matrix_view<const float>(weights.back().data(), rows, columns)});
    }
  }
  auto made =
      ecq::detail::compress_block(cpu{}, **method.get(), matrices, stream, ecq::detail::encode_function_of<ecq::rans>);
  EXPECT_TRUE(made) << made.error().to_string();
  return std::move(*made);
}

std::vector<float> decoded(const packed_block& block, std::size_t matrix) {
  const auto& layout = block.matrices[matrix].layout;
  std::vector<float> weights(layout.rows * layout.columns);
  EXPECT_TRUE(ecq::decompress(cpu{}, block, matrix, matrix_view(weights.data(), layout.rows, layout.columns)));
  return weights;
}

/// Sums over the decoded weights of each row of a block, with the bounds that plans state.
class expected_products {
 public:
  /// `x` has `batch` rows.
  expected_products(const packed_block& block, const std::vector<float>& x, std::size_t batch) {
    for (std::size_t i = 0; i < block.matrices.size(); ++i) {
      const ecq::packed_matrix& matrix = block.matrices[i];
      const std::size_t columns = matrix.layout.columns;
      const std::size_t chunks = columns / 1024 + 2;  // of at least 1024 codes
      const auto terms = static_cast<double>(1 + matrix.layout.groups_across() + chunks);
      const double tolerance = (static_cast<double>(columns) / 8 + 64 * terms) * 0x1p-24;
      const double zero = 2 * std::fabs(matrix.zero);
      const std::vector<float> weights = decoded(block, i);
      auto& rows = products_.emplace_back(matrix.layout.rows);
      for (std::size_t row = 0; row < rows.size(); ++row) {
        for (std::size_t b = 0; b < batch; ++b) {
          product one{.tolerance = tolerance};
          for (std::size_t column = 0; column < columns; ++column) {
            const double weight = weights[row * columns + column], activation = x[b * columns + column];
            one.sum += weight * activation;
            one.magnitude += (std::fabs(weight) + zero) * std::fabs(activation);  // bounds |value * scale|
          }
          rows[row].push_back(one);
        }
      }
    }
  }

  /// Compares the products of `parts` with y, which holds products by the first `batch` rows of x. They were added to
  /// `before`, if given.
  void expect(const std::vector<row_selection>& parts, std::size_t batch, const std::vector<float>& y,
              const std::vector<float>& before = {}) const {
    std::vector<const std::vector<product>*> all;  // products of each output
    for (const row_selection& part : parts) {
      const auto& rows = products_[part.matrix];
      const std::size_t count = std::min<std::size_t>(part.rows, rows.size() - part.first_row);
      for (std::size_t i = 0; i < count; ++i) all.push_back(&rows[part.first_row + i]);
    }
    ASSERT_EQ(y.size(), batch * all.size());
    for (std::size_t output = 0; output < all.size(); ++output) {
      for (std::size_t b = 0; b < batch; ++b) {
        const product& one = (*all[output])[b];
        const std::size_t at = b * all.size() + output;
        const double first = before.empty() ? 0 : before[at];
        const double bound = one.tolerance * (one.magnitude + std::fabs(first));
        ASSERT_NEAR(y[at], first + one.sum, bound) << "row " << output << ", batch " << b;
      }
    }
  }

 private:
  struct product {
    double tolerance;  ///< relative to the magnitude
    double sum = 0;
    double magnitude = 0;
  };

  std::vector<std::vector<std::vector<product>>> products_;  ///< by matrix, row and row of x
};

void expect_products(const packed_block& block, const std::vector<row_selection>& parts, const std::vector<float>& x,
                     const std::vector<float>& y, std::size_t batch, const std::vector<float>& before = {}) {
  expected_products(block, x, batch).expect(parts, batch, y, before);
}

struct kind {
  std::string name;
  ecq::any_method method;
  bool narrow = false;
};

std::vector<kind> kinds() {
  return {{"fp8", ecq::entquant{.lambda = 14.5}},
          {"fp8_e5m2", {ecq::dtype::fp8_e5m2, ecq::entquant{.lambda = 10.0}}},
          {"int8", {ecq::dtype::int8, ecq::entquant{.lambda = 10.0}}},
          {"groups", ecq::any_method::of<ecq::fp8_e4m3>(ecq::basic_entquant<ecq::row_root<>, ecq::per_group>{
                         .lambda = 10.0, .granularity = {.size = 32}})},
          {"uint8", ecq::entrollm{}},
          {"uint4", {ecq::dtype::uint4, ecq::entrollm{}}},
          {"lossless", ecq::lossless_weights{}},
          {"lossless_bf16", ecq::lossless_weights{}, true},
          {"lossless_pairs", ecq::lossless_weights{.pairs = true}, true}};
}

TEST(MatmulPlan, IsTheProductWithTheDecodedWeights) {
  for (const kind& each : kinds()) {
    for (const shape& one : {shape{64, 128}, shape{3, 5000}, shape{130, 67}, shape{1, 1}, shape{200, 1}}) {
      const packed_block block = packed(each.method, {one}, {.chunk_bits = 12}, each.narrow);
      const auto plan = matmul_plan::of(cpu{.threads = 2}, block);
      ASSERT_TRUE(plan) << each.name << plan.error().to_string();
      EXPECT_EQ(plan->rows(), one.rows);
      EXPECT_EQ(plan->columns(), one.columns);
      const std::vector<float>& most = same_gaussian(70, one.columns, 99, 1.0F);
      const expected_products expected(block, most, 70);
      for (const std::size_t batch : {1U, 2U, 5U, 70U}) {
        const std::span x = std::span(most).first(batch * one.columns);
        for (const instruction_set isa : every_set) {
          SCOPED_TRACE(each.name + ", " + std::string(ecq::name_of(isa)));
          std::vector<float> y(batch * one.rows, std::numeric_limits<float>::quiet_NaN());
          const matrix_view<float> out(y.data(), batch, one.rows);
          const auto done = ecq::matmul(cpu{.isa = isa}, *plan, matrix_view(x.data(), batch, one.columns), out);
          ASSERT_TRUE(done) << done.error().to_string();
          expected.expect({{}}, batch, y);
          // Other numbers of threads give the same bits.
          std::vector<float> again(y.size());
          ASSERT_TRUE(ecq::matmul(cpu{.threads = 3, .isa = isa}, *plan, matrix_view(x.data(), batch, one.columns),
                                  matrix_view(again.data(), batch, one.rows)));
          EXPECT_EQ(again, y);
        }
      }
    }
  }
}

/// Checks the products of all rows of two matrices, and of some, with one row of activations and with a few, first
/// stored, then added to the result.
void expect_fused(const packed_block& block, std::size_t columns) {
  const std::vector<row_selection> all = {{0}, {1}}, some = {{0, 1, 3}, {1}};
  const std::vector<float>& most = same_gaussian(9, columns, 99, 1.0F);  // numbers that BF16 holds exactly
  const std::vector<ecq::bf16> most_halves = rounded(most);
  const expected_products expected(block, most, 9);
  for (const auto& parts : {all, some}) {
    const auto plan = matmul_plan::of(cpu{}, block, parts);
    ASSERT_TRUE(plan) << plan.error().to_string();
    for (const std::size_t batch : {1U, 3U, 9U}) {
      const matrix_view x(most.data(), batch, columns);
      const matrix_view halves(most_halves.data(), batch, columns);
      for (const instruction_set isa : every_set) {
        SCOPED_TRACE(std::to_string(batch) + " rows, " + std::string(ecq::name_of(isa)));
        std::vector<float> y(batch * plan->rows(), 1.0F);
        const matrix_view<float> out(y.data(), batch, plan->rows());
        ASSERT_TRUE(ecq::matmul(cpu{.isa = isa}, *plan, x, out));
        expected.expect(parts, batch, y);
        const auto before = y;
        ASSERT_TRUE(ecq::matmul(cpu{.threads = 3, .isa = isa}, *plan, x, out, {.accumulate = true}));
        expected.expect(parts, batch, y, before);
        ASSERT_TRUE(ecq::matmul(cpu{.threads = 3, .isa = isa}, *plan, halves, out));
        expected.expect(parts, batch, y);
      }
    }
  }
}

// Shapes for weights that are multiplied in the order in which they are decoded: rows within a chunk and across chunks,
// and columns that rule it out.
constexpr shape fused_shapes[] = {{37, 512}, {16, 256}, {5, 7168}, {9, 768},
                                  {21, 384}, {40, 300}, {23, 576}, {19, 896}};

// With and without escapes.
TEST(MatmulPlan, TakesNarrowPairs) {
  for (const ecq::dtype format : {ecq::dtype::fp8_e4m3, ecq::dtype::int8}) {
    for (const double lambda : {60.0, 14.5, 4.0}) {
      for (unsigned raw_bits = 0; raw_bits < 4; ++raw_bits) {
        for (const shape& one : fused_shapes) {
          SCOPED_TRACE(std::to_string(raw_bits) + " raw bits, " + std::to_string(one.columns) + " columns");
          // Where pairs are few, escapes may have raw bits.
          const bool few = one.rows % 2 == 0 || one.columns == 896;
          expect_fused(packed({format, ecq::entquant{.lambda = lambda}}, {one, {3, one.columns}},
                              {.chunk_bits = 11, .narrow_pairs = raw_bits, .few_pairs = few}),
                       one.columns);
        }
      }
    }
  }
}

// Tables of up to 32 symbols, of up to 64, and larger ones.
TEST(MatmulPlan, TakesCodesAndExponents) {
  for (const shape& one : fused_shapes) {
    SCOPED_TRACE(std::to_string(one.columns) + " columns");
    for (const double lambda : {60.0, 14.5, 1.0}) {
      for (const ecq::dtype format : {ecq::dtype::fp8_e4m3, ecq::dtype::int8}) {
        SCOPED_TRACE(std::string(ecq::to_string(format)) + ", lambda " + std::to_string(lambda));
        expect_fused(packed({format, ecq::entquant{.lambda = lambda}}, {one, {3, one.columns}}, {.chunk_bits = 11}),
                     one.columns);
      }
    }
    for (const bool narrow : {false, true}) {
      expect_fused(packed(ecq::lossless_weights{}, {one, {3, one.columns}}, {.chunk_bits = 11}, narrow), one.columns);
    }
    expect_fused(packed({ecq::dtype::uint4, ecq::entrollm{}}, {one, {3, one.columns}}, {.chunk_bits = 11}),
                 one.columns);
  }
}

/// Returns two matrices of Int8, of 37 and 3 rows, whose codes are those of `path`, by a stream with or without a
/// trellis.
packed_block with_codes(const ecq_test::trellis_path& path, std::size_t columns, const ecq::stream_options& how) {
  ecq::stream_options plain = how;
  plain.trellis.reset();
  packed_block block = packed({ecq::dtype::int8, ecq::entquant{.lambda = 14.5}}, {{37, columns}, {3, columns}}, plain);
  auto stream = ecq::encode_stream<ecq::rans>(cpu{}, path.codes, how);
  EXPECT_TRUE(stream) << stream.error().to_string();
  block.stream = std::move(*stream);
  return block;
}

/// Returns a stream without a trellis. Its table is not made for the codes, for which the lowest bit would be raw.
std::vector<std::byte> without_raw_bits(const std::vector<std::uint8_t>& codes) {
  ecq::histogram counts;
  counts.add(codes);
  for (std::size_t code = 0; code < counts.counts.size(); code += 2) counts.counts[code] *= 64;
  const auto stream = ecq::encode_stream<ecq::rans>(cpu{}, codes, {.chunk_bits = 11, .shared_counts = &counts});
  EXPECT_TRUE(stream) << stream.error().to_string();
  EXPECT_EQ((*stream)[10], std::byte{0});
  return *stream;
}

/// Instruction sets that fuse products, where the machine has them.
const std::vector<instruction_set> fusing_sets = ecq_test::sets_from(instruction_set::avx2);

/// Returns the products of all rows by `isa`, where the machine has it: fused, or else of weights that are stored
/// first. Empty if there is an error.
template <class Element>
std::vector<float> products_by(instruction_set isa, const matmul_plan& plan, const std::vector<Element>& x,
                               std::size_t batch, bool fused, std::string* error = nullptr) {
  std::vector<float> y(batch * plan.rows()), edges(plan.edges(batch));
  const matrix_view<float> out(y.data(), batch, plan.rows());
  // Only what is prepared for the instruction set that runs it can be fused.
  const auto input = plan.prepare(matrix_view<const Element>(x.data(), batch, plan.columns()), out,
                                  ecq::activation_type::fp32, fused ? isa : instruction_set::scalar);
  EXPECT_TRUE(input);
  for (std::size_t task = 0; task < plan.tasks(); ++task) {
    const auto done = plan.run(isa, task, *input, out, edges);
    if (!done && error != nullptr) *error = done.error().to_string();
    if (!done) return {};
  }
  plan.join(batch, out, edges);
  return y;
}

/// Returns integers, whose sums of products with codes are exact in any order.
std::vector<float> small_integers(std::size_t count) {
  ecq_test::code_source random(count);
  std::vector<float> made;
  for (const std::uint8_t code : random.below(count, 7)) made.push_back(static_cast<float>(code) - 3);
  return made;
}

/// Returns activations of all 24 bits, whose sums depend on their order.
std::vector<float> long_fractions(std::size_t batch, std::size_t columns) {
  std::vector<float> made = gaussian(batch, columns, 17, 1.0F);
  for (float& each : made) each /= 3;
  return made;
}

/// Checks products with codes that are integers. `fused` says whether kernels fuse them.
void expect_sums(const packed_block& block, std::size_t columns, bool fused) {
  expect_fused(block, columns);
  const auto plan = matmul_plan::of(cpu{}, block);
  ASSERT_TRUE(plan) << plan.error().to_string();
  for (const std::size_t batch : {1U, 8U}) {
    const auto integers = small_integers(batch * columns);
    const expected_products expected(block, integers, batch);
    const auto x = long_fractions(batch, columns);
    for (const instruction_set isa : fusing_sets) {
      SCOPED_TRACE(std::to_string(batch) + " rows, " + std::string(ecq::name_of(isa)));
      const auto stored = products_by(isa, *plan, integers, batch, false);
      // A zero point is added for each group of columns or once.
      if (block.matrices[0].zero == 0) {
        EXPECT_EQ(products_by(isa, *plan, integers, batch, true), stored);
        EXPECT_EQ(products_by(isa, *plan, rounded(integers), batch, true), stored);
      }
      expected.expect({{0}, {1}}, batch, stored);
      const auto y = products_by(isa, *plan, x, batch, true);
      std::vector<float> again(y.size());
      ASSERT_TRUE(ecq::matmul(cpu{.threads = 3, .isa = isa}, *plan, matrix_view(x.data(), batch, columns),
                              matrix_view(again.data(), batch, plan->rows())));
      EXPECT_EQ(again, y);
      if (isa < instruction_set::avx2) continue;  // fuses nothing
      // A plan lists escapes for the kernels that are to multiply by it, which ECQ_CPU may have chosen.
      if (isa > ecq::chosen_instruction_set(instruction_set::automatic)) continue;
      EXPECT_EQ(products_by(isa, *plan, x, batch, false) != y, fused);
    }
  }
}

/// Like expect_sums(), for codes on a trellis. `path` has 40 rows.
void expect_on_trellis(const ecq_test::trellis_path& path, std::size_t columns, const ecq::stream_options& how,
                       bool fused) {
  expect_sums(with_codes(path, columns, how), columns, fused);
}

// Sums differ from those of the same numbers as FP32, since two products are added at a time.
TEST(MatmulPlan, MultipliesBf16AsSuchWhereThatIsFast) {
  const packed_block block = packed(ecq::lossless_weights{}, {{5, 7168}}, {.chunk_bits = 11}, true);
  const auto plan = matmul_plan::of(cpu{}, block);
  ASSERT_TRUE(plan) << plan.error().to_string();
  for (const std::size_t batch : {1U, 8U}) {
    const auto halves = rounded(gaussian(batch, 7168, 17, 1.0F));
    for (const instruction_set isa : fusing_sets) {
      const bool by_amx = batch > 1 && ecq::machine_has_amx();  // which splits FP32 into BF16 parts
      const bool fast = isa == instruction_set::avx512 && !by_amx && ecq::machine_has_fast_bf16_dots();
      const auto y = products_by(isa, *plan, halves, batch, true);
      EXPECT_EQ(y != products_by(isa, *plan, std::vector<float>(halves.begin(), halves.end()), batch, true), fast);
    }
  }
}

/// Returns the same codes with a scale for each `run` columns of `rows` rows.
packed_block with_scales(packed_block block, std::size_t run, std::size_t rows = 1) {
  ecq_test::code_source random(run);
  for (ecq::packed_matrix& matrix : block.matrices) {
    matrix.layout.rows_per_group = rows;
    matrix.layout.columns_per_group = run;
    matrix.scales.clear();
    for (const std::uint8_t each : random.below(matrix.layout.count(), 100)) {
      matrix.scales.emplace_back(0.01F * static_cast<float>(1 + each));
    }
  }
  return block;
}

// The runs of columns that share a scale end with chunks, within them and with a row. Some scales span several rows,
// and some rule out fusing.
TEST(MatmulPlan, TakesScalesOfGroups) {
  struct groups {
    std::size_t columns, run, rows;
    bool fused;
  };
  constexpr groups every_size[] = {{512, 128, 1, true},  {512, 128, 3, true},   {768, 256, 1, true},
                                   {1280, 512, 1, true}, {2560, 1152, 1, true}, {768, 64, 1, false},
                                   {576, 576, 1, true},  {896, 896, 3, true},   {576, 192, 1, false}};
  const ecq::trellis walk{3, 10};
  for (const auto& [columns, run, rows, fused] : every_size) {
    SCOPED_TRACE(std::to_string(run) + " of " + std::to_string(columns) + " columns, of " + std::to_string(rows));
    const std::vector<shape> shapes = {{37, columns}, {3, columns}};
    for (const std::optional<unsigned> pairs : {std::optional<unsigned>(), std::optional(0U), std::optional(1U)}) {
      SCOPED_TRACE(pairs ? std::to_string(*pairs) + " raw bits" : "single codes");
      const double lambda = pairs == 0U ? 20.0 : 14.5;  // some escapes, but not too many for a list
      const ecq::any_method method = {ecq::dtype::int8, ecq::entquant{.lambda = lambda}};
      expect_sums(with_scales(packed(method, shapes, {.chunk_bits = 11, .narrow_pairs = pairs}), run, rows), columns,
                  fused);
      const auto path = ecq_test::random_path(walk, 40 * columns, 2, pairs ? 63 : 15);
      expect_sums(
          with_scales(with_codes(path, columns, {.chunk_bits = 11, .narrow_pairs = pairs, .trellis = walk}), run, rows),
          columns, fused);
    }
    packed_block affine = packed({ecq::dtype::uint4, ecq::entrollm{}}, shapes, {.chunk_bits = 11});
    ASSERT_NE(affine.matrices[0].zero, 0.0F);
    expect_sums(with_scales(std::move(affine), run, rows), columns, fused);
  }
}

// The rows of activations fill tiles of 16, and some are left over. Rows of weights begin at several places of a group,
// and columns have scales of their own.
TEST(MatmulPlan, MultipliesManyRowsOfBf16) {
  struct part {
    std::size_t columns, run;
  };
  constexpr std::size_t batch = 51;
  for (const auto& [columns, run] : {part{1024, 1024}, part{896, 896}, part{768, 128}, part{768, 384}}) {
    SCOPED_TRACE(std::to_string(run) + " of " + std::to_string(columns) + " columns");
    const auto integers = small_integers(batch * columns);
    for (const std::optional<unsigned> pairs : {std::optional<unsigned>(), std::optional(0U)}) {
      const ecq::any_method method = {ecq::dtype::int8, ecq::entquant{.lambda = 20}};
      const packed_block block =
          with_scales(packed(method, {{70, columns}}, {.chunk_bits = 12, .narrow_pairs = pairs}), run);
      const auto plan = matmul_plan::of(cpu{}, block);
      ASSERT_TRUE(plan) << plan.error().to_string();
      for (const instruction_set isa : fusing_sets) {
        EXPECT_EQ(products_by(isa, *plan, rounded(integers), batch, true),
                  products_by(isa, *plan, integers, batch, false))
            << ecq::name_of(isa);
      }
    }
  }
}

// A list of so many escapes would take more memory than a plan may use, so weights are stored where kernels would need
// the list.
TEST(MatmulPlan, StoresPairsOfManyEscapes) {
  const bool listed = ecq::chosen_instruction_set(instruction_set::automatic) == instruction_set::avx512;
  const packed_block block = packed({ecq::dtype::int8, ecq::entquant{.lambda = 4.0}}, {{37, 512}, {3, 512}},
                                    {.chunk_bits = 11, .narrow_pairs = 0U});
  expect_sums(block, 512, !listed);
}

// Tables of up to 32 indices, of up to 64, and larger ones; periods of a chunk and of half of one.
TEST(MatmulPlan, TakesCodesOnATrellis) {
  for (const unsigned state_bits : {2U, 3U, 4U, 5U}) {
    for (const unsigned farthest : {5U, 15U, 28U, 63U}) {
      if (state_bits % 2 == 0 && farthest != 15) continue;  // 4, 8 and 16 states differ by tables alone
      const ecq::trellis walk{state_bits, farthest == 15 ? 11U : 10U};
      const std::size_t columns = farthest == 15 ? 640 : 512;
      SCOPED_TRACE(std::to_string(walk.states()) + " states, to " + std::to_string(farthest));
      const ecq::stream_options how = {.chunk_bits = 11, .trellis = walk};
      const auto path = ecq_test::random_path(walk, 40 * columns, 1, farthest);
      expect_on_trellis(path, columns, how, farthest != 63);
      if (farthest > 15) continue;  // too many codes for look-ups in registers
      // The same codes without a trellis have the same bits.
      const packed_block with = with_codes(path, columns, how);
      packed_block without = with;
      without.stream = without_raw_bits(path.codes);
      const auto plan = matmul_plan::of(cpu{}, with), plain = matmul_plan::of(cpu{}, without);
      ASSERT_TRUE(plan && plain);
      for (const instruction_set isa : fusing_sets) {
        for (const std::size_t batch : {1U, 8U}) {
          const auto x = long_fractions(batch, columns);
          EXPECT_EQ(products_by(isa, *plan, x, batch, true), products_by(isa, *plain, x, batch, true));
        }
      }
    }
  }
}

// With and without escapes, whose parities lead to other states; rows within a chunk and across.
TEST(MatmulPlan, TakesNarrowPairsOnATrellis) {
  for (const unsigned state_bits : {3U, 5U}) {
    const ecq::trellis walk{state_bits, 10};
    for (unsigned raw_bits = 0; raw_bits < 4; ++raw_bits) {
      SCOPED_TRACE(std::to_string(walk.states()) + " states, " + std::to_string(raw_bits) + " raw bits");
      const std::size_t columns = state_bits == 3 ? 768 : 512;
      for (const unsigned farthest : {0U, 63U}) {
        const bool few = farthest != 0 && raw_bits == 1;
        const ecq::stream_options how = {.chunk_bits = 11, .narrow_pairs = raw_bits, .few_pairs = few, .trellis = walk};
        expect_on_trellis(ecq_test::random_path(walk, 40 * columns, few ? 6 : 1U << raw_bits, farthest), columns, how,
                          raw_bits < 3);
      }
    }
  }
}

// Kernels of AVX2 sum up products that are 2^24 times too large.
TEST(MatmulPlan, TakesActivationsOfAnySizeOnATrellis) {
  const ecq::trellis walk{3, 10};
  const packed_block block =
      with_codes(ecq_test::random_path(walk, std::size_t{40} * 512, 1, 15), 512, {.chunk_bits = 11, .trellis = walk});
  const auto plan = matmul_plan::of(cpu{}, block);
  ASSERT_TRUE(plan) << plan.error().to_string();
  for (const instruction_set isa : fusing_sets) {
    for (const float size : {1e33F, 1e-42F}) {
      for (const std::size_t batch : {1U, 8U}) {
        auto x = long_fractions(batch, 512);
        for (float& each : x) each *= size;
        const auto y = products_by(isa, *plan, x, batch, true), stored = products_by(isa, *plan, x, batch, false);
        ASSERT_EQ(y.size(), stored.size());
        for (std::size_t i = 0; i < y.size(); ++i) {
          ASSERT_TRUE(std::isfinite(stored[i]));
          EXPECT_NEAR(y[i], stored[i], 2e-3 * static_cast<double>(size));
        }
      }
    }
  }
}

// Not groups of weights but rows of 300, and a format that is not of integers: weights are stored first.
TEST(MatmulPlan, StoresCodesOnATrellisThatNoKernelTakes) {
  const ecq::trellis walk{3, 10};
  expect_on_trellis(ecq_test::random_path(walk, std::size_t{40} * 300, 2), 300,
                    {.chunk_bits = 11, .narrow_pairs = 0, .trellis = walk}, false);
  packed_block block = with_codes(ecq_test::random_path(walk, std::size_t{40} * 512, 2), 512,
                                  {.chunk_bits = 11, .narrow_pairs = 0, .trellis = walk});
  for (ecq::packed_matrix& matrix : block.matrices) matrix.format = ecq::dtype::uint8;
  expect_fused(block, 512);
}

// Damage after the plan was made has the same verdict as where weights are stored, and mostly is an error.
TEST(MatmulPlan, FindsDamageOnATrellis) {
  const ecq::trellis walk{3, 10};
  for (const auto& [narrow, columns] : {std::pair(std::optional<unsigned>(), 512U), std::pair(std::optional(0U), 512U),
                                        std::pair(std::optional(2U), 512U), std::pair(std::optional(0U), 576U)}) {
    SCOPED_TRACE(narrow ? std::to_string(*narrow) + " raw bits" : "single codes");
    packed_block block = with_codes(ecq_test::random_path(walk, std::size_t{40} * columns, 2), columns,
                                    {.chunk_bits = 11, .narrow_pairs = narrow, .trellis = walk});
    const auto plan = matmul_plan::of(cpu{}, block);
    ASSERT_TRUE(plan) << plan.error().to_string();
    const auto stream = ecq::encoded_stream::parse(block.stream);
    ASSERT_TRUE(stream);
    const ecq::chunk_bytes third = stream->chunk(3);
    std::vector<std::size_t> places;  // in states and words
    for (std::size_t i = 0; i < 128; i += 9)
      places.push_back(static_cast<std::size_t>(third.states - block.stream.data()) + i);
    for (std::size_t i = 0; i < 2 * third.word_count; i += 31)
      places.push_back(static_cast<std::size_t>(third.words - block.stream.data()) + i);
    const auto x = small_integers(std::size_t{8} * columns);
    std::size_t found = 0;
    for (const std::size_t place : places) {
      block.stream[place] ^= std::byte{0x14};
      for (const instruction_set isa : fusing_sets) {
        for (const std::size_t batch : {1U, 8U}) {
          std::string of_fused, of_stored;
          const auto y = products_by(isa, *plan, x, batch, true, &of_fused);
          EXPECT_EQ(y, products_by(isa, *plan, x, batch, false, &of_stored)) << place;
          EXPECT_EQ(of_fused, of_stored);
          if (of_fused.empty()) continue;
          EXPECT_NE(of_fused.find("m0"), std::string::npos) << of_fused;
          ++found;
        }
      }
      block.stream[place] ^= std::byte{0x14};
    }
    EXPECT_GT(found, fusing_sets.size() * places.size());
  }
}

// Exact weights lie at both ends of rows and of tasks, two in a row, and in rows that tasks share.
TEST(MatmulPlan, TakesExactWeights) {
  const auto with_exact = [](packed_block block) {
    for (ecq::packed_matrix& matrix : block.matrices) {
      const std::uint64_t columns = matrix.layout.columns;
      if (matrix.lossless()) continue;
      matrix.exact = {{0, 5.0F}, {columns - 1, -3.0F}, {columns, 0.0F}, {columns + 7, 100.0F}, {3 * columns - 1, 0.5F}};
    }
    return block;
  };
  for (const shape& one : {shape{37, 512}, {9, 300}, {5, 7168}, {3, 40000}}) {
    SCOPED_TRACE(std::to_string(one.columns) + " columns");
    for (const kind& each : kinds()) {
      if (one.columns == 40000 && each.name != "groups") continue;
      SCOPED_TRACE(each.name);
      expect_fused(with_exact(packed(each.method, {one, {3, one.columns}}, {.chunk_bits = 11}, each.narrow)),
                   one.columns);
    }
    expect_fused(with_exact(packed(ecq::entquant{.lambda = 14.5}, {one, {3, one.columns}},
                                   {.chunk_bits = 11, .narrow_pairs = 1})),
                 one.columns);
  }
}

// An exact weight and that of its code are finite, but their difference is not.
TEST(MatmulPlan, TakesExactWeightsOfAnySize) {
  packed_block block = packed({ecq::dtype::int8, ecq::entquant{.lambda = 4.0}}, {{6, 512}});
  block.matrices[0].scales[2] = ecq::bf16(2.6e36F);
  const auto weights = decoded(block, 0);
  std::size_t at = 2 * 512;
  for (std::size_t i = at; i < 3 * 512; ++i) at = std::fabs(weights[i]) > std::fabs(weights[at]) ? i : at;
  block.matrices[0].exact = {{at, std::copysign(3.3e38F, -weights[at])}};
  ASSERT_TRUE(std::isinf(block.matrices[0].exact[0].weight - weights[at]));
  const auto plan = matmul_plan::of(cpu{}, block);
  ASSERT_TRUE(plan);
  for (const std::size_t batch : {1U, 3U, 6U}) {
    const auto x = gaussian(batch, 512, 5, 1e-5F);
    for (const instruction_set isa : every_set) {
      std::vector<float> y(6 * batch);
      ASSERT_TRUE(
          ecq::matmul(cpu{.isa = isa}, *plan, matrix_view(x.data(), batch, 512), matrix_view(y.data(), batch, 6)));
      expect_products(block, {{}}, x, y, batch);
    }
  }
}

TEST(MatmulPlan, TakesSeveralMatricesAndRanges) {
  const packed_block block = packed(ecq::entquant{.lambda = 14.5}, {{40, 96}, {24, 96}, {70, 96}});
  const std::vector<std::vector<row_selection>> choices = {
      {{0}, {1}, {2}}, {{2, 5, 30}, {0, 39}}, {{1, 0, 0}}, {{1}, {1}}, {{0, 40}}};
  const auto x = gaussian(3, 96, 5, 1.0F);
  ecq::worker_pool pool(2);
  for (const auto& parts : choices) {
    const auto plan = matmul_plan::of(cpu{}, block, parts);
    ASSERT_TRUE(plan) << plan.error().to_string();
    std::vector<float> y(3 * plan->rows());
    ASSERT_TRUE(
        ecq::matmul(cpu{.pool = &pool}, *plan, matrix_view(x.data(), 3, 96), matrix_view(y.data(), 3, plan->rows())));
    expect_products(block, parts, x, y, 3);
    const auto before = y;
    ASSERT_TRUE(ecq::matmul(cpu{}, *plan, matrix_view(x.data(), 3, 96), matrix_view(y.data(), 3, plan->rows()),
                            {.accumulate = true}));
    expect_products(block, parts, x, y, 3, before);
  }
}

// In files, a stack has one row for each of its matrices, with the scales of groups.
TEST(MatmulPlan, TakesOneExpertOfAStack) {
  const std::vector<float>& weights = same_gaussian(24, 256, 3);
  const matrix_view view(weights.data(), 24, 256);
  const auto made = [&](std::vector<std::uint64_t> shape) {
    const std::vector<ecq::named_weights> matrices{{"experts", view, std::move(shape)}};
    const ecq::any_method method(ecq::dtype::int8, ecq::entquant{.lambda = 10.0});
    return ecq::detail::compress_block(cpu{}, **method.get(), matrices, {}, ecq::detail::encode_function_of<ecq::rans>);
  };
  auto stack = made({3, 8, 256});
  const auto flat = made({24, 256});
  ASSERT_TRUE(stack && flat);
  EXPECT_EQ(stack->matrices[0].layout, (ecq::group_layout{3, 2048, 1, 256}));
  const auto all_rows = ecq::with_rows_of_all(stack->matrices[0]);
  ASSERT_TRUE(all_rows);
  stack->matrices[0] = *all_rows;
  const std::vector<float> x = gaussian(2, 256, 5, 1.0F);
  const row_selection second{0, 8, 8};
  const packed_block* const blocks[] = {&*stack, &*flat};
  std::vector<float> y[2];
  for (std::size_t i = 0; i < 2; ++i) {
    const auto plan = matmul_plan::of(cpu{}, *blocks[i], {&second, 1});
    ASSERT_TRUE(plan) << plan.error().to_string();
    y[i].resize(16);
    ASSERT_TRUE(ecq::matmul(cpu{}, *plan, matrix_view(x.data(), 2, 256), matrix_view(y[i].data(), 2, 8)));
  }
  EXPECT_EQ(y[0], y[1]);
}

TEST(MatmulPlan, TakesAnyStridesAndBf16) {
  const packed_block block = packed(ecq::entquant{.lambda = 14.5}, {{50, 90}});
  const auto plan = matmul_plan::of(cpu{}, block);
  ASSERT_TRUE(plan);
  const std::size_t batch = 4;
  std::vector<ecq::bf16> narrow(batch * 90);
  std::vector<float> wide(batch * 90), turned(90 * batch);
  const auto values = gaussian(batch, 90, 8, 1.0F);
  for (std::size_t i = 0; i < values.size(); ++i) {
    narrow[i] = ecq::bf16(values[i]);
    wide[i] = static_cast<float>(narrow[i]);
    turned[i % 90 * batch + i / 90] = wide[i];
  }
  std::vector<float> y(batch * 50), other(50 * batch), third(batch * 50);
  ASSERT_TRUE(ecq::matmul(cpu{}, *plan, matrix_view(wide.data(), batch, 90), matrix_view(y.data(), batch, 50)));
  expect_products(block, {{}}, wide, y, batch);
  ASSERT_TRUE(ecq::matmul(cpu{}, *plan, matrix_view(narrow.data(), batch, 90), matrix_view(third.data(), batch, 50)));
  EXPECT_EQ(third, y);
  ASSERT_TRUE(ecq::matmul(cpu{}, *plan, matrix_view<float>(turned.data(), batch, 90, 1, batch),
                          matrix_view<float>(other.data(), batch, 50, 1, batch)));
  for (std::size_t b = 0; b < batch; ++b) {
    for (std::size_t row = 0; row < 50; ++row) EXPECT_EQ(other[row * batch + b], y[b * 50 + row]);
  }
  // One row may be any span, and products may overwrite activations.
  std::vector<float> one(wide.begin(), wide.begin() + 90), out(50);
  ASSERT_TRUE(ecq::matmul(cpu{}, *plan, one, out));
  ASSERT_TRUE(ecq::matmul(cpu{}, *plan, one, matrix_view(one.data() + 10, 1, 50)));
  EXPECT_EQ(std::vector<float>(one.begin() + 10, one.begin() + 60), out);
}

// A program may name its coders and take all matrices.
TEST(MatmulPlan, MayKnowOneCoder) {
  const packed_block block = packed(ecq::entquant{.lambda = 14.5}, {{20, 300}, {10, 300}}, {.chunk_bits = 12});
  const auto plan = matmul_plan::of(cpu{}, block, ecq::coders<ecq::rans>);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->rows(), 30U);
  EXPECT_EQ(matmul_plan::of(cpu{}, block, ecq::coders<ecq::huffman>).error().code(), errc::unsupported);
}

// A product of dense matrices, Eigen's or the user's, multiplies many rows of activations.
TEST(MatmulPlan, TakesADenseProduct) {
  const auto plainly = [](matrix_view<const float> x, matrix_view<const float> weights, matrix_view<float> y) {
    for (std::size_t b = 0; b < x.rows(); ++b) {
      for (std::size_t row = 0; row < weights.rows(); ++row) {
        for (std::size_t column = 0; column < x.columns(); ++column) y(b, row) += x(b, column) * weights(row, column);
      }
    }
  };
  for (const kind& each : kinds()) {
    SCOPED_TRACE(each.name);
    const packed_block block = packed(each.method, {{130, 300}, {40, 300}}, {.chunk_bits = 12}, each.narrow);
    const std::vector<row_selection> parts = {{1}, {0, 3, 120}};
    const auto plan = matmul_plan::of(cpu{}, block, parts);
    ASSERT_TRUE(plan);
    const std::size_t batch = 9;
    const auto values = gaussian(batch, 300, 4, 1.0F);
    const matrix_view<const float> x(values.data(), batch, 300);
    std::vector<float> y(batch * plan->rows(), std::numeric_limits<float>::quiet_NaN()), turned(y.size(), 2);
    const matrix_view<float> out(y.data(), batch, plan->rows());
    ASSERT_TRUE(ecq::matmul(cpu{.threads = 2}, *plan, x, out, ecq::eigen_product()));
    expect_products(block, parts, values, y, batch);
    const matrix_view<float> across(turned.data(), batch, plan->rows(), 1, batch);
    ASSERT_TRUE(ecq::matmul(cpu{}, *plan, x, across, plainly, {.accumulate = true}));
    const auto expect_two_more = [&] {
      for (std::size_t b = 0; b < batch; ++b) {
        for (std::size_t row = 0; row < plan->rows(); ++row) EXPECT_NEAR(across(b, row), out(b, row) + 2, 1e-3);
      }
    };
    expect_two_more();
    std::fill(turned.begin(), turned.end(), 2.0F);
    ASSERT_TRUE(ecq::matmul(cpu{}, *plan, x, across, ecq::eigen_product(), {.accumulate = true}));
    expect_two_more();
    EXPECT_EQ(ecq::matmul(cpu{}, *plan, matrix_view<const float>(values.data(), 3, 299), out, plainly).error().code(),
              errc::invalid_argument);
    for (const auto type : {ecq::activation_type::bf16, ecq::activation_type::int8}) {
      EXPECT_EQ(ecq::matmul(cpu{}, *plan, x, out, plainly, {.activations = type}).error().code(), errc::unsupported);
    }
  }
}

// A dense product in BF16 takes weights as they leave the decoder, which need no rounding, and rounded ones.
TEST(MatmulPlan, TakesADenseProductOfHalves) {
  std::atomic<std::size_t> calls = 0;
  const auto product = [&](matrix_view<const ecq::bf16> x, matrix_view<const ecq::bf16> weights, matrix_view<float> y) {
    ++calls;
    EXPECT_TRUE(x.contiguous_rows() && weights.contiguous_rows() && y.row_stride() == 1);
    EXPECT_EQ(x.columns(), weights.columns());
    EXPECT_EQ(y.rows(), x.rows());
    EXPECT_EQ(y.columns(), weights.rows());
    for (std::size_t b = 0; b < x.rows(); ++b) {
      for (std::size_t row = 0; row < weights.rows(); ++row) {
        for (std::size_t column = 0; column < x.columns(); ++column) {
          y(b, row) += static_cast<float>(x(b, column)) * static_cast<float>(weights(row, column));
        }
      }
    }
  };
  std::size_t fed = 0;
  for (const kind& each : kinds()) {
    for (const std::size_t columns : {512U, 300U}) {
      for (const auto goal : {ecq::stream_goal::size, ecq::stream_goal::cpu}) {
        SCOPED_TRACE(std::string(each.name) + ", " + std::to_string(columns));
        // Rows lie across chunks of 4096 symbols, and the second matrix begins within one.
        const packed_block block =
            packed(each.method, {{131, columns}, {40, columns}}, {.chunk_bits = 12, .goal = goal}, each.narrow);
        const std::vector<row_selection> parts = {{1}, {0, 3, 120}};
        const auto plan = matmul_plan::of(cpu{}, block, parts);
        ASSERT_TRUE(plan);
        for (const std::size_t batch : {1U, 9U}) {
          const std::vector<float> values = gaussian(batch, columns, 4, 1.0F);
          const std::vector<ecq::bf16> halves = rounded(values);
          const std::vector<float> x(halves.begin(), halves.end());
          const matrix_view<const ecq::bf16> of_halves(halves.data(), batch, columns);
          std::vector<float> y(batch * plan->rows(), std::numeric_limits<float>::quiet_NaN()), turned(y.size(), 2);
          const matrix_view<float> out(y.data(), batch, plan->rows());
          const std::size_t before = calls;
          ASSERT_TRUE(ecq::matmul(cpu{.threads = 2}, *plan, of_halves, out, product));
          EXPECT_GT(calls, before);
          if (plan->feeds_product()) {
            ++fed;
            expect_products(block, parts, x, y, batch);
            // An engine's own tasks, with FP32 that is rounded.
            std::vector<float> own(y.size()), edges(plan->edges(batch));
            const matrix_view<float> to(own.data(), batch, plan->rows());
            const auto input =
                plan->prepare(matrix_view<const float>(values.data(), batch, columns), to, ecq::activation_type::bf16,
                              instruction_set::automatic, ecq::half_product(product));
            ASSERT_TRUE(input);
            for (std::size_t task = 0; task < plan->tasks(); ++task) {
              ASSERT_TRUE(plan->run(instruction_set::automatic, task, *input, to, edges));
            }
            plan->join(batch, to, edges);
            EXPECT_EQ(own, y);
          }
          std::vector<float> exact(y.size());
          const matrix_view<float> by_ecq(exact.data(), batch, plan->rows());
          ASSERT_TRUE(ecq::matmul(cpu{}, *plan, of_halves, by_ecq));
          const matrix_view<float> across(turned.data(), batch, plan->rows(), 1, static_cast<std::ptrdiff_t>(batch));
          ASSERT_TRUE(ecq::matmul(cpu{.isa = instruction_set::scalar}, *plan, of_halves, across, product,
                                  {.accumulate = true}));
          for (std::size_t b = 0; b < batch; ++b) {
            for (std::size_t row = 0; row < plan->rows(); ++row) {
              // Weights of about 0.02, each rounded by at most 2^-9 of itself.
              const double bound = 0x1p-9 * 0.03 * std::sqrt(static_cast<double>(columns)) * 4;
              EXPECT_NEAR(out(b, row), by_ecq(b, row), bound);
              EXPECT_NEAR(across(b, row), by_ecq(b, row) + 2, bound);
            }
          }
          // Columns with gaps between them.
          std::vector<ecq::bf16> apart(2 * halves.size());
          for (std::size_t i = 0; i < halves.size(); ++i) apart[2 * i] = halves[i];
          const matrix_view<const ecq::bf16> spread(apart.data(), batch, columns,
                                                    static_cast<std::ptrdiff_t>(2 * columns), 2);
          std::vector<float> again(y.size());
          ASSERT_TRUE(
              ecq::matmul(cpu{}, *plan, spread, matrix_view<float>(again.data(), batch, plan->rows()), product));
          EXPECT_EQ(again, y);
        }
        // No rows, and a row with NaN, which leaves the products of the other row finite.
        std::vector<float> none;
        EXPECT_TRUE(ecq::matmul(cpu{}, *plan, matrix_view<const ecq::bf16>(nullptr, 0, columns),
                                matrix_view<float>(none.data(), 0, plan->rows()), product));
        std::vector<ecq::bf16> odd = rounded(gaussian(2, columns, 4, 1.0F));
        std::vector<float> odd_products(2 * plan->rows());
        odd[3] = ecq::bf16(std::numeric_limits<float>::quiet_NaN());
        ASSERT_TRUE(ecq::matmul(cpu{}, *plan, matrix_view<const ecq::bf16>(odd.data(), 2, columns),
                                matrix_view<float>(odd_products.data(), 2, plan->rows()), product));
        for (std::size_t row = 0; row < plan->rows(); ++row) {
          EXPECT_TRUE(std::isnan(odd_products[row]));
          EXPECT_TRUE(std::isfinite(odd_products[plan->rows() + row]));
        }
        const std::vector<ecq::bf16> few(299);
        std::vector<float> y(plan->rows());
        const matrix_view<float> out(y.data(), 1, y.size());
        EXPECT_EQ(ecq::matmul(cpu{}, *plan, matrix_view<const ecq::bf16>(few), out, product).error().code(),
                  errc::invalid_argument);
        const std::vector<ecq::bf16> right(columns);
        const matrix_view<const ecq::bf16> zeros(right);
        EXPECT_EQ(
            ecq::matmul(cpu{}, *plan, zeros, out, product, {.activations = ecq::activation_type::int8}).error().code(),
            errc::unsupported);
        EXPECT_TRUE(ecq::matmul(cpu{}, *plan, zeros, out, product, {.activations = ecq::activation_type::bf16}));
      }
    }
  }
  const instruction_set chosen =
      ecq::chosen_instruction_set(instruction_set::automatic);  // ECQ_CPU may name another one
  EXPECT_EQ(fed > 0, chosen == instruction_set::avx512);
}

/// Returns the bits of the first `count` numbers, which may include NaN.
std::vector<std::uint32_t> bits_of(const std::vector<float>& numbers, std::size_t count) {
  std::vector<std::uint32_t> bits(count);
  for (std::size_t i = 0; i < count; ++i) bits[i] = std::bit_cast<std::uint32_t>(numbers[i]);
  return bits;
}

// Products of FP32 that is to be rounded have the bits of those of BF16: for few rows and more than are taken at once,
// for columns with gaps, and where y overlaps x.
TEST(MatmulPlan, RoundsActivationsToBf16) {
  constexpr float beyond = 0x1.FFp127F;  // rounds to infinity
  for (const kind& each : kinds()) {
    for (const std::size_t columns : {256U, 300U, 1U}) {
      const packed_block block = packed(each.method, {{20, columns}}, {.chunk_bits = 12}, each.narrow);
      const auto plan = matmul_plan::of(cpu{}, block);
      ASSERT_TRUE(plan);
      for (const std::size_t batch : {0U, 1U, 5U, 20U, 300U}) {
        SCOPED_TRACE(each.name + ", " + std::to_string(columns) + " columns, " + std::to_string(batch) + " rows");
        std::vector<float> x = same_gaussian(batch, columns, 4, 1.0F);
        if (batch == 20) {
          x[4 * columns - 1] = beyond;
          x[5 * columns] = std::numeric_limits<float>::quiet_NaN();
        }
        const std::vector<ecq::bf16> halves = rounded(x);
        const matrix_view<const float> plain(x.data(), batch, columns);
        const matrix_view<const ecq::bf16> of_halves(halves.data(), batch, columns);
        for (const instruction_set isa : every_set) {
          const cpu backend{.isa = isa};
          const auto products = [&](const auto& view, ecq::activation_type type) {
            std::vector<float> y(batch * plan->rows(), 2);
            EXPECT_TRUE(ecq::matmul(backend, *plan, view, matrix_view<float>(y.data(), batch, plan->rows()),
                                    {.accumulate = true, .activations = type}));
            return bits_of(y, y.size());
          };
          const auto expected = products(of_halves, ecq::activation_type::fp32);
          EXPECT_EQ(products(plain, ecq::activation_type::bf16), expected) << ecq::name_of(isa);
          EXPECT_EQ(products(of_halves, ecq::activation_type::bf16), expected) << ecq::name_of(isa);
          if (batch > 20) continue;
          std::vector<float> apart(2 * x.size());
          for (std::size_t i = 0; i < x.size(); ++i) apart[2 * i] = x[i];
          const matrix_view<const float> spread(apart.data(), batch, columns, static_cast<std::ptrdiff_t>(2 * columns),
                                                2);
          EXPECT_EQ(products(spread, ecq::activation_type::bf16), expected) << ecq::name_of(isa);
          std::vector<float> memory = x;
          std::vector<float> y(batch * plan->rows());
          memory.resize((std::max)(memory.size(), y.size()));
          ASSERT_TRUE(ecq::matmul(backend, *plan, matrix_view<const float>(memory.data(), batch, columns),
                                  matrix_view<float>(memory.data(), batch, plan->rows()),
                                  {.activations = ecq::activation_type::bf16}));
          ASSERT_TRUE(ecq::matmul(backend, *plan, of_halves, matrix_view<float>(y.data(), batch, plan->rows())));
          EXPECT_EQ(bits_of(memory, y.size()), bits_of(y, y.size())) << ecq::name_of(isa);
        }
      }
    }
  }
}

template <class Element>
struct VeryManyRows : testing::Test {};
using activation_elements = testing::Types<float, ecq::bf16>;
TYPED_TEST_SUITE(VeryManyRows, activation_elements);

// More rows than tasks can order, or have sums for, are multiplied in turns, unless y overlaps x.
TYPED_TEST(VeryManyRows, AreMultipliedInTurns) {
  const std::size_t columns = 256, outputs = 8;
  const packed_block block = packed(ecq::entquant{.lambda = 14.5}, {{outputs, columns}}, {.chunk_bits = 12});
  const auto plan = matmul_plan::of(cpu{}, block);
  ASSERT_TRUE(plan);
  const std::size_t at_once = plan->template rows_at_once<TypeParam>();
  const std::size_t batch = 2 * (at_once < 10000 ? at_once : 100) + 5;  // without such kernels, there is no limit
  const std::vector<float> values = gaussian(batch, columns, 4, 1.0F);
  const std::vector<TypeParam> x(values.begin(), values.end());
  const auto rows_of = [&](std::size_t first, std::size_t count) {
    return matrix_view<const TypeParam>(x.data() + first * columns, count, columns);
  };
  std::vector<float> y(batch * outputs, std::numeric_limits<float>::quiet_NaN()), few(100 * outputs);
  ASSERT_TRUE(ecq::matmul(cpu{}, *plan, rows_of(0, batch), matrix_view<float>(y.data(), batch, outputs)));
  for (std::size_t first = 0; first < batch; first += 100) {
    const std::size_t count = std::min<std::size_t>(100, batch - first);
    ASSERT_TRUE(ecq::matmul(cpu{}, *plan, rows_of(first, count), matrix_view<float>(few.data(), count, outputs)));
    for (std::size_t i = 0; i < count * outputs; ++i) ASSERT_NEAR(y[first * outputs + i], few[i], 1e-5);
  }
  EXPECT_FALSE(ecq::matmul(cpu{}, *plan, rows_of(0, batch), matrix_view<float>(y.data(), batch - 1, outputs)));
  std::vector<std::byte> memory(batch * columns * sizeof(TypeParam));
  std::memcpy(memory.data(), x.data(), memory.size());
  const matrix_view<const TypeParam> shared(reinterpret_cast<const TypeParam*>(memory.data()), batch, columns);
  const matrix_view<float> over(reinterpret_cast<float*>(memory.data()), batch, outputs);
  ASSERT_TRUE(ecq::matmul(cpu{}, *plan, shared, over));
  std::vector<float> found(y.size());
  std::memcpy(found.data(), memory.data(), found.size() * sizeof(float));
  for (std::size_t i = 0; i < y.size(); ++i) ASSERT_NEAR(found[i], y[i], 1e-4);
}

// An engine may run tasks on its own threads, in any order, each alone.
TEST(MatmulPlan, RunsTaskByTask) {
  for (const unsigned chunk_bits : {10U, 12U}) {
    const packed_block block =
        packed(ecq::entquant{.lambda = 14.5}, {{9, 3000}, {2, 3000}}, {.chunk_bits = chunk_bits});
    const auto plan = matmul_plan::of(cpu{}, block);
    ASSERT_TRUE(plan);
    EXPECT_GT(plan->tasks(), 1U);
    const auto x = gaussian(2, 3000, 5, 1.0F);
    std::vector<float> expected(22), y(22);
    const matrix_view<float> out(y.data(), 2, 11);
    ASSERT_TRUE(ecq::matmul(cpu{}, *plan, matrix_view(x.data(), 2, 3000), matrix_view(expected.data(), 2, 11)));
    const auto input = plan->prepare(matrix_view<const float>(x.data(), 2, 3000), out);
    ASSERT_TRUE(input);
    std::vector<float> edges(plan->edges(2));
    for (std::size_t task = plan->tasks(); task-- > 0;) {
      ASSERT_TRUE(plan->run(instruction_set::automatic, task, *input, out, edges));
    }
    plan->join(2, out, edges);
    EXPECT_EQ(y, expected);
    // A row of activations as a span.
    const std::span row(x.data(), 3000);
    const std::span to(y.data(), 11);
    ASSERT_TRUE(ecq::matmul(cpu{}, *plan, row, std::span(expected).first(11)));
    const auto of_row = plan->prepare(row, to);
    ASSERT_TRUE(of_row);
    for (std::size_t task = 0; task < plan->tasks(); ++task) {
      ASSERT_TRUE(plan->run(instruction_set::automatic, task, *of_row, matrix_view(to), edges));
    }
    plan->join(1, matrix_view(to), edges);
    EXPECT_EQ(std::vector(to.begin(), to.end()), std::vector(expected.begin(), expected.begin() + 11));
  }
}

/// Checks products with infinity in the first row of activations, and NaN in the second.
template <class Element>
void expect_propagated(const packed_block& block, const std::vector<Element>& x, std::size_t columns) {
  const float infinity = std::numeric_limits<float>::infinity();
  const auto plan = matmul_plan::of(cpu{}, block);
  ASSERT_TRUE(plan);
  const auto weights = decoded(block, 0);
  for (const std::size_t batch : {1U, 3U, 6U}) {
    for (const instruction_set isa : every_set) {
      std::vector<float> y(6 * batch);
      const auto done = ecq::matmul(cpu{.isa = isa}, *plan, matrix_view<const Element>(x.data(), batch, columns),
                                    matrix_view(y.data(), batch, 6));
      ASSERT_TRUE(done) << done.error().to_string();
      for (std::size_t row = 0; row < 6; ++row) {
        const float weight = weights[row * columns + 3];
        if (weight != 0) {
          EXPECT_EQ(y[row], std::copysign(infinity, weight));
        } else {
          EXPECT_FALSE(std::isfinite(y[row]));
        }
        if (batch == 1) continue;
        EXPECT_TRUE(std::isnan(y[6 + row]));
        for (std::size_t b = 2; b < batch; ++b) EXPECT_TRUE(std::isfinite(y[6 * b + row]));
      }
    }
  }
}

void expect_propagated(const packed_block& block, std::size_t columns) {
  auto x = gaussian(6, columns, 5, 1.0F);
  x[3] = std::numeric_limits<float>::infinity();
  x[columns + 690] = std::numeric_limits<float>::quiet_NaN();
  expect_propagated(block, x, columns);
  expect_propagated(block, rounded(x), columns);
}

TEST(MatmulPlan, PropagatesWhatIsNotFinite) {
  for (const std::size_t columns : {700U, 768U}) {
    for (const kind& each : kinds()) {
      SCOPED_TRACE(each.name);
      expect_propagated(packed(each.method, {{6, columns}}, {.chunk_bits = 10}, each.narrow), columns);
    }
    packed_block block = packed(ecq::entquant{.lambda = 14.5}, {{6, columns}}, {.chunk_bits = 10, .narrow_pairs = 1});
    expect_propagated(block, columns);
    block.matrices[0].exact = {{columns + 3, -2.0F}, {3 * columns + 3, 0.0F}, {4 * columns + 690, 1.0F}};
    expect_propagated(block, columns);
  }
}

// Rows of 576 weights begin within groups that are multiplied together. Infinity and NaN of a row must not reach the
// next one.
TEST(MatmulPlan, KeepsWeightsThatAreNotFiniteToTheirRows) {
  constexpr std::size_t rows = 1024, columns = 576;
  auto weights = rounded(gaussian(rows, columns, 7, 1.0F));
  weights[5 * columns + columns - 1] = ecq::bf16(std::numeric_limits<float>::infinity());
  weights[9 * columns] = ecq::bf16(std::numeric_limits<float>::quiet_NaN());
  const auto block = ecq::lossless<ecq::bf16>{}.compress(matrix_view<const ecq::bf16>(weights.data(), rows, columns));
  ASSERT_TRUE(block) << block.error().to_string();
  const auto plan = matmul_plan::of(cpu{}, *block);
  ASSERT_TRUE(plan) << plan.error().to_string();
  for (const std::size_t batch : {1U, 5U}) {
    const auto x = gaussian(batch, columns, 8, 1.0F);
    for (const instruction_set isa : every_set) {
      SCOPED_TRACE(std::to_string(batch) + " rows, " + std::string(ecq::name_of(isa)));
      std::vector<float> y(batch * rows);
      ASSERT_TRUE(ecq::matmul(cpu{.isa = isa}, *plan, matrix_view(x.data(), batch, columns),
                              matrix_view(y.data(), batch, rows)));
      for (std::size_t b = 0; b < batch; ++b) {
        EXPECT_EQ(y[b * rows + 5], std::copysign(std::numeric_limits<float>::infinity(), x[b * columns + columns - 1]));
        EXPECT_TRUE(std::isnan(y[b * rows + 9]));
        for (std::size_t row = 0; row < rows; ++row) {
          if (row == 5 || row == 9) continue;
          double sum = 0;
          for (std::size_t i = 0; i < columns; ++i) {
            sum += static_cast<double>(static_cast<float>(weights[row * columns + i])) * x[b * columns + i];
          }
          ASSERT_NEAR(y[b * rows + row], sum, 0.01) << "row " << row;
        }
      }
    }
  }
}

TEST(MatmulPlan, RefusesWhatDoesNotFit) {
  const packed_block block = packed(ecq::entquant{.lambda = 14.5}, {{8, 16}, {8, 24}});
  const std::vector<row_selection> mixed = {{0}, {1}}, absent = {{2}}, beyond = {{0, 9}}, first = {{0}};
  EXPECT_EQ(matmul_plan::of(cpu{}, block).error().code(), errc::invalid_argument);
  EXPECT_EQ(matmul_plan::of(cpu{}, block, mixed).error().code(), errc::invalid_argument);
  EXPECT_EQ(matmul_plan::of(cpu{}, block, absent).error().code(), errc::not_found);
  EXPECT_EQ(matmul_plan::of(cpu{}, block, beyond).error().code(), errc::invalid_argument);
  const auto plan = matmul_plan::of(cpu{}, block, first);
  ASSERT_TRUE(plan);
  std::vector<float> x(17), y(8), longer(9);
  EXPECT_EQ(ecq::matmul(cpu{}, *plan, x, y).error().code(), errc::invalid_argument);
  x.resize(16);
  EXPECT_EQ(ecq::matmul(cpu{}, *plan, x, longer).error().code(), errc::invalid_argument);
  EXPECT_TRUE(ecq::matmul(cpu{}, *plan, x, y));
  // No rows of activations, and no rows of weights.
  EXPECT_TRUE(ecq::matmul(cpu{}, *plan, matrix_view<float>(x.data(), 0, 16), matrix_view<float>(y.data(), 0, 8)));
  const auto nothing = matmul_plan::of(cpu{}, block, std::vector<row_selection>{});
  ASSERT_TRUE(nothing);
  EXPECT_EQ(nothing->tasks(), 0U);
}

// A damaged stream is found when the plan is made; a plan that is made gives right sums or an error.
TEST(MatmulPlan, FindsDamage) {
  const packed_block block = packed(ecq::entquant{.lambda = 14.5}, {{40, 96}});
  std::vector<float> x(96, 1.0F), y(40);
  for (std::size_t at = 0; at < block.stream.size(); at += 7) {
    packed_block damaged = block;
    damaged.stream[at] ^= std::byte{0x10};
    const auto plan = matmul_plan::of(cpu{}, damaged);
    EXPECT_FALSE(plan) << at;
  }
  packed_block odd = block;
  odd.matrices[0].scales[3] = ecq::bf16(std::numeric_limits<float>::infinity());
  EXPECT_EQ(matmul_plan::of(cpu{}, odd).error().code(), errc::corrupt);
}

TEST(MatmulPlan, ErrorsNumberMatricesWithoutNames) {
  packed_block block = packed(ecq::entquant{.lambda = 14.5}, {{64, 128}, {64, 128}, {8, 24}}, {.chunk_bits = 12});
  for (ecq::packed_matrix& matrix : block.matrices) matrix.name.clear();
  const std::vector<row_selection> mixed = {{0}, {2}}, both = {{0}, {1}};
  const auto unequal = matmul_plan::of(cpu{}, block, mixed);
  ASSERT_FALSE(unequal);
  EXPECT_NE(unequal.error().message().find("matrix 2: 24 columns"), std::string::npos) << unequal.error().to_string();
  const auto stream = ecq::encoded_stream::parse(block.stream);
  ASSERT_TRUE(stream);
  const auto at = static_cast<std::size_t>(stream->chunk(3).words - block.stream.data());
  block.stream[at] ^= std::byte{0x10};
  const auto damaged = matmul_plan::of(cpu{}, block, both);
  ASSERT_FALSE(damaged);
  EXPECT_NE(damaged.error().message().find("matrix 1: stream: chunk 3"), std::string::npos)
      << damaged.error().to_string();
}

// Codes that are no numbers pass every checksum.
TEST(MatmulPlan, FindsCodesThatAreNoNumbers) {
  for (const std::size_t columns : {96U, 128U}) {
    packed_block block = packed(ecq::entquant{.lambda = 14.5}, {{64, columns}});
    std::vector<std::uint8_t> codes(64 * columns, 0x38);
    for (std::size_t at = 0; at < codes.size(); at += 3) codes[at] = 0x30;  // otherwise nothing would be coded
    codes[1000] = 0x7F;
    auto stream = ecq::encode_stream<ecq::rans>(cpu{}, codes, {.chunk_bits = 12});
    ASSERT_TRUE(stream);
    block.stream = *stream;
    const auto plan = matmul_plan::of(cpu{}, block);
    ASSERT_TRUE(plan) << plan.error().to_string();
    for (const std::size_t batch : {1U, 2U, 5U}) {
      std::vector<float> x(batch * columns, 1.0F), y(batch * 64);
      for (const instruction_set isa : every_set) {
        const auto done = ecq::matmul(cpu{.isa = isa}, *plan, matrix_view(x.data(), batch, columns),
                                      matrix_view(y.data(), batch, 64));
        ASSERT_FALSE(done);
        EXPECT_EQ(done.error().code(), errc::corrupt) << done.error().to_string();
        EXPECT_NE(done.error().message().find("m0"), std::string::npos);
      }
    }
  }
}

}  // namespace
