// A stack of layers whose weights stay compressed in device memory. While cuBLAS computes with the weights of one
// layer, one launch decodes all matrices of the next layer into the other of two buffers.
//
// The layers are like those of a transformer without attention between tokens: q, k, v, o and a gated network of three
// matrices. The program makes their weights, compresses them by EntQuant to about three bits, and checks the result: a
// run with the same weights as plain BF16 must give the same bits.

#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ecq/compressor.hpp"
#include "ecq/cuda/decompress.cuh"
#include "ecq/entropy/tans/tans.hpp"

namespace {

using ecq::bf16;
using ecq::result;
using ecq::detail::check_cuda;

struct options {
  std::size_t layers = 4;
  std::size_t hidden = 4096;
  std::size_t batch = 1;
  bool json = false;
};

// ---- memory, streams and events, which most CUDA programs have classes for anyway

class device_memory {
 public:
  device_memory() = default;
  device_memory(device_memory&& other) noexcept
      : memory_(std::exchange(other.memory_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  device_memory& operator=(device_memory&& other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~device_memory() {
    if (memory_ != nullptr) cudaFree(memory_);
  }
  static result<device_memory> of(std::size_t size) {
    device_memory made;
    ECQ_CHECK(check_cuda(cudaMalloc(&made.memory_, size), "allocating device memory"));
    made.size_ = size;
    return result<device_memory>(std::move(made));
  }
  std::span<std::byte> bytes() const { return {static_cast<std::byte*>(memory_), size_}; }
  bf16* weights() const { return static_cast<bf16*>(memory_); }

 private:
  void* memory_ = nullptr;
  std::size_t size_ = 0;
};

struct stream {
  stream() { cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking); }
  stream(const stream&) = delete;
  stream& operator=(const stream&) = delete;
  ~stream() { cudaStreamDestroy(own); }
  cudaStream_t own = nullptr;
};

struct event {
  event() { cudaEventCreate(&own); }
  event(const event&) = delete;
  event& operator=(const event&) = delete;
  ~event() { cudaEventDestroy(own); }
  result<void> record(const stream& on) const { return check_cuda(cudaEventRecord(own, on.own), "recording an event"); }
  result<void> hold(const stream& on) const {
    return check_cuda(cudaStreamWaitEvent(on.own, own, 0), "waiting for an event");
  }
  cudaEvent_t own = nullptr;
};

// ---- the model

enum matrix { q, k, v, o, gate, up, down, matrices };

struct extent {
  std::size_t rows;     ///< outputs
  std::size_t columns;  ///< inputs
};

std::array<extent, matrices> extents_of(std::size_t hidden) {
  const extent square = {hidden, hidden};
  const extent wider = {3 * hidden, hidden};
  return {square, square, square, square, wider, wider, {hidden, 3 * hidden}};
}

/// Returns weights of about normal distribution and variance 1 / columns, the same on every machine.
std::vector<bf16> made_weights(const extent& shape, std::uint64_t seed) {
  std::vector<bf16> weights(shape.rows * shape.columns);
  const float scale = std::sqrt(12.0F / 4 / static_cast<float>(shape.columns)) * 0x1p-16F;
  static_cast<void>(ecq::parallel_for(ecq::cpu{.threads = 0}, shape.rows, [&](std::size_t row) -> result<void> {
    std::uint64_t state = (seed << 32) + row;
    for (std::size_t column = 0; column < shape.columns; ++column) {
      std::uint64_t z = state += 0x9E3779B97F4A7C15U;
      z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
      z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
      z ^= z >> 31;
      const auto sum = (z & 0xFFFFU) + (z >> 16 & 0xFFFFU) + (z >> 32 & 0xFFFFU) + (z >> 48);
      weights[row * shape.columns + column] = bf16((static_cast<float>(sum) - 131070.0F) * scale);
    }
    return {};
  }));
  return weights;
}

/// A layer on the device: the compressed weights and, for comparison, the decoded ones.
struct layer {
  device_memory memory;
  ecq::device_block block;
  std::array<ecq::matrix_place, matrices> places;
  device_memory plain;
};

result<layer> made_layer(const options& how, std::size_t number, double& bits) {
  const ecq::cpu host{.threads = 0};
  const auto extents = extents_of(how.hidden);
  std::array<std::vector<bf16>, matrices> weights;
  std::vector<ecq::named_weights> named;
  for (std::size_t i = 0; i < matrices; ++i) {
    const extent& shape = extents[i];
    weights[i] = made_weights(shape, number * matrices + i);
    named.push_back({std::to_string(i), ecq::matrix_view<const bf16>(weights[i].data(), shape.rows, shape.columns)});
  }
  ecq::compressor<ecq::fp8_e4m3, ecq::tans, ecq::entquant> codec{{.lambda = 14.5}};
  codec.stream.goal = ecq::stream_goal::gpu;  // enough chunks for all warps of a device
  ECQ_TRY(packed, codec.compress(host, named));

  layer made;
  ECQ_TRY(image, ecq::device_block_image::of(packed));
  std::copy(image.places().begin(), image.places().end(), made.places.begin());
  ECQ_TRY(memory, device_memory::of(image.bytes()));
  made.memory = std::move(memory);
  const ecq::cuda gpu;
  ECQ_TRY(block, image.upload(gpu, made.memory.bytes().data()));
  made.block = block;

  std::vector<bf16> decoded(block.elements);
  for (std::size_t i = 0; i < matrices; ++i) {
    const extent& shape = extents[i];
    ECQ_CHECK(ecq::decompress(
        host, packed, i, ecq::matrix_view<bf16>(decoded.data() + made.places[i].offset, shape.rows, shape.columns)));
  }
  ECQ_TRY(plain, device_memory::of(block.bytes<bf16>()));
  made.plain = std::move(plain);
  ECQ_CHECK(
      check_cuda(cudaMemcpy(made.plain.weights(), decoded.data(), made.plain.bytes().size(), cudaMemcpyHostToDevice),
                 "copying weights to the device"));
  std::size_t count = 0;
  for (const extent& shape : extents) count += shape.rows * shape.columns;
  bits = 8 * static_cast<double>(image.bytes()) / static_cast<double>(count);
  return result<layer>(std::move(made));
}

/// Sets a[i] to b[i] times the logistic function of a[i]; with `Silu`, also times a[i] itself.
template <bool Silu>
__global__ void gate_kernel(bf16* a, const bf16* b, std::size_t size) {
  const std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= size) return;
  const float x = a[i];
  const float open = 1.0F / (1.0F + expf(-x));
  a[i] = bf16(b[i] * (Silu ? open * x : open));
}

/// Sets each row of `to` to that of `from`, divided by its root mean square. Each row needs a block of 256 threads.
__global__ void normalize_kernel(bf16* to, const bf16* from, std::size_t columns) {
  __shared__ float sums[256];
  from += blockIdx.x * columns;
  to += blockIdx.x * columns;
  float sum = 0;
  for (std::size_t i = threadIdx.x; i < columns; i += 256) sum += float(from[i]) * float(from[i]);
  sums[threadIdx.x] = sum;
  __syncthreads();
  for (unsigned half = 128; half != 0; half /= 2) {
    if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
    __syncthreads();
  }
  const float scale = rsqrtf(sums[0] / static_cast<float>(columns) + 1e-6F);
  for (std::size_t i = threadIdx.x; i < columns; i += 256) to[i] = bf16(float(from[i]) * scale);
}

class model {
 public:
  static result<std::unique_ptr<model>> make(const options& how) {
    auto made = std::unique_ptr<model>(new model(how));
    for (std::size_t i = 0; i < how.layers; ++i) {
      ECQ_TRY(next, made_layer(how, i, made->bits_));
      made->layers_.push_back(std::move(next));
    }
    for (device_memory& buffer : made->buffers_) {
      ECQ_TRY(memory, device_memory::of(made->layers_[0].block.bytes<bf16>()));
      buffer = std::move(memory);
    }
    const std::size_t row = how.batch * sizeof(bf16);
    for (const auto& [which, size] : {std::pair(&made->input_, how.hidden),
                                      {&made->state_, how.hidden},
                                      {&made->normal_, how.hidden},
                                      {&made->first_, 3 * how.hidden},
                                      {&made->second_, 3 * how.hidden},
                                      {&made->third_, how.hidden}}) {
      ECQ_TRY(memory, device_memory::of(size * row));
      *which = std::move(memory);
    }
    const auto input = made_weights({how.batch, how.hidden}, 999);
    ECQ_CHECK(check_cuda(
        cudaMemcpy(made->input_.weights(), input.data(), made->input_.bytes().size(), cudaMemcpyHostToDevice),
        "copying the input to the device"));
    ECQ_TRY(flag, device_memory::of(8));
    made->flag_ = std::move(flag);
    // With its own workspace, cuBLAS chooses the same algorithm in every run.
    ECQ_TRY(workspace, device_memory::of(std::size_t{32} << 20));
    made->workspace_ = std::move(workspace);
    if (cublasCreate(&made->blas_) != CUBLAS_STATUS_SUCCESS ||
        cublasSetStream(made->blas_, made->computing_.own) != CUBLAS_STATUS_SUCCESS ||
        cublasSetWorkspace(made->blas_, made->workspace_.bytes().data(), made->workspace_.bytes().size()) !=
            CUBLAS_STATUS_SUCCESS) {
      return ecq::error(ecq::errc::device_error, "cuBLAS cannot be used");
    }
    ECQ_CHECK(check_cuda(cudaDeviceSynchronize(), "copying to the device"));
    return result<std::unique_ptr<model>>(std::move(made));
  }
  model(const model&) = delete;
  model& operator=(const model&) = delete;
  ~model() {
    cudaDeviceSynchronize();
    if (blas_ != nullptr) cublasDestroy(blas_);
  }

