// Benchmarks of y = x W^T with W in coded form, beside oneDNN with W in BF16 and OpenBLAS with W in FP32, on the same
// activations. "w8a8": with activations of 8 bits, beside oneDNN with W and activations in 8 bits, which were quantised
// before. Also beside ggml with W in its own formats, if CMake is given ggml. Copies of W take turns so that each comes
// from memory, not from a cache. Peers run on one thread: set OMP_NUM_THREADS=1, as ./dev bench does.

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
#include "ecq/matmul/matmul.hpp"
#include "ecq/methods/tcq_method.hpp"
#if defined(ECQ_BENCH_DNNL)
#include <dnnl.hpp>

#include "../examples/onednn_product.hpp"
#endif
#if defined(ECQ_BENCH_OPENBLAS)
#include <cblas.h>
#endif
#if defined(ECQ_BENCH_GGML)
#include <ggml-alloc.h>
#include <ggml-backend.h>
#include <ggml-cpu.h>
#include <ggml.h>
#endif

namespace {

using ecq::cpu;
using ecq::matrix_view;

constexpr std::size_t columns = 4096;

/// Returns the minimum size of all copies of a W together, in bytes.
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

/// Coding of W.
struct coding {
  double bits = 16;             ///< per weight; 16: lossless
  bool pairs = false;           ///< two codes per symbol
  bool integers = false;        ///< Int8 codes, otherwise FP8
  bool trellis = false;         ///< Int8 codes on a trellis
  std::size_t group = columns;  ///< columns of a row that share a scale

