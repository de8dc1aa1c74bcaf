// How fast y = x W^T is with W in coded form, beside oneDNN with W in BF16 and OpenBLAS with W in FP32, the activations
// the same; "w8a8": with activations of 8 bits, beside oneDNN with W and activations in 8 bits, which were quantised
// before. Copies of W take turns so that each comes from memory, not from a cache. Peers run on one thread: set
// OMP_NUM_THREADS=1, as ./dev bench does.

#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "../tests/support/weights.hpp"
#include "context.hpp"
#include "ecq/base/worker_pool.hpp"
#include "ecq/compressor.hpp"
#include "ecq/decompress.hpp"
#include "ecq/lossless.hpp"
#include "ecq/matmul/matmul_plan.hpp"
#if defined(ECQ_BENCH_DNNL)
#include <dnnl.hpp>
#endif
#if defined(ECQ_BENCH_OPENBLAS)
#include <cblas.h>
#endif

namespace {

using ecq::cpu;
using ecq::matrix_view;

constexpr std::size_t columns = 4096;

/// The bytes that all copies of a W have together at least.
std::size_t rotated_bytes() {
  const char* const text = std::getenv("ECQ_BENCH_MIB");
  return 4 * (text != nullptr ? std::strtoull(text, nullptr, 10) : 64) << 20;
}

const std::vector<ecq::bf16>& weights(std::size_t rows) {
  static std::map<std::size_t, std::vector<ecq::bf16>> all;
  std::vector<ecq::bf16>& made = all[rows];
  if (made.empty()) {
    for (const float weight : ecq_test::gaussian(rows, columns)) made.emplace_back(weight);
  }
  return made;
}

/// Blocks of one matrix, and a plan for each.
struct coded_copies {
  std::vector<ecq::packed_block> blocks;
  std::vector<ecq::matmul_plan> plans;

  coded_copies(const coded_copies&) = delete;
  explicit coded_copies(const ecq::packed_block& block) {
    const std::size_t copies = rotated_bytes() / block.stream.size() + 1;
    blocks.assign(copies, block);
    for (const ecq::packed_block& one : blocks) plans.push_back(std::move(*ecq::matmul_plan::of(cpu{}, one)));
  }
};

/// How W is coded.
struct coding {
  double bits = 16;       ///< a weight; 16: without loss
  bool pairs = false;     ///< two codes a symbol
  bool integers = false;  ///< codes of Int8, otherwise of FP8

  bool operator==(const coding&) const = default;
};

const coded_copies& coded(std::size_t rows, const coding& how) {
  // Only one at a time: all of them would take gigabytes.
  static std::pair<std::size_t, coding> last{};
  static std::unique_ptr<const coded_copies> made;
  if (made == nullptr || last != std::pair(rows, how)) {
    made.reset();
    last = {rows, how};
    const ecq::stream_options stream{.goal = how.pairs ? ecq::stream_goal::cpu : ecq::stream_goal::size};
    const matrix_view<const ecq::bf16> all(weights(rows).data(), rows, columns);
    const cpu backend{.threads = 0};
    const auto block = how.bits == 16 ? ecq::lossless<ecq::bf16>{}.compress(backend, all)
                       : how.integers
                           ? ecq::compressor<ecq::int8>{{.target_bits = how.bits}, stream}.compress(backend, all)
                           : ecq::compressor<>{{.target_bits = how.bits}, stream}.compress(backend, all);
    made = std::make_unique<const coded_copies>(*block);
  }
  return *made;
}

void count(benchmark::State& state, std::size_t rows, double bits) {
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(rows * columns));
  state.counters["bits"] = bits;
}

void ours(benchmark::State& state, const coding& how, std::size_t rows, ecq::matmul_options options = {}) {
  const auto batch = static_cast<std::size_t>(state.range(0));
  ecq::worker_pool pool(static_cast<unsigned>(state.range(1)));
  const coded_copies& all = coded(rows, how);
  const auto gaussian = ecq_test::gaussian(batch, columns, 3, 1.0F);
  const std::vector<ecq::bf16> x(gaussian.begin(), gaussian.end());
  std::vector<float> y(batch * rows);
  std::size_t turn = 0;
  for (auto _ : state) {
    const auto done = ecq::matmul(cpu{.pool = &pool}, all.plans[turn++ % all.plans.size()],
                                  matrix_view<const ecq::bf16>(x.data(), batch, columns),
                                  matrix_view<float>(y.data(), batch, rows), options);
    if (!done) state.SkipWithError(done.error().message().c_str());
    benchmark::DoNotOptimize(y.data());
  }
  count(state, rows, all.blocks.front().bits_per_weight());
}