  /// Runs a step with decoded weights, or with plain ones, and returns its output.
  result<std::vector<std::byte>> output(bool decoded) {
    ECQ_CHECK(verdict().clear({decoding_.own}));
    ECQ_CHECK(step(decoded));
    ECQ_CHECK(verdict().wait({decoding_.own}));
    std::vector<std::byte> out(state_.bytes().size());
    ECQ_CHECK(check_cuda(cudaStreamSynchronize(computing_.own), "computing"));
    ECQ_CHECK(check_cuda(cudaMemcpy(out.data(), state_.bytes().data(), out.size(), cudaMemcpyDeviceToHost),
                         "reading the output"));
    return out;
  }

  /// Returns the milliseconds that a step takes, the median of 20.
  result<double> time(bool decoded) {
    std::vector<double> all;
    for (int turn = -2; turn < 20; ++turn) {
      ECQ_CHECK(begin_.record(computing_));
      ECQ_CHECK(begin_.hold(decoding_));
      ECQ_CHECK(step(decoded));
      ECQ_CHECK(end_.record(computing_));
      ECQ_CHECK(check_cuda(cudaEventSynchronize(end_.own), "computing"));
      float milliseconds = 0;
      ECQ_CHECK(check_cuda(cudaEventElapsedTime(&milliseconds, begin_.own, end_.own), "reading a clock"));
      if (turn >= 0) all.push_back(milliseconds);
    }
    std::nth_element(all.begin(), all.begin() + 10, all.end());
    return all[10];
  }

