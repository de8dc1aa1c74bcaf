#pragma once
/// \file
/// Products with matrices that stay coded: y = x W^T.
///
///   auto plan = ecq::matmul_plan::of(ecq::cpu{.pool = &pool}, block);      // once: checks, checksums, decode tables
///   auto done = ecq::matmul(ecq::cpu{.pool = &pool}, *plan, x, y);         // y: n x rows, x: n x columns

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

#include "ecq/base/backend.hpp"
#include "ecq/base/config.hpp"
#include "ecq/base/matrix_view.hpp"
#include "ecq/base/out_of_memory.hpp"
#include "ecq/base/result.hpp"
#include "ecq/matmul/dense_product.hpp"
#include "ecq/matmul/matmul_input.hpp"
#include "ecq/matmul/matmul_plan.hpp"

namespace ecq {

/// Options of ecq::matmul.
struct matmul_options {
  bool accumulate = false;                              ///< products are added to y
  activation_type activations = activation_type::fp32;  ///< conversion of x before products
};

namespace detail {

inline result<void> run_tasks(const cpu& backend, const matmul_plan& plan, const matmul_input& input,
                              matrix_view<float> y, const matmul_options& how) {
  ECQ_CHECK(plan.check_output(input.batch(), y));
  return or_out_of_memory("the rows that tasks share", [&]() -> result<void> {
    std::vector<float> edges(plan.edges(input.batch()));
    ECQ_CHECK(parallel_for(backend, plan.tasks(), [&](std::size_t task) {
      return plan.run(backend.isa, task, input, y, edges, how.accumulate);
    }));
    plan.join(input.batch(), y, edges, how.accumulate);
    return {};
  });
}

/// Calls multiply(x, y) for `most` rows of both at a time. If x and y overlap, calls it once for all rows: otherwise,
/// rows of y would be written while later rows of x are still to be read.
template <class Element, class Multiply>
result<void> in_turns(matrix_view<const Element> x, matrix_view<float> y, std::size_t most, const Multiply& multiply) {
  if (x.rows() <= most || may_overlap(x, y)) return multiply(x, y);
  const auto rows_of = []<class Any>(matrix_view<Any> view, std::size_t first, std::size_t count) {
    return matrix_view<Any>(view.data() + static_cast<std::ptrdiff_t>(first) * view.row_stride(), count, view.columns(),
                            view.row_stride(), view.column_stride());
  };
  for (std::size_t first = 0; first < x.rows(); first += most) {
    const std::size_t count = (std::min)(most, x.rows() - first);
    ECQ_CHECK(multiply(rows_of(x, first, count), rows_of(y, first, count)));
  }
  return {};
}

/// Returns how many rows of activations tasks take at a time.
template <activation Element>
std::size_t rows_at_a_time(const cpu& backend, const matmul_plan& plan, activation_type type) {
  if (type == activation_type::int8) return (std::numeric_limits<std::size_t>::max)();
  const bool halves = std::is_same_v<Element, bf16> || type == activation_type::bf16;
  return halves ? plan.rows_at_once<bf16>(backend.isa) : plan.rows_at_once<float>(backend.isa);
}

/// Checks that x and y fit a product of dense matrices.
template <class Element>
result<void> check_dense(const matmul_plan& plan, matrix_view<const Element> x, matrix_view<float> y,
                         const matmul_options& how) {
  if (x.columns() != plan.columns()) {
    return error(errc::invalid_argument, "activations have ", x.columns(), " columns, but weights have ",
                 plan.columns());
  }
  const bool kept = how.activations == activation_type::fp32 ||
                    (std::is_same_v<Element, bf16> && how.activations == activation_type::bf16);
  if (!kept) {
    return error(errc::unsupported, "dense matrices are multiplied only by activations that are not rounded");
  }
  return plan.check_output(x.rows(), y);
}

/// Decodes tiles of dense weights and calls multiply(weights, products) for each, where `products` is the tile's part
/// of y.
template <class Element, class Multiply>
result<void> for_dense_tiles(const cpu& backend, const matmul_plan& plan, matrix_view<float> y,
                             const Multiply& multiply) {
  if (y.empty()) return {};
  ECQ_TRY(tiles, plan.dense_tiles());
  return parallel_for(backend, tiles.size(), [&](std::size_t index) -> result<void> {
    const matmul_plan::dense_tile& tile = tiles[index];
    return or_out_of_memory("a tile of weights", [&]() -> result<void> {
      thread_local std::vector<Element> dense;
      if (dense.size() < tile.rows * plan.columns()) dense.resize(tile.rows * plan.columns());
      const matrix_view<Element> weights(dense.data(), tile.rows, plan.columns());
      ECQ_CHECK(plan.decode(backend.isa, tile, weights));
      return multiply(matrix_view<const Element>(weights),
                      matrix_view<float>(y.data() + static_cast<std::ptrdiff_t>(tile.first_output) * y.column_stride(),
                                         y.rows(), tile.rows, y.row_stride(), y.column_stride()));
    });
  });
}

}  // namespace detail

/// Computes y = x W^T for the rows W of a plan. x is n x columns of float or bf16, y is n x rows of float, with any
/// strides; both may be anything that converts to a matrix_view (a std::span for one row, an Eigen matrix). y may
/// overlap x. Errors: invalid_argument for shapes that do not fit, corrupt, out_of_memory; y then holds unspecified
/// values.
template <class Input, class Output>
  requires activation<typename decltype(matrix_view(std::declval<Input&>()))::value_type>
result<void> matmul(const cpu& backend, const matmul_plan& plan, Input&& x, Output&& y, matmul_options how = {}) {
  using element = typename decltype(matrix_view(x))::value_type;
  const matrix_view<float> out = matrix_view(y);
  const matrix_view<const element> rows = matrix_view(x);
  const auto multiply = [&](matrix_view<const element> some, matrix_view<float> products) -> result<void> {
    ECQ_TRY(input, plan.prepare(some, products, how.activations, backend.isa));
    return detail::run_tasks(backend, plan, input, products, how);
  };
  ECQ_CHECK(plan.check_output(rows.rows(), out));
  return detail::in_turns(rows, out, detail::rows_at_a_time<element>(backend, plan, how.activations), multiply);
}

/// Computes y = x W^T for many rows of activations. A few rows of W at a time are decoded to FP32 and multiplied by the
/// caller's `product`, on which the accuracy of y depends. All rows of x share the cost of decoding. `product` gets x
/// and y with the caller's strides; y must not overlap x. Activations that are to be rounded first are
/// errc::unsupported. Otherwise, errors and results are those of matmul() above.
template <class Output, dense_product Product>
result<void> matmul(const cpu& backend, const matmul_plan& plan, matrix_view<const float> x, Output&& y,
                    const Product& product, matmul_options how = {}) {
  const matrix_view<float> out = matrix_view(y);
  ECQ_CHECK(detail::check_dense(plan, x, out, how));
  const auto multiply = [&](matrix_view<const float> weights, matrix_view<float> products) {
    for (std::size_t b = 0; !how.accumulate && b < products.rows(); ++b) {
      for (std::size_t row = 0; row < products.columns(); ++row) products(b, row) = 0;
    }
    product(x, weights, products);
    return result<void>();
  };
  return detail::for_dense_tiles<float>(backend, plan, out, multiply);
}

/// Computes y = x W^T in BF16 by the caller's `product`, for units that multiply BF16 fast and for which ecq has no
/// kernels. `product` gets x and weights with contiguous rows, and a y whose elements for one row of weights are
/// contiguous. In other words, it adds weights x^T to a row-major matrix. If matmul_plan::feeds_product() holds,
/// weights are exact, come in the order of columns in which they are decoded, and are decoded several times as fast;
/// otherwise, they are weights of FP32 rounded to BF16.
template <class Output, dense_product<bf16> Product>
result<void> matmul(const cpu& backend, const matmul_plan& plan, matrix_view<const bf16> x, Output&& y,
                    const Product& product, matmul_options how = {}) {
  const matrix_view<float> out = matrix_view(y);
  ECQ_CHECK(detail::check_dense(plan, x, out, how));
  if (plan.feeds_product(backend.isa)) {
    const auto feed = [&](matrix_view<const bf16> some, matrix_view<float> products) -> result<void> {
      ECQ_TRY(input, plan.prepare(some, products, how.activations, backend.isa, half_product(product)));
      return detail::run_tasks(backend, plan, input, products, how);
    };
    return detail::in_turns(x, out, plan.rows_at_once<bf16>(backend.isa, true), feed);
  }
  return detail::or_out_of_memory("activations", [&]() -> result<void> {
    std::vector<bf16> copy;
    if (!x.contiguous_rows()) {
      for (std::size_t b = 0; b < x.rows(); ++b) {
        for (std::size_t column = 0; column < x.columns(); ++column) copy.push_back(x(b, column));
      }
    }
    const matrix_view<const bf16> rows = copy.empty() ? x : matrix_view<const bf16>(copy.data(), x.rows(), x.columns());
    constexpr std::size_t most_sums = std::size_t{1} << 20;
    const auto multiply = [&](matrix_view<const bf16> weights, matrix_view<float> products) {
      const auto add = [&](matrix_view<const bf16> some, matrix_view<float> to) -> result<void> {
        thread_local std::vector<float> sums;
        sums.assign(to.rows() * to.columns(), 0);
        const matrix_view<float> apart(sums.data(), to.rows(), to.columns(), 1, static_cast<std::ptrdiff_t>(to.rows()));
        product(some, weights, apart);
        for (std::size_t b = 0; b < to.rows(); ++b) {
          for (std::size_t row = 0; row < to.columns(); ++row) {
            to(b, row) = how.accumulate ? to(b, row) + apart(b, row) : apart(b, row);
          }
        }
        return {};
      };
      return detail::in_turns(rows, products, (std::max)(most_sums / products.columns(), std::size_t{1}), add);
    };
    return detail::for_dense_tiles<bf16>(backend, plan, out, multiply);
  });
}

}  // namespace ecq
