// Multiplies many rows of activations, such as a prompt: ecq decodes weights to BF16, a few rows at a time, and oneDNN
// multiplies by them.

#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <ecq/ecq.hpp>
#include <ecq/matmul/matmul.hpp>
#include <random>
#include <vector>

#include "onednn_product.hpp"

int report(const ecq::error& error) {
  std::fprintf(stderr, "%s\n", error.to_string().c_str());
  return 1;
}

int main() try {
  if (!onednn_product::is_there()) {
    std::puts("oneDNN does not support BF16 on this processor");
    return 0;
  }
  constexpr std::size_t rows = 1024, columns = 2048, batch = 256;
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> weights(rows * columns);
  std::vector<ecq::bf16> activations;
  for (float& weight : weights) weight = 0.02F * normal(random);
  for (std::size_t i = 0; i < batch * columns; ++i) activations.emplace_back(normal(random));

  ecq::compressor<> compressor{{.target_bits = 3.0}, {.goal = ecq::stream_goal::cpu}};
  const auto packed = compressor.compress(ecq::cpu{}, ecq::matrix_view<const float>(weights.data(), rows, columns));
  if (!packed) return report(packed.error());
  const auto plan = ecq::matmul_plan::of(ecq::cpu{}, *packed);
  if (!plan) return report(plan.error());

  const ecq::matrix_view<const ecq::bf16> x(activations.data(), batch, columns);
  std::vector<float> by_onednn(batch * rows), by_ecq(batch * rows);
  const ecq::matrix_view<float> y(by_onednn.data(), batch, rows), own(by_ecq.data(), batch, rows);
  double best = 1, best_of_ecq = 1;
  for (int turn = 0; turn < 5; ++turn) {  // oneDNN compiles its kernels in the first one
    const auto start = std::chrono::steady_clock::now();
    auto done = ecq::matmul(ecq::cpu{}, *plan, x, y, onednn_product());
    if (!done) return report(done.error());
    const auto middle = std::chrono::steady_clock::now();
    done = ecq::matmul(ecq::cpu{}, *plan, x, own);
    if (!done) return report(done.error());
    const auto end = std::chrono::steady_clock::now();
    best = std::fmin(best, std::chrono::duration<double>(middle - start).count());
    best_of_ecq = std::fmin(best_of_ecq, std::chrono::duration<double>(end - middle).count());
  }
  double worst = 0;
  for (std::size_t i = 0; i < by_ecq.size(); ++i) worst = std::fmax(worst, std::fabs(by_onednn[i] - by_ecq[i]));
  std::printf("%zu rows by %.2f-bit weights: oneDNN %.2f ms, ecq's own kernels %.2f ms; they differ by %.1e\n", batch,
              packed->bits_per_weight(), 1e3 * best, 1e3 * best_of_ecq, worst);
  return worst < 0.02 ? 0 : 1;
} catch (const dnnl::error& failed) {
  std::fprintf(stderr, "oneDNN: %s\n", failed.what());
  return 1;
}