#if defined(ECQ_BENCH_DNNL)
/// Weights and activations of a type that oneDNN calls `type`: BF16, or Int8, of which any numbers will do.
template <class Element>
void onednn(benchmark::State& state, dnnl::memory::data_type type, std::size_t rows) {
  using dnnl::memory;
  const auto batch = static_cast<memory::dim>(state.range(0));
  const auto inner = static_cast<memory::dim>(columns), outputs = static_cast<memory::dim>(rows);
  dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  dnnl::stream stream(engine);
  const memory::desc plain({inner, outputs}, type, memory::format_tag::ba);
  const memory::desc free({inner, outputs}, type, memory::format_tag::any);
  const memory::desc source({batch, inner}, type, memory::format_tag::ab);
  const memory::desc target({batch, outputs}, memory::data_type::f32, memory::format_tag::ab);
  const dnnl::matmul::primitive_desc chosen(dnnl::matmul::desc(source, free, target), engine);
  const dnnl::matmul product(chosen);
  const auto converted = [](const auto& numbers) {
    std::vector<Element> made;
    for (const auto one : numbers) made.emplace_back(static_cast<float>(one) * (sizeof(Element) == 1 ? 20.0F : 1.0F));
    return made;
  };
  std::vector<Element> of_weights = converted(weights(rows));
  memory original(plain, engine, of_weights.data());
  std::vector<memory> copies;
  while (copies.size() * rows * columns * sizeof(Element) < rotated_bytes()) {
    copies.emplace_back(chosen.weights_desc(), engine);
    dnnl::reorder(original, copies.back()).execute(stream, original, copies.back());
  }
  std::vector<Element> activations = converted(ecq_test::gaussian(static_cast<std::size_t>(batch), columns, 3, 1.0F));
  std::vector<float> y(static_cast<std::size_t>(batch) * rows);
  memory x(source, engine, activations.data()), out(target, engine, y.data());
  std::size_t turn = 0;
  for (auto _ : state) {
    product.execute(stream,
                    {{DNNL_ARG_SRC, x}, {DNNL_ARG_WEIGHTS, copies[turn++ % copies.size()]}, {DNNL_ARG_DST, out}});
    stream.wait();
    benchmark::DoNotOptimize(y.data());
  }
  count(state, rows, 8 * sizeof(Element));
}
#endif

#if defined(ECQ_BENCH_OPENBLAS)
void openblas(benchmark::State& state, std::size_t rows) {
  openblas_set_num_threads(1);
  const auto batch = static_cast<std::size_t>(state.range(0));
  std::vector<std::vector<float>> copies(rotated_bytes() / (rows * columns * 4) + 1);
  for (auto& copy : copies) copy.assign(weights(rows).begin(), weights(rows).end());
  const auto x = ecq_test::gaussian(batch, columns, 3, 1.0F);
  std::vector<float> y(batch * rows);
  std::size_t turn = 0;
  for (auto _ : state) {
    const float* const w = copies[turn++ % copies.size()].data();
    if (batch == 1) {
      cblas_sgemv(CblasRowMajor, CblasNoTrans, static_cast<int>(rows), columns, 1, w, columns, x.data(), 1, 0, y.data(),
                  1);
    } else {
      cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, static_cast<int>(batch), static_cast<int>(rows), columns, 1,
                  x.data(), columns, w, columns, 0, y.data(), static_cast<int>(rows));
    }
    benchmark::DoNotOptimize(y.data());
  }
  count(state, rows, 32);
}
#endif

const bool registered = [] {
  for (const std::size_t rows : {std::size_t{4096}, std::size_t{14336}}) {
    const std::string shape = "/" + std::to_string(rows) + "x" + std::to_string(columns);
    const auto at = [&](const std::string& name, auto&& body, std::initializer_list<int> threads) {
      auto* const made = benchmark::RegisterBenchmark(("product/" + name + shape).c_str(), body);
      made->ArgNames({"batch", "threads"})->UseRealTime()->Unit(benchmark::kMicrosecond);
      for (const int batch : {1, 8, 32, 128}) {
        for (const int each : threads) made->Args({batch, each});
      }
    };
    for (const auto& [name, bits] : {std::pair("fp8_2.1", 2.1), {"fp8_3", 3.0}, {"fp8_4", 4.0}, {"lossless", 16.0}}) {
      at(name, [bits = bits, rows](benchmark::State& state) { ours(state, {bits}, rows); }, {1, 2});
      if (bits == 16) continue;
      at(name + std::string("_pairs"),
         [bits = bits, rows](benchmark::State& state) {
           ours(state, {bits, true}, rows);
         },
         {1, 2});
    }
    for (const bool pairs : {false, true}) {
      const auto w8a8 = [=](benchmark::State& state) {
        ours(state, {3.0, pairs, true}, rows, {.activations = ecq::activation_type::int8});
      };
      at(pairs ? "int8_3_pairs_w8a8" : "int8_3_w8a8", w8a8, {1, 2});
    }
#if defined(ECQ_BENCH_DNNL)
    using type = dnnl::memory::data_type;
    at("onednn_bf16", [rows](benchmark::State& state) { onednn<ecq::bf16>(state, type::bf16, rows); }, {1});
    at("onednn_int8", [rows](benchmark::State& state) { onednn<ecq::int8>(state, type::s8, rows); }, {1});
#endif
#if defined(ECQ_BENCH_OPENBLAS)
    at("openblas_fp32", [rows](benchmark::State& state) { openblas(state, rows); }, {1});
#endif
  }
  return true;
}();

}  // namespace
