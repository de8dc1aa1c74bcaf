#include "bench.cuh"
// after bench.cuh, which observes launches
#include "ecq/cuda/compress.cuh"
#include "suites.hpp"

namespace ecq_bench {

namespace {

/// Weights of `work` in device memory, one copy for each rotated buffer.
struct weights_on_device {
  std::vector<device_memory> inputs;
  std::vector<std::vector<ecq::device_weights>> matrices;

  static ecq::result<weights_on_device> of(const quantizing& work) {
    weights_on_device made;
    ECQ_TRY(inputs, buffers(rotated_buffers(work.weights.size()), work.weights.size()));
    made.inputs = std::move(inputs);
    for (const device_memory& input : made.inputs) {
      ECQ_CHECK(ecq::detail::check_cuda(
          cudaMemcpy(input.data(), work.weights.data(), work.weights.size(), cudaMemcpyHostToDevice),
          "copying weights"));
      auto& matrices = made.matrices.emplace_back();
      for (std::size_t i = 0; i < work.matrices; ++i) {
        matrices.push_back(
            {input.data() + i * work.bytes_of_matrix(), ecq::dtype::bf16, work.rows, work.columns, work.columns});
      }
    }
    return ecq::result<weights_on_device>(std::move(made));
  }
};

ecq::result<figure> quantising(const quantizing& work) {
  ECQ_TRY(from, weights_on_device::of(work));
  const std::size_t count = from.inputs.size();
  const std::size_t rows = work.matrices * work.rows;
  ECQ_TRY(codes, buffers(count, work.size()));
  ECQ_TRY(scales, buffers(count, rows * sizeof(ecq::bf16)));
  std::vector<std::vector<ecq::device_quantization>> all;
  for (std::size_t i = 0; i < count; ++i) {
    auto& tasks = all.emplace_back();
    for (std::size_t m = 0; m < work.matrices; ++m) {
      tasks.push_back({from.matrices[i][m],
                       reinterpret_cast<std::uint8_t*>(codes[i].data()) + m * work.rows * work.columns,
                       reinterpret_cast<ecq::bf16*>(scales[i].data()) + m * work.rows});
    }
  }
  ECQ_TRY(workspaces, buffers(count, ecq::quantize_workspace_bytes(all[0])));
  ECQ_TRY(flag, device_memory::of(8));
  const ecq::cuda gpu;
  const ecq::device_verdict verdict(flag.data());
  ECQ_TRY(found, measured(verdict, count, [&](std::size_t i) {
            return ecq::quantize<ecq::fp8_e4m3>(gpu, all[i], *work.how.lambda, workspaces[i].data(), verdict);
          }));
  ECQ_TRY(expected, codes_of(work));
  ECQ_CHECK(check_same(codes.back().data(), expected));
  found.elements = work.size();
  found.bits = 8;
  return std::move(found);
}

ecq::result<figure> compressing(const quantizing& work) {
  ECQ_TRY(from, weights_on_device::of(work));
  const std::size_t count = from.inputs.size();
  const ecq::compressor<ecq::fp8_e4m3, ecq::rans, ecq::entquant> codec{work.how, {.chunk_bits = work.chunk_bits}};
  ECQ_TRY(sizes, ecq::compression_bytes(codec, from.matrices[0]));
  ECQ_TRY(outputs, buffers(count, sizes.block));
  ECQ_TRY(workspaces, buffers(count, sizes.workspace));
  ECQ_TRY(flag, device_memory::of(8));
  const ecq::cuda gpu;
  const ecq::device_verdict verdict(flag.data());
  std::vector<ecq::device_packed_block> packed(count);
  ECQ_TRY(found, measured(verdict, count, [&](std::size_t i) -> ecq::result<void> {
            ECQ_TRY(made, ecq::compress(gpu, codec, from.matrices[i], {outputs[i].data(), sizes.block},
                                        {workspaces[i].data(), sizes.workspace}, verdict));
            packed[i] = std::move(made);
            return {};
          }));
  ECQ_TRY(got, packed.back().fetch(gpu, verdict));
  // The CPU compresses at the lambda that the device has found: otherwise, it would correct lambda by its own result.
  double lambda = 0;
  ECQ_CHECK(ecq::detail::check_cuda(cudaMemcpy(&lambda, packed.back().lambda, sizeof lambda, cudaMemcpyDeviceToHost),
                                    "reading lambda"));
  quantizing same_lambda = work;
  same_lambda.how = {.lambda = lambda};
  ECQ_TRY(expected, compressed(same_lambda));
  bool equal = same(got.stream, expected.stream) && got.matrices.size() == expected.matrices.size();
  for (std::size_t i = 0; equal && i < got.matrices.size(); ++i) {
    equal =
        same(std::as_bytes(std::span(got.matrices[i].scales)), std::as_bytes(std::span(expected.matrices[i].scales)));
  }
  if (!equal) return ecq::error(ecq::errc::corrupt, "the device made another block than the CPU");
  found.elements = work.size();
  const auto scales = static_cast<double>(work.matrices * work.rows * sizeof(ecq::bf16));
  found.bits = 8 * (static_cast<double>(got.stream.size()) + scales) / static_cast<double>(work.size());
  return std::move(found);
}

}  // namespace

void compress(session& run, std::size_t size) {
  constexpr workload gaussian = {"BF16 N(0, 0.02)", ecq::dtype::bf16, 0.02};
  quantizing work = {
      .weights = {}, .matrices = 4, .rows = size / (4 * 4096 * sizeof(ecq::bf16)), .columns = 4096, .how = {}};
  bytes weights;
  const auto row = [&](const char* verb, const char* how, const ecq::entquant& quantizer, auto&& measure) {
    run.row({verb, gaussian.name, how, size}, [&]() -> ecq::result<figure> {
      if (weights.empty()) weights = elements_of(gaussian, 4 * work.rows * 4096 * sizeof(ecq::bf16));
      ECQ_CHECK(measure_copy(run, size));
      work.weights = weights;
      work.how = quantizer;
      return measure(work);
    });
  };
  row("quantise", "lambda 14.5", {.lambda = 14.5}, quantising);
  row("compress", "lambda 14.5", {.lambda = 14.5}, compressing);
  row("compress", "lambda 58", {.lambda = 58}, compressing);
  row("compress", "3 bits, lambda searched", {.target_bits = 3.0}, compressing);
}

}  // namespace ecq_bench
