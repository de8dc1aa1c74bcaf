// Matrices that are multiplied by one plan give the same bits as with a plan for each.

#include "../../examples/llama/fused_source.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <utility>
#include <vector>

#include "../../examples/llama/layer_source.hpp"
#include "../../examples/llama/linear_layer.hpp"
#include "../../examples/llama/model.hpp"
#include "../../examples/llama/stored_tensors.hpp"
#include "../../examples/llama/thread_pool.hpp"
#include "ecq/checkpoint/compress_checkpoint.hpp"
#include "ecq/checkpoint/segment_queue.hpp"
#include "ecq/matmul/matmul.hpp"
#include "llama/tiny_model.hpp"

namespace {

using llama::projection;
using llama_test::tiny_model;

class LlamaFusedSource : public testing::Test {
 protected:
  void SetUp() override { tiny_model().write(folder / "plain"); }

  llama::stored_tensors packed(const ecq::compress_options& how) {
    std::filesystem::remove_all(folder / "packed");
    EXPECT_TRUE(ecq::compress_folder(ecq::cpu{}, folder / "plain", folder / "packed", how));
    auto tensors = llama::stored_tensors::open(folder / "packed");
    if (!tensors) throw std::runtime_error(tensors.error().to_string());
    return std::move(*tensors);
  }

  static llama::by_projection<const llama::stored_tensor*> layer_of(const llama::stored_tensors& tensors) {
    llama::by_projection<const llama::stored_tensor*> layer{};
    for (std::size_t index = 0; index < llama::projections; ++index) {
      layer[index] = tensors.find(llama::tensor_name(1, static_cast<projection>(index)));
    }
    return layer;
  }

  /// Returns the number of rows of each matrix, 0 for matrices that are absent.
  static std::vector<std::size_t> rows_of(llama::fused_source& source) {
    const auto matrices = source.layer(0);
    std::vector<std::size_t> rows;
    for (const llama::linear_layer* const matrix : *matrices) rows.push_back(matrix != nullptr ? matrix->rows() : 0);
    return rows;
  }

  /// Returns the product of `in` (tokens x hidden) and a matrix by a plan of its own, tokens x rows.
  static std::vector<float> product_alone(const llama::stored_tensor& tensor, const std::vector<float>& in,
                                          ecq::activation_type activations) {
    const std::size_t tokens = in.size() / tiny_model::hidden;
    const auto block = ecq::detail::open_block::open(*tensor.container, tensor.block);
    if (!block) throw std::runtime_error(block.error().to_string());
    const ecq::row_selection rows{.matrix = tensor.matrix};
    const auto plan = ecq::matmul_plan::of(
        ecq::cpu{}, {(*block)->decoder().matrices(), (*block)->decoder().stream().bytes()}, {&rows, 1});
    if (!plan) throw std::runtime_error(plan.error().to_string());
    std::vector<float> out(tokens * plan->rows());
    EXPECT_TRUE(ecq::matmul(ecq::cpu{}, *plan, ecq::matrix_view(in.data(), tokens, tiny_model::hidden),
                            ecq::matrix_view(out.data(), tokens, plan->rows()), {.activations = activations}));
    return out;
  }

  /// Expects the product of `count` matrices from `which` on to have the bits of one product for each.
  void expect_same_bits(const llama::stored_tensors& tensors, projection which, std::size_t count, std::size_t tokens,
                        ecq::activation_type activations) {
    const auto layer = layer_of(tensors);
    llama::fused_source source(activations);
    ASSERT_TRUE(source.add(ecq::cpu{}, layer));
    EXPECT_EQ(rows_of(source), (std::vector<std::size_t>{96, 0, 0, 64, 176, 0, 64}));
    const auto matrices = source.layer(0);
    const auto first = static_cast<std::size_t>(which);
    const llama::linear_layer& joint = *(*matrices)[first];
    const std::vector<float> in = ecq_test::gaussian(tokens, tiny_model::hidden, 9, 1);
    std::vector<float> out(tokens * joint.rows());
    ASSERT_TRUE(joint.multiply(pool, {in.data(), tokens, tiny_model::hidden}, {out.data(), tokens, joint.rows()}));
    std::size_t column = 0;
    for (std::size_t index = first; index < first + count; ++index) {
      const std::vector<float> alone = product_alone(*layer[index], in, activations);
      const std::size_t rows = alone.size() / tokens;
      for (std::size_t token = 0; token < tokens; ++token) {
        EXPECT_EQ(std::memcmp(&out[token * joint.rows() + column], &alone[token * rows], rows * sizeof(float)), 0);
      }
      column += rows;
    }
    EXPECT_EQ(column, joint.rows());
  }

  ecq_test::temporary_folder folder;
  llama::thread_pool pool{2};
};

TEST_F(LlamaFusedSource, OnePlanGivesTheBitsOfSeveral) {
  for (const ecq::any_method& method :
       {ecq::any_method(ecq::lossless_weights{}), ecq::any_method(ecq::entquant{.target_bits = 3.0})}) {
    const llama::stored_tensors tensors = packed({.method = method});
    for (const auto activations :
         {ecq::activation_type::fp32, ecq::activation_type::bf16, ecq::activation_type::int8}) {
      for (const std::size_t count : {1U, 5U}) {
        expect_same_bits(tensors, projection::query, 3, count, activations);
        expect_same_bits(tensors, projection::gate, 2, count, activations);
      }
    }
  }
}

TEST_F(LlamaFusedSource, MatricesOfOtherBlocksHavePlansOfTheirOwn) {
  ecq::compress_options how{.method = ecq::entquant{.target_bits = 4.0}};
  how.selection.exclude = {"*k_proj*", "*gate_proj*"};
  const llama::stored_tensors mixed = packed(how);
  llama::fused_source plain_keys(ecq::activation_type::fp32);
  ASSERT_TRUE(plain_keys.add(ecq::cpu{}, layer_of(mixed)));
  EXPECT_EQ(rows_of(plain_keys), (std::vector<std::size_t>{48, 24, 24, 64, 88, 88, 64}));
  EXPECT_EQ(plain_keys.memory().dense, 2U * (24 + 88) * tiny_model::hidden);

  how.selection.exclude.clear();
  how.selection.block_pattern = R"(layers\.[0-9]+\.(self_attn\.v_proj|mlp\.up_proj)?)";
  const llama::stored_tensors split = packed(how);
  llama::fused_source own_values(ecq::activation_type::fp32);
  ASSERT_TRUE(own_values.add(ecq::cpu{}, layer_of(split)));
  EXPECT_EQ(rows_of(own_values), (std::vector<std::size_t>{72, 0, 24, 64, 88, 88, 64}));
}

}  // namespace
