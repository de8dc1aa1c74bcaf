#include <chrono>

#include "bench.cuh"
// after what watches launches
#include "ecq/cuda/decompress.cuh"
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

/// The time from a block on the host, such as in a mapped container, to one on the device that can be decoded.
ecq::result<figure> opening(const ecq::packed_block& block) {
  const ecq::cuda gpu;
  figure found;
  ECQ_TRY(image, ecq::device_block_image::of(block));
  ECQ_TRY(memory, device_memory::of(image.bytes()));
  std::vector<double> all;
  for (int turn = 0; turn < 5; ++turn) {
    const auto begun = std::chrono::steady_clock::now();
    ECQ_TRY(opened, ecq::device_block_image::of(block));
    ECQ_TRY(on_device, opened.upload(gpu, memory.data()));
    ECQ_CHECK(ecq::detail::check_cuda(cudaStreamSynchronize(gpu.stream), "copying a block to the device"));
    all.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count());
    found.elements = on_device.elements;
  }
  ECQ_CHECK(check_same(memory.data(), block.stream));
  std::sort(all.begin(), all.end());
  found.seconds = all[all.size() / 2];
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
    run.row({"open", work.name, "rans_direct, to the device", size}, [&]() -> ecq::result<figure> {
      codes = elements_of(work, matrices * rows * columns);
      ECQ_CHECK(measure_copy(run, size));
      ECQ_TRY(block, block_of(coder::rans_direct, ecq::dtype::int8, codes, matrices, rows, columns, {}));
      return opening(block);
    });
    for (const coder one : ways) {
      for (const unsigned chunk_bits : {0U, 13U}) {
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
