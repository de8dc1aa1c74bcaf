// Benchmarks of the search for scales, of quantisation, and of decoding packed weights: 1024 x 1024 Gaussian weights,
// FP8 E4M3, one scale per row. Error feedback: a matrix of 4096 x 4096.

#include <benchmark/benchmark.h>

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "../tests/support/weights.hpp"
#include "context.hpp"
#include "ecq/calibrated/error_feedback.hpp"
#include "ecq/calibrated/input_factor.hpp"
#include "ecq/calibrated/input_moments.hpp"
#include "ecq/calibrated/trellis_feedback.hpp"
#include "ecq/compressor.hpp"
#include "ecq/decompress.hpp"
#include "ecq/methods/any_method.hpp"
#include "ecq/quantize/entquant.hpp"
#include "ecq/quantize/trellis_codes.hpp"
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

/// Measures the search for scales alone, at lambda = range(0) / 10.
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

/// Measures quantisation to scales and codes, at lambda = range(0) / 10.
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

/// Measures the search for a lambda for range(0) / 10 bits per weight.
void lambda_for_bits(benchmark::State& state) {
  const ecq::rate_input input{weights(), 0};
  for (auto _ : state) {
    auto lambda = ecq::lambda_for_bits<ecq::fp8_e4m3>(threads_of(state), std::span(&input, 1),
                                                      static_cast<double>(state.range(0)) / 10);
    if (!lambda) state.SkipWithError(lambda.error().message().c_str());
    benchmark::DoNotOptimize(lambda);
  }
  count_weights(state);
}

/// Measures the choice of codes on a trellis of range(0) states, and of their scales, at known costs of indices.
void trellis_codes(benchmark::State& state) {
  const ecq::trellis walk{.state_bits = static_cast<unsigned>(std::countr_zero(static_cast<unsigned>(state.range(0))))};
  const ecq::rate_input input{weights()};
  const auto samples = ecq::detail::sample_model({&input, 1}, rows * columns, {});
  const auto bits = ecq::detail::find_index_bits(cpu{}, walk, samples, 14.5);
  if (!bits) return state.SkipWithError(bits.error().message().c_str());
  const ecq::detail::path_costs costs(*bits, ecq::detail::trellis_rate_weight);
  std::vector<std::uint8_t> codes(rows * columns);
  std::vector<ecq::bf16> scales(rows);
  for (auto _ : state) {
    const auto steps = ecq::detail::trellis_steps(threads_of(state), weights(), 14.5, {}, true);
    const auto done = ecq::detail::find_trellis_codes(threads_of(state), walk, costs, weights(), *steps, 0, {}, codes);
    const auto scaled = ecq::detail::set_trellis_scales(threads_of(state), weights(), codes, *steps, scales);
    if (!done || !scaled) state.SkipWithError("no codes");
    benchmark::DoNotOptimize(codes.data());
  }
  count_weights(state);
}

/// Measures all of trellis-coded quantisation to range(0) / 10 bits per weight, with the search for that rate, and
/// coding.
void compress_on_trellis(benchmark::State& state) {
  const ecq::any_method chosen = ecq::tcq{.target_bits = static_cast<double>(state.range(0)) / 10};
  const auto method = chosen.get();
  const ecq::named_weights matrix{{}, weights()};
  for (auto _ : state) {
    const auto packed = ecq::detail::compress_block(threads_of(state), **method, {&matrix, 1}, {},
                                                    ecq::detail::encode_function_of<ecq::rans>);
    if (!packed) state.SkipWithError(packed.error().message().c_str());
    benchmark::DoNotOptimize(packed);
  }
  count_weights(state);
}

/// Returns moments of inputs of 4096 columns whose neighbours have much in common, in the quantised and the original
/// model.
ecq::input_moments moments_of_neighbours() {
  ecq::input_moments made;
  made.width = 4096;
  made.tokens = 1 << 20;
  made.second.resize(made.width * made.width);
  for (std::size_t i = 0; i < made.width; ++i) {
    for (std::size_t j = 0; j < made.width; ++j) {
      const auto apart = static_cast<double>(i > j ? i - j : j - i);
      made.second[i * made.width + j] = std::pow(0.9, apart);
    }
  }
  made.cross = made.second;
  for (double& each : made.cross) each *= 0.95;
  return made;
}

