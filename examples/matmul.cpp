// Multiplies activations by two matrices that stay compressed: no dense copy of them ever exists.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <ecq/base/worker_pool.hpp>
#include <ecq/ecq.hpp>
#include <ecq/matmul/matmul.hpp>
#include <random>
#include <vector>

int report(const ecq::error& error) {
  std::fprintf(stderr, "%s\n", error.to_string().c_str());
  return 1;
}

int main() {
  constexpr std::size_t rows = 512, columns = 1024, batch = 3;
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0.0F, 0.02F);
  std::vector<float> gate(rows * columns), up(rows * columns), activations(batch * columns);
  for (auto* values : {&gate, &up, &activations}) {
    for (float& value : *values) value = normal(random);
  }
  const std::array<ecq::named_weights, 2> matrices{{{"gate", ecq::matrix_view<const float>(gate.data(), rows, columns)},
                                                    {"up", ecq::matrix_view<const float>(up.data(), rows, columns)}}};
  auto packed = ecq::compressor<>{{.target_bits = 4.0}}.compress(ecq::cpu{.threads = 2}, matrices);
  if (!packed) return report(packed.error());

  ecq::worker_pool pool(2);  // threads that stay
  const ecq::cpu backend{.pool = &pool};
  auto plan = ecq::matmul_plan::of(backend, *packed);  // once: checks, checksums, tables; gate and up as one matrix
  if (!plan) return report(plan.error());

  const ecq::matrix_view<const float> x(activations.data(), batch, columns);
  std::vector<float> products(batch * plan->rows());
  const ecq::matrix_view<float> y(products.data(), batch, plan->rows());
  auto done = ecq::matmul(backend, *plan, x, y);  // y = x W^T, 1024 outputs for each row of x
  if (!done) return report(done.error());

  // The products of `up` and row 2 of x, with decoded weights.
  std::vector<float> decoded(rows * columns);
  done = ecq::decompress(backend, *packed, 1, ecq::matrix_view(decoded.data(), rows, columns));
  if (!done) return report(done.error());
  double worst = 0;
  for (std::size_t row = 0; row < rows; ++row) {
    double sum = 0;
    for (std::size_t column = 0; column < columns; ++column) sum += x(2, column) * decoded[row * columns + column];
    worst = std::max(worst, std::fabs(sum - y(2, rows + row)));
  }
  std::printf("%zu x %zu products from %.2f bits per weight, off by at most %.1e\n", batch, plan->rows(),
              packed->bits_per_weight(), worst);
  return worst < 1e-5 ? 0 : 1;
}
