#include <chrono>

#include "bench.cuh"
// after bench.cuh, which observes launches
#include "ecq/cuda/decompress.cuh"
#include "ecq/cuda/resident_stream.cuh"
#include "suites.hpp"

namespace ecq_bench {

namespace {

/// Copies of a block in device memory, one for each rotated buffer, with room for the weights of each.
class blocks_on_device {
 public:
  static ecq::result<blocks_on_device> of(const ecq::packed_block& block) {
    blocks_on_device made;
    ECQ_TRY(image, ecq::device_block_image::of(block));
    made.places_.assign(image.places().begin(), image.places().end());
    std::size_t weights = 0;
    for (const auto& matrix : block.matrices) weights += matrix.layout.rows * matrix.layout.columns;
    const std::size_t count = rotated_buffers(weights * sizeof(ecq::bf16));
    ECQ_TRY(inputs, buffers(count, image.bytes()));
    made.inputs_ = std::move(inputs);
    for (const device_memory& input : made.inputs_) {
      ECQ_TRY(on_device, image.upload(ecq::cuda{}, input.data()));
      made.blocks_.push_back(on_device);
    }
    ECQ_CHECK(ecq::detail::check_cuda(cudaDeviceSynchronize(), "uploading blocks"));  // the image ends here
    ECQ_TRY(outputs, buffers(count, made.bytes()));
    made.outputs_ = std::move(outputs);
    ECQ_TRY(flag, device_memory::of(8));
    made.flag_ = std::move(flag);
    return ecq::result<blocks_on_device>(std::move(made));
  }

  std::size_t count() const { return blocks_.size(); }
  std::size_t bytes() const { return blocks_[0].bytes<ecq::bf16>(); }
  ecq::device_verdict verdict() const { return ecq::device_verdict(flag_.data()); }
  ecq::result<void> decompress(const ecq::cuda& gpu, std::size_t i) const {
    return ecq::decompress<ecq::bf16>(gpu, blocks_[i], {outputs_[i].data(), bytes()}, verdict());
  }
  /// Fails with errc::corrupt unless the weights are those that the CPU decodes.
  ecq::result<void> check(const ecq::packed_block& block) const {
    for (std::size_t i = 0; i < block.matrices.size(); ++i) {
      ECQ_TRY(expected, weights_of(block, i));
      ECQ_CHECK(check_same(outputs_.back().data() + places_[i].offset * sizeof(ecq::bf16),
                           std::as_bytes(std::span(expected))));
    }
    return {};
  }

 private:
  std::vector<ecq::matrix_place> places_;
  std::vector<device_memory> inputs_, outputs_;
  std::vector<ecq::device_block> blocks_;
  device_memory flag_;
};

void count_weights(figure& found, const ecq::packed_block& block) {
  std::size_t scales = 0;
  found.elements = 0;
  for (const auto& matrix : block.matrices) {
    found.elements += matrix.layout.rows * matrix.layout.columns;
    scales += matrix.scales.size() * sizeof(ecq::bf16);
  }
  found.bits = 8 * static_cast<double>(block.stream.size() + scales) / static_cast<double>(found.elements);
}

ecq::result<figure> dequantising(const ecq::packed_block& block) {
  ECQ_TRY(all, blocks_on_device::of(block));
  ECQ_TRY(found, measured(all.verdict(), all.count(), [&](std::size_t i) { return all.decompress(ecq::cuda{}, i); }));
  ECQ_CHECK(all.check(block));
  count_weights(found, block);
  return std::move(found);
}

struct stream_with_graphs {
  cudaStream_t stream = nullptr;
  std::vector<cudaGraphExec_t> graphs;

  stream_with_graphs() = default;
  stream_with_graphs(const stream_with_graphs&) = delete;
  stream_with_graphs& operator=(const stream_with_graphs&) = delete;
  ~stream_with_graphs() {
    for (cudaGraphExec_t graph : graphs) cudaGraphExecDestroy(graph);
    if (stream != nullptr) cudaStreamDestroy(stream);
  }

