// How fast scales are found and weights quantised: 1024 x 1024 Gaussian weights, FP8 E4M3, one scale a row.

#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "../tests/support/weights.hpp"
#include "ecq/quantize/entquant.hpp"
#if __has_include(<LBFGS.h>) && __has_include(<Eigen/Core>)
#define ECQ_BENCH_LBFGS 1
#include "ecq/quantize/lbfgs.hpp"
#endif

namespace {

using ecq::cpu;
using ecq::matrix_view;

constexpr std::size_t rows = 1024;
constexpr std::size_t columns = 1024;

matrix_view<const float> weights() {
  static const std::vector<float> all = ecq_test::gaussian(rows, columns);
  return {all.data(), rows, columns};
}

cpu threads_of(const benchmark::State& state) { return {.threads = static_cast<unsigned>(state.range(1))}; }

void count_weights(benchmark::State& state) {
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(rows * columns));
}

/// The scales alone, at lambda = range(0) / 10.
template <class Search>
void search(benchmark::State& state) {
  const Search search{static_cast<double>(state.range(0)) / 10};
  std::vector<float> scales(rows);
  for (auto _ : state) {
    const auto done = search.template search<ecq::fp8_e4m3>(threads_of(state), weights(),
                                                            ecq::per_channel{}.layout(rows, columns), scales);
    if (!done) state.SkipWithError(done.error().message().c_str());
    benchmark::DoNotOptimize(scales.data());
  }
  count_weights(state);
}

/// Scales and codes.
void quantize(benchmark::State& state) {
  const ecq::entquant quantizer{.lambda = static_cast<double>(state.range(0)) / 10};
  std::vector<std::uint8_t> codes(rows * columns);
  std::vector<ecq::bf16> scales(rows);
  for (auto _ : state) {
    const auto done = quantizer.quantize<ecq::fp8_e4m3>(threads_of(state), weights(), codes, scales);
    if (!done) state.SkipWithError(done.error().message().c_str());
    benchmark::DoNotOptimize(codes.data());
  }
  count_weights(state);
}

/// A lambda for range(0) / 10 bits a weight.
void lambda_for_bits(benchmark::State& state) {
  const ecq::rate_input input{weights(), 0};
  for (auto _ : state) {
    const auto lambda = ecq::lambda_for_bits<ecq::fp8_e4m3>(threads_of(state), std::span(&input, 1),
                                                            static_cast<double>(state.range(0)) / 10);
    if (!lambda) state.SkipWithError(lambda.error().message().c_str());
    benchmark::DoNotOptimize(lambda);
  }
  count_weights(state);
}

void lambdas_and_threads(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"lambda_x10", "threads"})->ArgsProduct({{39, 145, 580}, {1, 2}})->UseRealTime();
  bench->Unit(benchmark::kMillisecond);
}

BENCHMARK(search<ecq::row_root<>>)->Name("search/row_root")->Apply(lambdas_and_threads);
#if defined(ECQ_BENCH_LBFGS)
BENCHMARK(search<ecq::lbfgs<>>)->Name("search/lbfgs")->Apply(lambdas_and_threads)->Iterations(1);
#endif
BENCHMARK(quantize)->Name("quantize/entquant")->Apply(lambdas_and_threads);
BENCHMARK(lambda_for_bits)
    ->Name("lambda_for_bits")
    ->ArgNames({"bits_x10", "threads"})
    ->ArgsProduct({{21, 30, 40}, {1, 2}})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
