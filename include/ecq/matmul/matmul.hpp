#pragma once
/// \file
/// The verb of products with matrices that stay coded: y = x W^T.
///
///   auto plan = ecq::matmul_plan::of(ecq::cpu{.pool = &pool}, block);      // once: checks, checksums, decode tables
///   auto done = ecq::matmul(ecq::cpu{.pool = &pool}, *plan, x, y);         // y: n x rows, x: n x columns

#include <cstddef>
#include <utility>
#include <vector>

#include "ecq/base/backend.hpp"
#include "ecq/base/config.hpp"
#include "ecq/base/matrix_view.hpp"
#include "ecq/base/out_of_memory.hpp"
#include "ecq/base/result.hpp"
#include "ecq/matmul/matmul_input.hpp"
#include "ecq/matmul/matmul_plan.hpp"

namespace ecq {

/// How ecq::matmul treats what is in y.
struct matmul_options {
  bool accumulate = false;                              ///< products are added to y
  activation_type activations = activation_type::fp32;  ///< what becomes of x first
};

/// y = x W^T for the rows W of a plan: x is n x columns of float or bf16, y is n x rows of float, with any strides;
/// both may be anything that converts to a matrix_view (a std::span for one row, an Eigen matrix). y may overlap x.
/// Errors: invalid_argument for shapes that do not fit, corrupt, out_of_memory; y then holds unspecified values.
template <class Input, class Output>
  requires activation<typename decltype(matrix_view(std::declval<Input&>()))::value_type>
result<void> matmul(const cpu& backend, const matmul_plan& plan, Input&& x, Output&& y, matmul_options how = {}) {
  using element = typename decltype(matrix_view(x))::value_type;
  const matrix_view<float> out = matrix_view(y);
  ECQ_TRY(input, plan.prepare(matrix_view<const element>(matrix_view(x)), out, how.activations, backend.isa));
  ECQ_CHECK(plan.check_output(input.batch(), out));
  return detail::or_out_of_memory("the rows that tasks share", [&]() -> result<void> {
    std::vector<float> edges(plan.edges(input.batch()));
    ECQ_CHECK(parallel_for(backend, plan.tasks(), [&](std::size_t task) {
      return plan.run(backend.isa, task, input, out, edges, how.accumulate);
    }));
    plan.join(input.batch(), out, edges, how.accumulate);
    return {};
  });
}

/// A product of dense matrices: product(x, weights, y) adds x weights^T to y, where x is n x columns, `weights` holds
/// some rows of W, and y is n x those rows. It is called from several threads, each with a y of its own, and must not
/// throw.
template <class Product>
concept dense_product = requires(const Product& product, matrix_view<const float> x, matrix_view<const float> weights,
                                 matrix_view<float> y) { product(x, weights, y); };

/// y = x W^T for many rows of activations: a few rows of W at a time are decoded to FP32, and the caller's `product`
/// multiplies them. All rows of x share the cost of decoding. Strides are those of x and y as given; y must not overlap
/// x. Quantised activations are errc::unsupported. Errors and everything else: those of matmul() above.
template <class Output, dense_product Product>
result<void> matmul(const cpu& backend, const matmul_plan& plan, matrix_view<const float> x, Output&& y,
                    const Product& product, matmul_options how = {}) {
  const matrix_view<float> out = matrix_view(y);
  if (x.columns() != plan.columns()) {
    return error(errc::invalid_argument, "activations of ", x.columns(), " columns for weights of ", plan.columns());
  }
  if (how.activations != activation_type::fp32) {
    return error(errc::unsupported, "quantised activations in a product of dense matrices");
  }
  ECQ_CHECK(plan.check_output(x.rows(), out));
  ECQ_TRY(tiles, plan.dense_tiles());
  return parallel_for(backend, tiles.size(), [&](std::size_t index) -> result<void> {
    const matmul_plan::dense_tile& tile = tiles[index];
    thread_local std::vector<float> dense;
    if (dense.size() < tile.rows * plan.columns()) dense.resize(tile.rows * plan.columns());
    const matrix_view<float> weights(dense.data(), tile.rows, plan.columns());
    ECQ_CHECK(plan.decode(backend.isa, tile, weights));
    const matrix_view<float> products(out.data() + static_cast<std::ptrdiff_t>(tile.first_output) * out.column_stride(),
                                      out.rows(), tile.rows, out.row_stride(), out.column_stride());
    if (!how.accumulate) {
      for (std::size_t b = 0; b < products.rows(); ++b) {
        for (std::size_t row = 0; row < products.columns(); ++row) products(b, row) = 0;
      }
    }
    product(x, matrix_view<const float>(weights), products);
    return {};
  });
}

}  // namespace ecq