  /// Captures the work that `enqueue` puts on the stream as one more graph.
  template <class Enqueue>
  ecq::result<void> capture(Enqueue&& enqueue) {
    const auto check = [](cudaError_t status) { return ecq::detail::check_cuda(status, "capturing a graph"); };
    if (stream == nullptr) ECQ_CHECK(check(cudaStreamCreate(&stream)));
    ECQ_CHECK(check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal)));
    const ecq::result<void> enqueued = enqueue(ecq::cuda{stream});
    cudaGraph_t graph = nullptr;
    const cudaError_t ended = cudaStreamEndCapture(stream, &graph);
    ECQ_CHECK(enqueued);
    ECQ_CHECK(check(ended));
    cudaGraphExec_t made = nullptr;
    const cudaError_t instantiated = cudaGraphInstantiate(&made, graph, 0);
    cudaGraphDestroy(graph);
    ECQ_CHECK(check(instantiated));
    graphs.push_back(made);
    return {};
  }
};

/// Measures dequantisation from graphs that were captured once.
ecq::result<figure> replaying(const ecq::packed_block& block) {
  ECQ_TRY(all, blocks_on_device::of(block));
  stream_with_graphs captured;
  for (std::size_t i = 0; i < all.count(); ++i) {
    ECQ_CHECK(captured.capture([&](const ecq::cuda& gpu) { return all.decompress(gpu, i); }));
  }
  // The stream and the default stream wait for each other, so that the clock of measured() holds.
  ECQ_TRY(found, measured(all.verdict(), all.count(), [&](std::size_t i) {
            return ecq::detail::check_cuda(cudaGraphLaunch(captured.graphs[i], captured.stream), "replaying a graph");
          }));
  ECQ_CHECK(all.check(block));
  count_weights(found, block);
  return std::move(found);
}

/// Returns the seconds, by the host's clock, from calling `open` until the device has done its part; the median of
/// five.
template <class Open>
ecq::result<double> waited_for(const ecq::cuda& gpu, Open&& open) {
  std::vector<double> all;
  for (int turn = 0; turn < 5; ++turn) {
    const auto begun = std::chrono::steady_clock::now();
    ECQ_CHECK(open());
    ECQ_CHECK(ecq::detail::check_cuda(cudaStreamSynchronize(gpu.stream), "opening a block"));
    all.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count());
  }
  std::sort(all.begin(), all.end());
  return all[all.size() / 2];
}

/// Measures the way from a block on the host, such as in a mapped container, to one that a device decodes; with
/// `Resident`, from the bytes of its stream in device memory to a block that is opened there.
template <bool Resident>
ecq::result<figure> opening(const ecq::packed_block& block) {
  const ecq::cuda gpu;
  ECQ_TRY(image, ecq::device_block_image::of(block));
  ECQ_TRY(memory, device_memory::of(image.bytes()));
  ECQ_TRY(uploaded, image.upload(gpu, memory.data()));
  ECQ_CHECK(check_same(memory.data(), block.stream));  // the stream comes first in an image
  ECQ_TRY(tables, device_memory::of(image.bytes()));
  ECQ_TRY(seconds, waited_for(gpu, [&]() -> ecq::result<void> {
            if constexpr (Resident) {
              ECQ_TRY(opened, ecq::resident_stream::open(gpu, {memory.data(), block.stream.size()}));
              ECQ_CHECK(opened.upload(gpu, tables.data()));
            } else {
              ECQ_TRY(opened, ecq::device_block_image::of(block));
              ECQ_CHECK(opened.upload(gpu, memory.data()));
            }
            return {};
          }));
  figure found;
  found.seconds = seconds;
  found.elements = uploaded.elements;
  found.bits = 8 * static_cast<double>(image.bytes()) / static_cast<double>(found.elements);
  return found;
}

constexpr workload code_workloads[] = {{"2.1 bits", {}, 0.79}, {"3 bits", {}, 1.49}, {"4 bits", {}, 2.98}};

/// Returns the number of raw bits per code with which narrow pairs of this workload are smallest.
unsigned raw_bits_in_pairs(const workload& work) { return work.scale < 1 ? 0 : work.scale < 2 ? 1 : 2; }