  bool operator==(const coding&) const = default;
};

const coded_copies& coded(std::size_t rows, const coding& how) {
  // Only one coding is kept at a time: all of them would take gigabytes.
  static std::pair<std::size_t, coding> last{};
  static std::unique_ptr<const coded_copies> made;
  if (made == nullptr || last != std::pair(rows, how)) {
    made.reset();
    last = {rows, how};
    const ecq::stream_options stream{.goal = how.pairs ? ecq::stream_goal::cpu : ecq::stream_goal::size};
    const matrix_view<const ecq::bf16> all(weights(rows).data(), rows, columns);
    const cpu backend{.threads = 0};
    using by_groups = ecq::basic_entquant<ecq::row_root<>, ecq::per_group>;
    const by_groups grouped = {.target_bits = how.bits, .granularity = {.size = how.group}};
    using on_trellis = ecq::compressor<ecq::int8, ecq::rans, ecq::tcq>;
    const auto block = how.bits == 16 ? ecq::lossless<ecq::bf16>{}.compress(backend, all)
                       : how.trellis  ? on_trellis{{.target_bits = how.bits}, stream}.compress(backend, all)
                       : how.group != columns
                           ? ecq::compressor<ecq::int8, ecq::rans, by_groups>{grouped, stream}.compress(backend, all)
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

template <class Activation = ecq::bf16>
void ours(benchmark::State& state, const coding& how, std::size_t rows, ecq::matmul_options options = {}) {
  const auto batch = static_cast<std::size_t>(state.range(0));
  ecq::worker_pool pool(static_cast<unsigned>(state.range(1)));
  const coded_copies& all = coded(rows, how);
  const auto gaussian = ecq_test::gaussian(batch, columns, 3, 1.0F);
  const std::vector<Activation> x(gaussian.begin(), gaussian.end());
  std::vector<float> y(batch * rows);
  std::size_t turn = 0;
  for (auto _ : state) {
    const auto done = ecq::matmul(cpu{.pool = &pool}, all.plans[turn++ % all.plans.size()],
                                  matrix_view<const Activation>(x.data(), batch, columns),
                                  matrix_view<float>(y.data(), batch, rows), options);
    if (!done) state.SkipWithError(done.error().message().c_str());
    benchmark::DoNotOptimize(y.data());
  }
  count(state, rows, all.blocks.front().bits_per_weight());
}

#if defined(ECQ_BENCH_DNNL)
/// Measures products of weights in pairs that ecq decodes to BF16 and oneDNN multiplies.
void fed(benchmark::State& state, double bits, std::size_t rows) {
  if (!onednn_product::is_there()) return state.SkipWithError("oneDNN multiplies no BF16 here");
  const auto batch = static_cast<std::size_t>(state.range(0));
  const coded_copies& all = coded(rows, {bits, true});
  const auto gaussian = ecq_test::gaussian(batch, columns, 3, 1.0F);
  const std::vector<ecq::bf16> x(gaussian.begin(), gaussian.end());
  std::vector<float> y(batch * rows);
  std::size_t turn = 0;
  for (auto _ : state) {
    const auto done =
        ecq::matmul(cpu{}, all.plans[turn++ % all.plans.size()], matrix_view<const ecq::bf16>(x.data(), batch, columns),
                    matrix_view<float>(y.data(), batch, rows), onednn_product());
    if (!done) state.SkipWithError(done.error().message().c_str());
    benchmark::DoNotOptimize(y.data());
  }
  count(state, rows, all.blocks.front().bits_per_weight());
}

/// Measures oneDNN with weights and activations of `type`: BF16, or Int8, for which any numbers will do.
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
/// Computes y = x W^T on one thread.
void openblas_product(std::size_t batch, std::size_t rows, const float* w, const float* x, float* y) {
  const auto outputs = static_cast<int>(rows);
  if (batch == 1) {
    cblas_sgemv(CblasRowMajor, CblasNoTrans, outputs, columns, 1, w, columns, x, 1, 0, y, 1);
  } else {
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, static_cast<int>(batch), outputs, columns, 1, x, columns, w,
                columns, 0, y, outputs);
  }
}

void openblas(benchmark::State& state, std::size_t rows) {
  openblas_set_num_threads(1);
  const auto batch = static_cast<std::size_t>(state.range(0));
  std::vector<std::vector<float>> copies(rotated_bytes() / (rows * columns * 4) + 1);
  for (auto& copy : copies) copy.assign(weights(rows).begin(), weights(rows).end());
  const auto x = ecq_test::gaussian(batch, columns, 3, 1.0F);
  std::vector<float> y(batch * rows);
  std::size_t turn = 0;
  for (auto _ : state) {
    openblas_product(batch, rows, copies[turn++ % copies.size()].data(), x.data(), y.data());
    benchmark::DoNotOptimize(y.data());
  }
  count(state, rows, 32);
}

/// Measures products without a plan: all of W is decoded to memory and multiplied there.
void decoded(benchmark::State& state, const coding& how, std::size_t rows) {
  openblas_set_num_threads(1);
  const auto batch = static_cast<std::size_t>(state.range(0));
  const coded_copies& all = coded(rows, how);
  const auto x = ecq_test::gaussian(batch, columns, 3, 1.0F);
  std::vector<float> w(rows * columns), y(batch * rows);
  std::size_t turn = 0;
  for (auto _ : state) {
    const ecq::packed_block& block = all.blocks[turn++ % all.blocks.size()];
    const auto done = ecq::decompress(cpu{}, block, 0, matrix_view<float>(w.data(), rows, columns));
    if (!done) state.SkipWithError(done.error().message().c_str());
    openblas_product(batch, rows, w.data(), x.data(), y.data());
    benchmark::DoNotOptimize(y.data());
  }
  count(state, rows, all.blocks.front().bits_per_weight());
}
#endif

#if defined(ECQ_BENCH_GGML)
struct release {
  void operator()(ggml_context* one) const { ggml_free(one); }
  void operator()(ggml_backend* one) const { ggml_backend_free(one); }
  void operator()(ggml_backend_buffer* one) const { ggml_backend_buffer_free(one); }
};

/// Returns the kind of buffer in which ggml keeps weights: as they are, or reordered for its fastest kernels; null if
/// ggml does not reorder.
ggml_backend_buffer_type_t weights_buffer(bool repacked) {
  if (!repacked) return ggml_backend_cpu_buffer_type();
  ggml_backend_reg_t const all = ggml_backend_cpu_reg();
  const auto extra = reinterpret_cast<ggml_backend_dev_get_extra_bufts_t>(
      ggml_backend_reg_get_proc_address(all, "ggml_backend_dev_get_extra_bufts"));
  if (extra == nullptr) return nullptr;
  for (auto* at = extra(ggml_backend_reg_dev_get(all, 0)); *at != nullptr; ++at) {
    if (std::string(ggml_backend_buft_name(*at)) == "CPU_REPACK") return *at;
  }
  return nullptr;
}

/// Returns W in a format of ggml. Only some rows are quantised, and then repeated: all rows would take minutes.
std::vector<std::byte> quantised(ggml_type type, std::size_t rows) {
  constexpr std::size_t some = 256;
  const std::vector<float> values(weights(rows).begin(), weights(rows).begin() + some * columns);
  const std::vector<float> importance(columns, 1.0F);
  const std::size_t row_bytes = ggml_row_size(type, columns);
  std::vector<std::byte> all(rows * row_bytes);
  ggml_quantize_chunk(type, values.data(), all.data(), 0, some, columns, importance.data());
  for (std::size_t row = some; row < rows; ++row) {
    std::copy_n(all.begin() + static_cast<std::ptrdiff_t>(row % some * row_bytes), row_bytes,
                all.begin() + static_cast<std::ptrdiff_t>(row * row_bytes));
  }
  return all;
}

void ggml(benchmark::State& state, ggml_type type, bool repacked, std::size_t rows) {
  ggml_backend_buffer_type_t const kind = weights_buffer(repacked);
  if (kind == nullptr) return state.SkipWithError("ggml was built without repacking");
  const auto batch = static_cast<std::size_t>(state.range(0));
  static std::pair<ggml_type, std::size_t> last{GGML_TYPE_COUNT, 0};
  static std::vector<std::byte> bytes;
  if (last != std::pair(type, rows)) bytes = quantised(type, rows);
  last = {type, rows};
  const std::size_t copies = rotated_bytes() / bytes.size() + 1;
  const ggml_init_params sizes = {copies * (3 * ggml_tensor_overhead() + ggml_graph_overhead_custom(4, false)), nullptr,
                                  true};
  const std::unique_ptr<ggml_context, release> of_weights(ggml_init(sizes)), of_products(ggml_init(sizes));
  const auto inner = static_cast<std::int64_t>(columns), outputs = static_cast<std::int64_t>(rows);
  std::vector<ggml_tensor*> all;
  for (std::size_t i = 0; i < copies; ++i) all.push_back(ggml_new_tensor_2d(of_weights.get(), type, inner, outputs));
  const std::unique_ptr<ggml_backend_buffer, release> room(
      ggml_backend_alloc_ctx_tensors_from_buft(of_weights.get(), kind));
  for (ggml_tensor* const each : all) ggml_backend_tensor_set(each, bytes.data(), 0, bytes.size());
  ggml_tensor* const x = ggml_new_tensor_2d(of_products.get(), GGML_TYPE_F32, inner, static_cast<std::int64_t>(batch));
  std::vector<ggml_cgraph*> products;
  for (ggml_tensor* const each : all) {
    products.push_back(ggml_new_graph_custom(of_products.get(), 4, false));
    ggml_build_forward_expand(products.back(), ggml_mul_mat(of_products.get(), each, x));
  }
  const std::unique_ptr<ggml_backend_buffer, release> outputs_room(
      ggml_backend_alloc_ctx_tensors_from_buft(of_products.get(), ggml_backend_cpu_buffer_type()));
  const auto activations = ecq_test::gaussian(batch, columns, 3, 1.0F);
  ggml_backend_tensor_set(x, activations.data(), 0, activations.size() * sizeof(float));
  const std::unique_ptr<ggml_backend, release> backend(ggml_backend_cpu_init());
  ggml_backend_cpu_set_n_threads(backend.get(), 1);
  std::size_t turn = 0;
  for (auto _ : state) {
    if (ggml_backend_graph_compute(backend.get(), products[turn++ % copies]) != GGML_STATUS_SUCCESS) {
      state.SkipWithError("ggml failed");
    }
  }
  count(state, rows, 8.0 * static_cast<double>(bytes.size()) / static_cast<double>(rows * columns));
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
#if defined(ECQ_BENCH_OPENBLAS)
      at(std::string("decoded_") + name,
         [bits = bits, rows](benchmark::State& state) {
           decoded(state, {bits, bits != 16}, rows);
         },
         {1});
#endif
      if (bits == 16) continue;
      at(name + std::string("_pairs"),
         [bits = bits, rows](benchmark::State& state) {
           ours(state, {bits, true}, rows);
         },
         {1, 2});
    }
    at("fp8_3_pairs_fp32", [rows](benchmark::State& state) { ours<float>(state, {3.0, true}, rows); }, {1});
    for (const bool pairs : {false, true}) {
      for (const auto& [name, bits] : {std::pair("int8_2.1", 2.1), {"int8_3", 3.0}}) {
        const auto w8a8 = [=, bits = bits](benchmark::State& state) {
          ours(state, {bits, pairs, true}, rows, {.activations = ecq::activation_type::int8});
        };
        at(name + std::string(pairs ? "_pairs_w8a8" : "_w8a8"), w8a8, {1, 2});
      }
      at(pairs ? "groups_3_pairs" : "groups_3",
         [=](benchmark::State& state) {
           ours(state, {.bits = 3.0, .pairs = pairs, .integers = true, .group = 128}, rows);
         },
         {1});
      for (const bool trellis : {false, true}) {
        at(std::string(trellis ? "trellis_3" : "int8_3") + (pairs ? "_pairs" : ""),
           [=](benchmark::State& state) {
             ours(state, {3.0, pairs, true, trellis}, rows);
           },
           {1, 2});
      }
    }
#if defined(ECQ_BENCH_DNNL)
    using type = dnnl::memory::data_type;
    const auto of_onednn = [&]<class Element>(const std::string& name, type kind, Element) {
      const auto body = [=](benchmark::State& state) {
        try {
          onednn<Element>(state, kind, rows);
        } catch (const dnnl::error& failed) {  // oneDNN has BF16 only for AVX-512
          state.SkipWithError(failed.what());
        }
      };
      at("onednn_" + name, body, {1});
    };
    at("fed_fp8_3_pairs", [rows](benchmark::State& state) { fed(state, 3.0, rows); }, {1});
    of_onednn("bf16", type::bf16, ecq::bf16());
    of_onednn("int8", type::s8, ecq::int8());
#endif
#if defined(ECQ_BENCH_OPENBLAS)
    at("openblas_fp32", [rows](benchmark::State& state) { openblas(state, rows); }, {1});
#endif
#if defined(ECQ_BENCH_GGML)
    const auto of_ggml = [&](const std::string& name, ggml_type format, bool repacked = false) {
      at("ggml_" + name, [=](benchmark::State& state) { ggml(state, format, repacked, rows); }, {1});
    };
    of_ggml("bf16", GGML_TYPE_BF16);
    of_ggml("q4_k", GGML_TYPE_Q4_K);
    of_ggml("q4_k_repacked", GGML_TYPE_Q4_K, true);
    of_ggml("iq3_xxs", GGML_TYPE_IQ3_XXS);
    of_ggml("iq2_xxs", GGML_TYPE_IQ2_XXS);
#endif
  }
  return true;
}();

}  // namespace
