#pragma once
/// \file
/// Several products with coded matrices at once, such as the experts of a mixture, each with the tokens that choose it.
///
///   const std::vector<ecq::grouped_product<float>> group{{&expert_2, x_2, y_2}, {&expert_7, x_7, y_7}};
///   auto done = ecq::matmul(ecq::cpu{.pool = &pool}, group);

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

#include "ecq/base/backend.hpp"
#include "ecq/base/matrix_view.hpp"
#include "ecq/base/out_of_memory.hpp"
#include "ecq/base/result.hpp"
#include "ecq/format/bf16.hpp"
#include "ecq/matmul/matmul.hpp"
#include "ecq/matmul/matmul_input.hpp"
#include "ecq/matmul/matmul_plan.hpp"

namespace ecq {

/// One product of a group: y = x W^T for the rows W of a plan, with x and y as matmul() takes them.
template <activation Element>
struct grouped_product {
  const matmul_plan* plan;  ///< not null
  matrix_view<const Element> x;
  matrix_view<float> y;
};

namespace detail {

/// Product that is ready to run: activations that a plan has prepared, and the destination of products.
struct prepared_product {
  std::size_t number;  ///< number of the product in the group
  const matmul_plan* plan;
  matmul_input input;
  matrix_view<float> y;
  std::vector<float> edges;
  std::size_t first_task;  ///< among the tasks of all products
};

/// Prepares a product and adds it to `prepared`. Errors: those of matmul().
template <activation Element>
result<void> add_prepared(const cpu& backend, const grouped_product<Element>& product, std::size_t number,
                          const matmul_options& how, std::vector<prepared_product>& prepared) {
  const matmul_plan& plan = *product.plan;
  ECQ_CHECK(plan.check_output(product.x.rows(), product.y));
  const auto prepare = [&](matrix_view<const Element> x, matrix_view<float> y) -> result<void> {
    ECQ_TRY(input, plan.prepare(x, y, how.activations, backend.isa));
    const std::size_t first_task = prepared.empty() ? 0 : prepared.back().first_task + prepared.back().plan->tasks();
    std::vector<float> edges(plan.edges(input.batch()));
    prepared.push_back({number, &plan, std::move(input), y, std::move(edges), first_task});
    return {};
  };
  return in_turns(product.x, product.y, rows_at_a_time<Element>(backend, plan, how.activations), prepare);
}

template <activation Element>
result<void> multiply_group(const cpu& backend, std::span<const grouped_product<Element>> group,
                            const matmul_options& how) {
  return or_out_of_memory("a group of products", [&]() -> result<void> {
    std::vector<prepared_product> prepared;
    for (std::size_t number = 0; number < group.size(); ++number) {
      auto added = add_prepared(backend, group[number], number, how, prepared);
      if (!added) return std::move(added).error().within("product ", number);
    }
    const std::size_t tasks = prepared.empty() ? 0 : prepared.back().first_task + prepared.back().plan->tasks();
    ECQ_CHECK(parallel_for(backend, tasks, [&](std::size_t task) -> result<void> {
      prepared_product& own = *std::prev(std::upper_bound(
          prepared.begin(), prepared.end(), task,
          [](std::size_t index, const prepared_product& product) { return index < product.first_task; }));
      auto done = own.plan->run(backend.isa, task - own.first_task, own.input, own.y, own.edges, how.accumulate);
      if (!done) return std::move(done).error().within("product ", own.number);
      return {};
    }));
    for (const prepared_product& product : prepared) {
      product.plan->join(product.input.batch(), product.y, product.edges, how.accumulate);
    }
    return {};
  });
}

}  // namespace detail

/// Computes the products of a group. Each has the same bits as if matmul() computed it alone. Threads share the tasks
/// of all products and wait for one another once, so products too small for all threads take no longer than a large one
/// with as many weights. Copies of all activations may be in memory at once. No y may overlap another y, or the x of
/// another product. Errors: those of matmul(), which name the product by its number; every y then holds unspecified
/// values.
inline result<void> matmul(const cpu& backend, std::span<const grouped_product<float>> group, matmul_options how = {}) {
  return detail::multiply_group(backend, group, how);
}

/// Computes the products of a group with activations in BF16, like the overload for FP32.
inline result<void> matmul(const cpu& backend, std::span<const grouped_product<bf16>> group, matmul_options how = {}) {
  return detail::multiply_group(backend, group, how);
}

}  // namespace ecq