/// Rows about Int8 codes of `work` in matrices of these extents. The codes are made when the first row is measured.
class rows_of_block {
 public:
  rows_of_block(session& run, const workload& work, const std::string& where, std::span<const extent> matrices)
      : run_(run), work_(work), name_("int8, " + std::string(work.name) + where), matrices_(matrices) {
    for (const extent& one : matrices) weights_ += one.size();
  }

  /// Measures `measure(block)` of a stream made by `options`. With a trellis, its indices are the codes of the stream
  /// without one.
  template <class Measure>
  void row(const char* verb, coder which, const ecq::stream_options& options, const char* remark, Measure&& measure) {
    std::string how = name_of(which);
    if (options.narrow_pairs) how += ", narrow pairs";
    if (options.trellis) how += ", trellis";
    if (options.chunk_bits != 0) how += ", 2^" + std::to_string(options.chunk_bits) + " a chunk";
    const std::size_t size = weights_ * sizeof(ecq::bf16);
    run_.row({verb, name_, how + remark, size}, [&]() -> ecq::result<figure> {
      if (codes_.empty()) codes_ = elements_of(work_, weights_);
      ECQ_CHECK(measure_copy(run_, size));
      const bytes on_path = options.trellis ? path_of(*options.trellis, codes_) : bytes();
      ECQ_TRY(block, block_of(which, ecq::dtype::int8, options.trellis ? on_path : codes_, matrices_, options));
      return measure(block);
    });
  }

 private:
  session& run_;
  const workload& work_;
  std::string name_;
  std::span<const extent> matrices_;
  std::size_t weights_ = 0;
  bytes codes_;
};

constexpr coder ways[] = {coder::rans_direct, coder::tans, coder::huffman};

}  // namespace

void dequantise(session& run, std::size_t size) {
  const std::vector<extent> matrices(4, {size / (4 * 4096 * sizeof(ecq::bf16)), 4096});
  for (const workload& work : code_workloads) {
    rows_of_block rows(run, work, "", matrices);
    rows.row("open", coder::rans_direct, {}, ", from the host", opening<false>);
    rows.row("open", coder::rans_direct, {}, ", where it lies", opening<true>);
    for (const coder one : ways) {
      for (const unsigned chunk_bits : {0U, 13U, 14U}) {
        if (chunk_bits != 0 && size > most_for_other_chunks) continue;
        rows.row("dequantise", one, {.chunk_bits = chunk_bits, .goal = goal_of(chunk_bits)}, "", dequantising);
      }
    }
  }
}

void dequantise_layers(session& run, std::size_t) {
#if defined(ECQ_EMULATED_CUDA)
  constexpr std::size_t hidden = 256;
#else
  constexpr std::size_t hidden = 4096;
#endif
  // A layer of a language model of 8 G weights: q, k, v, o, and a gated network of three matrices; 218 M weights.
  constexpr extent square = {hidden, hidden};
  constexpr extent shared_by_four = {hidden / 4, hidden};
  constexpr extent wider = {hidden * 7 / 2, hidden};
  constexpr extent layer[] = {square, shared_by_four, shared_by_four, square, wider, wider, {hidden, hidden * 7 / 2}};
  const std::pair<std::string, std::span<const extent>> blocks[] = {{", a matrix", {&square, 1}}, {", a layer", layer}};
  for (const auto& [where, matrices] : blocks) {
    for (const workload& work : code_workloads) {
      rows_of_block rows(run, work, where, matrices);
      for (const coder one : ways) {
        for (const unsigned chunk_bits : {0U, 13U, 14U}) {
          rows.row("dequantise", one, {.chunk_bits = chunk_bits, .goal = goal_of(chunk_bits)}, "", dequantising);
        }
        rows.row("dequantise", one, {.chunk_bits = 13, .narrow_pairs = raw_bits_in_pairs(work)}, "", dequantising);
        rows.row("replay", one, {.chunk_bits = 13, .goal = goal_of(13)}, "", replaying);
      }
      constexpr ecq::trellis walk = {.state_bits = 3, .period_bits = 13};
      rows.row("dequantise", coder::tans, {.chunk_bits = 13, .goal = goal_of(13), .trellis = walk}, "", dequantising);
    }
  }
}

}  // namespace ecq_bench
