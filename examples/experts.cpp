// Multiplies each token by the expert of a stack that it chooses, all products at once; the stack stays compressed.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <ecq/base/worker_pool.hpp>
#include <ecq/ecq.hpp>
#include <ecq/matmul/grouped_matmul.hpp>
#include <random>
#include <utility>
#include <vector>

int report(const ecq::error& error) {
  std::fprintf(stderr, "%s\n", error.to_string().c_str());
  return 1;
}

int main() {
  constexpr std::size_t experts = 8, rows = 64, columns = 256, tokens = 3;
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0.0F, 0.02F);
  std::vector<float> weights(experts * rows * columns), activations(tokens * columns);
  for (auto* values : {&weights, &activations}) {
    for (float& value : *values) value = normal(random);
  }
  const ecq::matrix_view<const float> all(weights.data(), experts * rows, columns);
  const std::array<ecq::named_weights, 1> stack{{{"experts", all, {experts, rows, columns}}}};
  auto packed = ecq::compressor<>{{.target_bits = 4.0}}.compress(ecq::cpu{}, stack);
  if (!packed) return report(packed.error());

  ecq::worker_pool pool(2);
  const ecq::cpu backend{.pool = &pool};
  auto flat = ecq::with_rows_of_all(packed->matrices[0]);  // as one matrix of all rows
  if (!flat) return 1;
  packed->matrices[0] = std::move(*flat);
  std::vector<ecq::matmul_plan> plans;
  for (std::size_t expert = 0; expert < experts; ++expert) {
    const std::array<ecq::row_selection, 1> own{{{0, expert * rows, rows}}};
    auto plan = ecq::matmul_plan::of(backend, *packed, own);
    if (!plan) return report(plan.error());
    plans.push_back(std::move(*plan));
  }

  const std::array<std::size_t, tokens> choice{2, 7, 2};  // of each token
  std::vector<float> products(tokens * rows);
  std::vector<ecq::grouped_product<float>> group;
  for (std::size_t token = 0; token < tokens; ++token) {
    const ecq::matrix_view<const float> x(&activations[token * columns], 1, columns);
    group.push_back({&plans[choice[token]], x, ecq::matrix_view<float>(&products[token * rows], 1, rows)});
  }
  auto done = ecq::matmul(backend, group);
  if (!done) return report(done.error());

  // The same products with the decoded weights.
  std::vector<float> decoded(weights.size());
  done = ecq::decompress(backend, *packed, 0, ecq::matrix_view(decoded.data(), experts * rows, columns));
  if (!done) return report(done.error());
  double worst = 0;
  for (std::size_t at = 0; at < products.size(); ++at) {
    const std::size_t token = at / rows;
    const float* const row = &decoded[(choice[token] * rows + at % rows) * columns];
    double sum = 0;
    for (std::size_t column = 0; column < columns; ++column) sum += row[column] * activations[token * columns + column];
    worst = std::max(worst, std::fabs(sum - products[at]));
  }
  std::printf("%zu tokens by 2 of %zu experts, %.2f bits per weight, off by at most %.1e\n", tokens, experts,
              packed->bits_per_weight(), worst);
  return worst < 1e-5 ? 0 : 1;
}
