// A user's own kernel that decodes weights and uses them at once: it multiplies a matrix by a vector and never writes a
// weight to memory. EntQuant quantises the matrix to about three bits per weight, and the matrix stays compressed in
// device memory. The program checks the product against the CPU's.

#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "ecq/compressor.hpp"
#include "ecq/cuda/chunk_decoder.cuh"
#include "ecq/cuda/decompress.cuh"

namespace {

using ecq::result;
using ecq::detail::check_cuda;

constexpr std::size_t rows = 512;
constexpr std::size_t columns = 1024;
constexpr unsigned chunk_bits = 13;  // a chunk holds 8 whole rows, so one warp computes all their sums
constexpr unsigned warps = 4;        // of a block

/// Computes y = weights * x, a row 128 codes at a time. Precondition: the decoded bytes are the codes themselves.
template <class Coding>
__global__ void multiply(ecq::warp_stream stream, const float* values, const std::uint16_t* scales, const float* x,
                         float* y, unsigned long long* verdict) {
  const ecq::device_chunk_decoder<Coding> decode(stream, ecq::detail::dynamic_shared<std::byte>());
  const unsigned lane = threadIdx.x % 32;
  const std::uint64_t chunk = std::uint64_t{blockIdx.x} * warps + threadIdx.x / 32;
  if (chunk >= stream.chunks) return;
  const ecq::errc outcome = decode(chunk, [&](const ecq::stream_chunk& found, auto&& into) {
    float sum = 0;
    return into([&](std::uint32_t codes, std::uint32_t group, std::uint32_t) {
      const std::uint64_t first = found.begin + 128 * group;
      const auto column = static_cast<unsigned>(first % columns);
      for (unsigned i = 0; i < 4; ++i) sum += values[codes >> (8 * i) & 0xFFU] * x[column + 4 * lane + i];
      if (column + 128 < columns) return;
      for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xFFFFFFFFU, sum, step);
      const std::uint64_t row = first / columns;
      if (lane == 0) y[row] = sum * ecq::bf16::from_bits(scales[row]);
      sum = 0;
    });
  });
  if (outcome != ecq::errc::ok && lane == 0) ecq::detail::report_failure(verdict, outcome, chunk);
}

struct device_memory {
  explicit device_memory(std::size_t size) {
    if (cudaMalloc(&memory, size) != cudaSuccess) memory = nullptr;
  }
  device_memory(const device_memory&) = delete;
  device_memory& operator=(const device_memory&) = delete;
  ~device_memory() { cudaFree(memory); }

  void* memory = nullptr;
};

/// Returns the largest error of the device's product. The error of each element is relative to the sum of the
/// magnitudes of its terms.
result<double> largest_error() {
  std::vector<float> weights(rows * columns);
  std::vector<float> x(columns);
  for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = std::sin(static_cast<float>(i * i % 7919)) * 0.1F;
  for (std::size_t i = 0; i < columns; ++i) x[i] = std::cos(static_cast<float>(i));
  const ecq::compressor<ecq::fp8_e4m3, ecq::rans, ecq::entquant> compressor{{.lambda = 14.0},
                                                                            {.chunk_bits = chunk_bits}};
  ECQ_TRY(packed,
          compressor.compress(ecq::cpu{.threads = 0}, ecq::matrix_view<const float>(weights.data(), rows, columns)));

  const ecq::cuda gpu;
  ECQ_TRY(image, ecq::device_block_image::of(packed));
  const device_memory memory(image.bytes());
  const device_memory input(columns * sizeof(float));
  const device_memory output(rows * sizeof(float));
  const device_memory flag(8);
  ECQ_TRY(block, image.upload(gpu, memory.memory));
  if (block.stream.view.raw_bits != 0) {
    return ecq::error(ecq::errc::unsupported, "codes with raw bits; use a smaller alphabet");
  }
  ECQ_CHECK(check_cuda(cudaMemcpyAsync(input.memory, x.data(), columns * sizeof(float), cudaMemcpyHostToDevice),
                       "copying the vector"));
  const ecq::device_verdict verdict(flag.memory);
  ECQ_CHECK(verdict.clear(gpu));
  ECQ_CHECK(ecq::visit_coding(block.stream.coding, [&]<class Coding>(Coding) {
    return ecq::detail::launch(gpu, "launching the product", &multiply<Coding>,
                               {static_cast<std::size_t>((block.stream.view.chunks + warps - 1) / warps), 32 * warps,
                                ecq::device_chunk_decoder<Coding>::shared_bytes(block.stream.entries, 32 * warps)},
                               block.stream.view, block.values, block.scales, static_cast<const float*>(input.memory),
                               static_cast<float*>(output.memory), verdict.memory());
  }));
  ECQ_CHECK(verdict.wait(gpu));
  std::vector<float> y(rows);
  ECQ_CHECK(check_cuda(cudaMemcpy(y.data(), output.memory, rows * sizeof(float), cudaMemcpyDeviceToHost),
                       "copying the product"));

  ECQ_CHECK(ecq::decompress(ecq::cpu{.threads = 0}, packed, 0, ecq::matrix_view<float>(weights.data(), rows, columns)));
  double largest = 0;
  for (std::size_t row = 0; row < rows; ++row) {
    double sum = 0;
    double magnitude = 1e-30;
    for (std::size_t i = 0; i < columns; ++i) {
      const double term = double{weights[row * columns + i]} * double{x[i]};
      sum += term;
      magnitude += std::fabs(term);
    }
    largest = std::fmax(largest, std::fabs(double{y[row]} - sum) / magnitude);
  }
  return largest;
}

}  // namespace

int main() {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::puts("no CUDA device: nothing was multiplied");
    return 0;
  }
  const auto error = largest_error();
  if (!error) {
    std::fprintf(stderr, "decode_in_kernel: %s\n", error.error().to_string().c_str());
    return 1;
  }
  std::printf("a %zu x %zu matrix, decoded in the kernel that multiplies it: largest error %.1e of the magnitudes\n",
              rows, columns, *error);
  return *error < 1e-5 ? 0 : 1;
}