/// Measures the computation that all matrices with an input share, on range(1) threads.
void input_factor(benchmark::State& state) {
  const ecq::input_moments moments = moments_of_neighbours();
  for (auto _ : state) {
    const auto made = ecq::input_factor::make(threads_of(state), moments, {.damping = 0.04});
    if (!made) state.SkipWithError(made.error().message().c_str());
    benchmark::DoNotOptimize(made);
  }
}

/// Measures codes of a matrix of 4096 x 4096 by error feedback with correction, at a rate of about 3 bits: by rounding
/// if range(0) is 0, otherwise along a trellis of range(0) states.
void feedback(benchmark::State& state) {
  static const std::vector<float> all = ecq_test::gaussian(4096, 4096);
  const matrix_view<const float> matrix(all.data(), 4096, 4096);
  const auto input = ecq::input_factor::make(cpu{.threads = 0}, moments_of_neighbours(), {.damping = 0.04});
  if (!input) return state.SkipWithError(input.error().message().c_str());
  const auto states = static_cast<unsigned>(state.range(0));
  const ecq::trellis walk{.state_bits = states == 0 ? 3U : static_cast<unsigned>(std::countr_zero(states))};
  const ecq::rate_input sample{weights()};
  const auto bits =
      ecq::detail::find_index_bits(cpu{}, walk, ecq::detail::sample_model({&sample, 1}, rows * columns, {}), 14.5);
  if (!bits) return state.SkipWithError(bits.error().message().c_str());
  std::vector<std::uint8_t> codes(all.size());
  ecq::bf16 scale;
  for (auto _ : state) {
    const auto done =
        states == 0
            ? ecq::error_feedback{.input = &*input, .scale = 0.01F}.quantize<ecq::int8>(threads_of(state), matrix,
                                                                                        codes, {&scale, 1})
            : ecq::detail::trellis_feedback{.input = &*input, .walk = walk, .bits = *bits, .step = 0.005F}.quantize(
                  threads_of(state), matrix, codes);
    if (!done) state.SkipWithError(done.error().message().c_str());
    benchmark::DoNotOptimize(codes.data());
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(all.size()));
}

/// Measures the decoding to weights of a matrix packed at range(0) / 10 bits per weight.
template <class Element>
void decompress(benchmark::State& state) {
  using codec = ecq::compressor<ecq::fp8_e4m3, ecq::rans, ecq::entquant>;
  const auto packed = codec{{.target_bits = static_cast<double>(state.range(0)) / 10}}.compress(weights());
  if (!packed) return state.SkipWithError(packed.error().message().c_str());
  std::vector<Element> out(rows * columns);
  for (auto _ : state) {
    const auto done = ecq::decompress(threads_of(state), *packed, matrix_view<Element>(out.data(), rows, columns));
    if (!done) state.SkipWithError(done.error().message().c_str());
    benchmark::DoNotOptimize(out.data());
  }
  count_weights(state);
}

/// Registers a benchmark for each of `first`, its range(0), on one thread and on two.
template <class Function>
void add(const char* name, Function measure, const char* argument, const std::vector<std::int64_t>& first,
         std::int64_t iterations = 0) {
  for (const std::int64_t threads : {1, 2}) {
    auto* const added = benchmark::RegisterBenchmark(name, measure);
    added->ArgNames({argument, "threads"})->ArgsProduct({first, {threads}})->Unit(benchmark::kMillisecond);
    if (iterations != 0) added->Iterations(iterations);
    if (threads > 1) added->UseRealTime();
  }
}

const bool added = [] {
  const std::vector<std::int64_t> lambdas = {39, 145, 580};
  add("search/row_root", search<ecq::row_root<>>, "lambda_x10", lambdas);
#if defined(ECQ_BENCH_LBFGS)
  add("search/lbfgs", search<ecq::lbfgs<>>, "lambda_x10", lambdas, 1);
#endif
  add("quantize/entquant", quantize, "lambda_x10", lambdas);
  add("quantize/trellis", trellis_codes, "states", {4, 8, 16, 32});
  add("compress/tcq8", compress_on_trellis, "bits_x10", {21, 30, 40});
  add("lambda_for_bits", lambda_for_bits, "bits_x10", {21, 30, 40});
  add("calibrate/factor", input_factor, "columns", {4096}, 1);
  add("calibrate/feedback", feedback, "states", {0, 8, 16}, 1);
  add("decompress/bf16", decompress<ecq::bf16>, "bits_x10", {21, 30, 40});
  add("decompress/fp16", decompress<ecq::fp16>, "bits_x10", {30});
  add("decompress/fp32", decompress<float>, "bits_x10", {30});
  return true;
}();

}  // namespace
