#pragma once
/// \file
/// Products of a decoder, whatever its weights look like in memory.

#include <cstddef>
#include <optional>
#include <span>

#include "ecq/base/matrix_view.hpp"
#include "ecq/base/result.hpp"
#include "ecq/format/bf16.hpp"

namespace ecq {
enum class activation_type : unsigned char;
class matmul_plan;
}  // namespace ecq

namespace llama {

class thread_pool;

/// Plan and activations of a product with a matrix that stays coded.
struct coded_product {
  const ecq::matmul_plan* plan;
  ecq::activation_type activations;
};

/// A weight matrix that activations are multiplied by. Dense matrices of the same weights give the same bits: each
/// element of the product is a sum in the order of llama::dot. Coded matrices sum in the order of their plan.
class linear_layer {
 public:
  linear_layer() = default;
  linear_layer(const linear_layer&) = delete;
  linear_layer& operator=(const linear_layer&) = delete;
  virtual ~linear_layer() = default;

  /// Number of rows of the matrix.
  virtual std::size_t rows() const noexcept = 0;

  /// Computes out (tokens x rows of the matrix) = in (tokens x columns) times the transpose of the matrix. Both are
  /// row-major, with the extents of the matrix and any stride between rows. Errors: those of decoding coded weights;
  /// dense matrices have none.
  virtual ecq::result<void> multiply(thread_pool& pool, ecq::matrix_view<const float> in,
                                     ecq::matrix_view<float> out) const = 0;

  /// Returns the product of a coded matrix; nothing if the matrix is dense.
  virtual std::optional<coded_product> coded() const noexcept { return std::nullopt; }
};

/// One of several products: `out` = `in` times the transpose of the matrix.
struct layer_product {
  const linear_layer* matrix;
  ecq::matrix_view<const float> in;
  ecq::matrix_view<float> out;
};

/// Computes products that do not depend on each other, those of coded matrices all at once: a single one of few tokens
/// may be too small for all threads. Errors: those of linear_layer::multiply.
ecq::result<void> multiply_together(thread_pool& pool, std::span<const layer_product> products);

/// A matrix of BF16 weights in memory that something else owns.
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