  double bits() const { return bits_; }
  double plain_mb() const { return 1e-6 * static_cast<double>(layers_.size() * layers_[0].plain.bytes().size()); }
  double buffers_mb() const { return 2e-6 * static_cast<double>(buffers_[0].bytes().size()); }
  double compressed_mb() const {
    std::size_t sum = 0;
    for (const layer& one : layers_) sum += one.memory.bytes().size();
    return 1e-6 * static_cast<double>(sum);
  }

 private:
  explicit model(const options& how) : how_(how), extents_(extents_of(how.hidden)) {}

  ecq::device_verdict verdict() const { return ecq::device_verdict(flag_.bytes().data()); }

  /// Enqueues all layers on the streams. For each buffer, decoding waits until its old weights have been used, and
  /// computing waits until the new ones are there.
  result<void> step(bool decoded) {
    ECQ_CHECK(check_cuda(cudaMemcpyAsync(state_.weights(), input_.weights(), state_.bytes().size(),
                                         cudaMemcpyDeviceToDevice, computing_.own),
                         "copying the input"));
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      const layer& one = layers_[i];
      if (!decoded) {
        ECQ_CHECK(compute(one, one.plain.weights()));
        continue;
      }
      const std::size_t side = i % 2;
      ECQ_CHECK(used_[side].hold(decoding_));
      ECQ_CHECK(ecq::decompress<bf16>(ecq::cuda{decoding_.own}, one.block, buffers_[side].bytes(), verdict()));
      ECQ_CHECK(decoded_[side].record(decoding_));
      ECQ_CHECK(decoded_[side].hold(computing_));
      ECQ_CHECK(compute(one, buffers_[side].weights()));
      ECQ_CHECK(used_[side].record(computing_));
    }
    return {};
  }

