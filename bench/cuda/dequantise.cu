#include <chrono>

#include "bench.cuh"
// after what watches launches
#include "ecq/cuda/decompress.cuh"
#include "ecq/cuda/resident_stream.cuh"
#include "suites.hpp"

namespace ecq_bench {

namespace {

constexpr std::size_t matrices = 4;
constexpr std::size_t columns = 4096;

ecq::result<figure> dequantising(const ecq::packed_block& block, std::size_t rows) {
  const std::size_t matrix_bytes = rows * columns * sizeof(ecq::bf16);
  const std::size_t count = rotated_buffers(matrices * matrix_bytes);
  ECQ_TRY(outputs, buffers(count, matrices * matrix_bytes));
  ECQ_TRY(flag, device_memory::of(8));
  const ecq::cuda gpu;
  const ecq::device_verdict verdict(flag.data());
  ECQ_TRY(image, ecq::device_block_image::of(block));
  ECQ_TRY(inputs, buffers(count, image.bytes()));
  std::vector<ecq::device_block> blocks;
  for (const device_memory& input : inputs) {
    ECQ_TRY(on_device, image.upload(gpu, input.data()));
    blocks.push_back(on_device);
  }
  ECQ_TRY(found, measured(verdict, count, [&](std::size_t i) {
            return ecq::decompress<ecq::bf16>(gpu, blocks[i], {outputs[i].data(), matrices * matrix_bytes}, verdict);
          }));
  for (std::size_t i = 0; i < matrices; ++i) {
    ECQ_TRY(expected, weights_of(block, i));
    ECQ_CHECK(check_same(outputs.back().data() + i * matrix_bytes, std::as_bytes(std::span(expected))));
  }
  found.elements = matrices * rows * columns;
  const auto scales = static_cast<double>(matrices * rows * sizeof(ecq::bf16));
  found.bits = 8 * (static_cast<double>(block.stream.size()) + scales) / static_cast<double>(found.elements);
  return std::move(found);
}

/// Seconds by the host's clock that `open` takes until the device has done its part, the median of five.
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

/// From a block on the host, such as in a mapped container, to one that a device decodes; or with `Resident` from the
/// bytes of its stream in device memory to one that is opened there.
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

}  // namespace

void dequantise(session& run, std::size_t size) {
  constexpr workload workloads[] = {
      {"int8, 2.1 bits", {}, 0.79}, {"int8, 3 bits", {}, 1.49}, {"int8, 4 bits", {}, 2.98}};
  constexpr coder ways[] = {coder::rans_direct, coder::tans, coder::huffman};
  const std::size_t rows = size / (matrices * columns * sizeof(ecq::bf16));
  for (const workload& work : workloads) {
    bytes codes;
    const auto open = [&](const char* how, auto&& opened) {
      run.row({"open", work.name, how, size}, [&]() -> ecq::result<figure> {
        if (codes.empty()) codes = elements_of(work, matrices * rows * columns);
        ECQ_CHECK(measure_copy(run, size));
        ECQ_TRY(block, block_of(coder::rans_direct, ecq::dtype::int8, codes, matrices, rows, columns, {}));
        return opened(block);
      });
    };
    open("rans_direct, from the host", opening<false>);
    open("rans_direct, where it lies", opening<true>);
    for (const coder one : ways) {
      for (const unsigned chunk_bits : {0U, 13U}) {
        if (chunk_bits != 0 && size > most_for_other_chunks) continue;
        const std::string how =
            name_of(one) + (chunk_bits != 0 ? ", 2^" + std::to_string(chunk_bits) + " a chunk" : std::string());
        run.row({"dequantise", work.name, how, size}, [&]() -> ecq::result<figure> {
          if (codes.empty()) codes = elements_of(work, matrices * rows * columns);
          ECQ_CHECK(measure_copy(run, size));
          ECQ_TRY(block, block_of(one, ecq::dtype::int8, codes, matrices, rows, columns, {.chunk_bits = chunk_bits}));
          return dequantising(block, rows);
        });
      }
    }
  }
}

}  // namespace ecq_bench
