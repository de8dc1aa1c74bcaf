#pragma once
/// \file
/// The products of a decoder, without what its weights look like in memory.

#include <cstddef>

#include "ecq/base/matrix_view.hpp"
#include "ecq/base/result.hpp"
#include "ecq/format/bf16.hpp"

namespace llama {

class thread_pool;

/// A weight matrix that activations are multiplied by. Dense ones give the same bits for the same weights: each element
/// of the product is a sum in the order of llama::dot. Coded ones sum in the order of their plan.
class linear_layer {
 public:
  linear_layer() = default;
  linear_layer(const linear_layer&) = delete;
  linear_layer& operator=(const linear_layer&) = delete;
  virtual ~linear_layer() = default;

  /// The rows of the matrix.
  virtual std::size_t rows() const noexcept = 0;

  /// out (tokens x rows of the matrix) = in (tokens x columns) times the transpose of the matrix; both row-major, with
  /// the extents of the matrix and any stride between rows. Errors are those of weights that are decoded on the way;
  /// dense ones have none.
  virtual ecq::result<void> multiply(thread_pool& pool, ecq::matrix_view<const float> in,
                                     ecq::matrix_view<float> out) const = 0;
};

/// A matrix of BF16 weights in memory, which somebody else owns.
class dense_layer final : public linear_layer {
 public:
  dense_layer() = default;
  explicit dense_layer(ecq::matrix_view<const ecq::bf16> weights) : weights_(weights) {}

  void set(ecq::matrix_view<const ecq::bf16> weights) noexcept { weights_ = weights; }
  ecq::matrix_view<const ecq::bf16> weights() const noexcept { return weights_; }

  std::size_t rows() const noexcept override { return weights_.rows(); }

  ecq::result<void> multiply(thread_pool& pool, ecq::matrix_view<const float> in,
                             ecq::matrix_view<float> out) const override;

 private:
  ecq::matrix_view<const ecq::bf16> weights_;
};

}  // namespace llama