  result<void> compute(const layer& one, const bf16* weights) {
    const auto times = [&](matrix which, const device_memory& in, const device_memory& out, bool add = false) {
      return multiply(weights + one.places[which].offset, extents_[which], in.weights(), out.weights(), add);
    };
    ECQ_CHECK(normalize());
    ECQ_CHECK(times(q, normal_, first_));
    ECQ_CHECK(times(k, normal_, second_));
    ECQ_CHECK(times(v, normal_, third_));
    ECQ_CHECK(gated<false>(first_, second_, how_.hidden));
    ECQ_CHECK(gated<true>(first_, third_, how_.hidden));
    ECQ_CHECK(times(o, first_, state_, true));
    ECQ_CHECK(normalize());
    ECQ_CHECK(times(gate, normal_, first_));
    ECQ_CHECK(times(up, normal_, second_));
    ECQ_CHECK(gated<true>(first_, second_, 3 * how_.hidden));
    return times(down, first_, state_, true);
  }

  /// Computes out = in * transpose(weights), plus the old `out` if `add` is set. All are row-major, with one input per
  /// row.
  result<void> multiply(const bf16* weights, const extent& shape, const bf16* in, bf16* out, bool add) {
    const float alpha = 1;
    const float beta = add ? 1 : 0;
    const int rows = static_cast<int>(shape.rows);
    const int columns = static_cast<int>(shape.columns);
    const auto status = cublasGemmEx(blas_, CUBLAS_OP_T, CUBLAS_OP_N, rows, static_cast<int>(how_.batch), columns,
                                     &alpha, weights, CUDA_R_16BF, columns, in, CUDA_R_16BF, columns, &beta, out,
                                     CUDA_R_16BF, rows, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
    if (status == CUBLAS_STATUS_SUCCESS) return {};
    return ecq::error(ecq::errc::device_error, "cublasGemmEx: status ", static_cast<int>(status));
  }

  template <bool Silu>
  result<void> gated(const device_memory& a, const device_memory& b, std::size_t columns) {
    const std::size_t size = how_.batch * columns;
    return ecq::detail::launch({computing_.own}, "launching a gate", &gate_kernel<Silu>, {(size + 255) / 256, 256},
                               a.weights(), b.weights(), size);
  }
  result<void> normalize() {
    return ecq::detail::launch({computing_.own}, "launching a normalisation", &normalize_kernel, {how_.batch, 256},
                               normal_.weights(), state_.weights(), how_.hidden);
  }

  options how_;
  std::array<extent, matrices> extents_;
  std::vector<layer> layers_;
  double bits_ = 0;
  device_memory buffers_[2], flag_, workspace_;
  device_memory input_, state_, normal_, first_, second_, third_;
  stream decoding_, computing_;
  event decoded_[2], used_[2], begin_, end_;
  cublasHandle_t blas_ = nullptr;
};

result<bool> show(const options& how) {
  ECQ_TRY(made, model::make(how));
  ECQ_TRY(expected, made->output(false));
  ECQ_TRY(got, made->output(true));
  const bool equal = got == expected;
  ECQ_TRY(resident, made->time(false));
  ECQ_TRY(decoding, made->time(true));
  cudaDeviceProp device{};
  ECQ_CHECK(check_cuda(cudaGetDeviceProperties(&device, 0), "querying the device"));
  if (how.json) {
    std::printf(
        "{\"gpu\": \"%s\", \"layers\": %zu, \"hidden\": %zu, \"batch\": %zu, \"bits\": %.4f, \"equal\": %s, "
        "\"resident_ms\": %.4f, \"decoding_ms\": %.4f, \"resident_mb\": %.1f, \"compressed_mb\": %.1f, "
        "\"buffers_mb\": %.1f}\n",
        device.name, how.layers, how.hidden, how.batch, made->bits(), equal ? "true" : "false", resident, decoding,
        made->plain_mb(), made->compressed_mb(), made->buffers_mb());
    return equal;
  }
  std::printf("%s: %zu layers of hidden size %zu, batch %zu, %.3f bits per weight\n", device.name, how.layers,
              how.hidden, how.batch, made->bits());
  std::printf("%-28s %12s %24s\n", "weights", "a step", "device memory");
  std::printf("%-28s %9.3f ms %21.1f MB\n", "BF16, resident", resident, made->plain_mb());
  std::printf("%-28s %9.3f ms %21.1f MB, two buffers of %.1f MB among them\n", "compressed, decoded ahead", decoding,
              made->compressed_mb() + made->buffers_mb(), made->buffers_mb() / 2);
  std::printf("the outputs %s\n", equal ? "are the same, bit for bit" : "DIFFER");
  return equal;
}

constexpr const char* usage =
    "usage: example_layers [--layers N] [--hidden N] [--batch N] [--json]\n"
    "  --layers N   1..1000 (4), each of 13 * hidden^2 weights\n"
    "  --hidden N   16..16384, a multiple of 16 (4096, and so 218 M weights as in a language model of 8 G)\n"
    "  --batch N    inputs that are computed together, 1..65536 (1)\n"
    "  --json       figures for programs\n";

bool read_options(int count, char** arguments, options& how) {
  for (int i = 1; i < count; ++i) {
    const std::string_view name = arguments[i];
    if (name == "--json") {
      how.json = true;
      continue;
    }
    std::size_t* const number = name == "--layers"   ? &how.layers
                                : name == "--hidden" ? &how.hidden
                                : name == "--batch"  ? &how.batch
                                                     : nullptr;
    if (number == nullptr || ++i == count) return false;
    const std::string_view text = arguments[i];
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), *number);
    if (problem != std::errc() || end != text.data() + text.size()) return false;
  }
  return how.layers >= 1 && how.layers <= 1000 && how.hidden >= 16 && how.hidden <= 16384 && how.hidden % 16 == 0 &&
         how.batch >= 1 && how.batch <= 65536;
}

}  // namespace

int main(int count, char** arguments) {
  if (count == 2 && std::string_view(arguments[1]) == "--help") return std::fputs(usage, stdout) < 0;
  options how;
  if (!read_options(count, arguments, how)) {
    std::fputs(usage, stderr);
    return 2;
  }
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::puts("no CUDA device: nothing to show");
    return 0;
  }
  const auto equal = show(how);
  if (!equal) std::fprintf(stderr, "example_layers: %s\n", equal.error().to_string().c_str());
  return equal && *equal ? 0 : 1;
}
