#pragma once
/// \file
/// Compression on a device: turns matrices in device memory into a block in device memory, quantised, coded and laid
/// out as on the CPU.

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "ecq/base/out_of_memory.hpp"
#include "ecq/base/result.hpp"
#include "ecq/compressor.hpp"
#include "ecq/cuda/backend.cuh"
#include "ecq/cuda/device_block.cuh"
#include "ecq/cuda/encode.cuh"
#include "ecq/cuda/quantize.cuh"
#include "ecq/cuda/verdict.cuh"
#include "ecq/packed.hpp"

namespace ecq {

/// Bytes of device memory that compress() needs.
struct device_compression_bytes {
  std::uint64_t block = 0;      ///< memory to keep: the largest possible stream, and the scales
  std::uint64_t workspace = 0;  ///< needed until the work is done
};

/// A block that a device has compressed or is about to compress, in memory that the caller owns.
struct device_packed_block {
  std::span<std::byte> stream;  ///< room for the stream, which is the first `*stream_bytes` bytes
  std::uint64_t* stream_bytes = nullptr;
  double* lambda = nullptr;  ///< the lambda that the weights were quantised with
  std::span<bf16> scales;    ///< scales of all matrices, one per row
  dtype format = dtype::fp8_e4m3;
  std::vector<packed_matrix> matrices;  ///< on the host, without names and scales

  /// Returns the block on the host, byte for byte that of compressor::compress. Waits for gpu.stream. Errors: those of
  /// compress() that only the device could detect, out_of_memory, device_error.
  result<packed_block> fetch(const cuda& gpu, const device_verdict& verdict) const;

  /// Returns the block, ready to be decoded in device memory. Copies only header, tables, index and scales to the host.
  /// Waits for gpu.stream. Errors: those of fetch() and of resident_block::open.
  result<resident_block> open(const cuda& gpu, const device_verdict& verdict) const;

 private:
  /// Returns the bytes of the stream, and the matrices with their scales in `fetched`.
  result<std::uint64_t> fetch_matrices(const cuda& gpu, const device_verdict& verdict,
                                       std::vector<packed_matrix>& fetched) const;
};

/// Returns the number of bytes of device memory that compress(gpu, codec, matrices, ...) needs. Errors: those of
/// compress().
template <symmetric_format Format, device_encoded Coder>
result<device_compression_bytes> compression_bytes(const compressor<Format, Coder, entquant>& codec,
                                                   std::span<const device_weights> matrices);

/// Compresses matrices in device memory as codec.compress(cpu{}, ...) does, on gpu.stream. The method is EntQuant with
/// one scale per row, at a given lambda or at target bits, for which the device finds lambda itself. All matrices share
/// lambda, stream and frequency table. `block` and `workspace` are device memory of compression_bytes(), aligned to 256
/// bytes. Does not wait; errors that depend on the weights go to `verdict`: errc::non_finite with the number of a
/// weight, counted through all matrices, and errc::unreachable_target with the lowest reachable rate, in thousandths of
/// a bit.
///
///   ecq::compressor<ecq::fp8_e4m3, ecq::rans, ecq::entquant> codec{{.target_bits = 3.0}};
///   ECQ_TRY(bytes, compression_bytes(codec, matrices));
///   // allocate bytes.block and bytes.workspace
///   ECQ_CHECK(verdict.clear(ecq::cuda{queue}));
///   ECQ_TRY(packed, compress(ecq::cuda{queue}, codec, matrices, block, workspace, verdict));
///   ECQ_TRY(on_host, packed.fetch(ecq::cuda{queue}, verdict));
///
/// Lambda is that of the CPU's search unless the last bits of a logarithm decide (see lambda_for_bits() for devices).
/// The CPU's compressor then corrects lambda by the rate that it reached. The device does not, because compress() does
/// not wait for that rate. For a large model the search sees only a sample; packed_block::bits_per_weight() of the
/// fetched block gives the rate that was reached.
///
/// codec.stream.goal = stream_goal::gpu makes a stream that takes up to 0.11 bit per weight more but that devices
/// decode faster, single matrices several times as fast. The coder rans_direct encodes and decodes faster at a cost of
/// some 0.01 bit. Errors: invalid_argument (options, alignment, memory that is too small), unsupported (element types;
/// each_matrix, chunk classes, shared counts, pairs, a trellis), limit_exceeded, out_of_memory, device_error.
template <symmetric_format Format, device_encoded Coder>
result<device_packed_block> compress(const cuda& gpu, const compressor<Format, Coder, entquant>& codec,
                                     std::span<const device_weights> matrices, std::span<std::byte> block,
                                     std::span<std::byte> workspace, const device_verdict& verdict);

namespace detail {

/// The layout of the memory of compress().
class compression_plan {
 public:
  static result<compression_plan> of(const stream_options& stream, std::span<const device_weights> matrices) {
    if (!stream.class_of_chunk.empty() || stream.shared_counts != nullptr || stream.pairs ||
        stream.goal == stream_goal::cpu || stream.narrow_pairs || stream.trellis) {
      return error(errc::unsupported, "devices encode only single symbols with a single table of their own");
    }
    compression_plan plan;
    for (const device_weights& matrix : matrices) {
      if (matrix.rows != 0 && matrix.columns > max_stream_symbols / matrix.rows) {
        return error(errc::limit_exceeded, "matrix of ", matrix.rows, " x ", matrix.columns,
                     " weights: more than 2^43");
      }
      plan.weights += matrix.size();
      plan.scales += per_channel{}.layout(matrix.rows, matrix.columns).count();
    }
    plan.encoding.chunk_bits =
        stream.chunk_bits != 0 ? stream.chunk_bits : default_chunk_bits(plan.weights, stream.goal);
    plan.encoding.goal = stream.goal;
    ECQ_TRY(capacity, encoded_capacity(std::nullopt, plan.weights, plan.encoding));
    ECQ_TRY(for_encoding, encode_workspace_bytes(std::nullopt, plan.weights, plan.encoding));
    std::vector<device_quantization> quantized;
    for (const device_weights& matrix : matrices) quantized.push_back({matrix, nullptr, nullptr});
    plan.capacity = capacity;
    plan.scratch = (std::max)({for_encoding, quantize_workspace_bytes(quantized), lambda_workspace_bytes(matrices)});
    return plan;
  }

  /// Returns the number of bits that a stream costs on top of the entropy of its codes.
  double overhead_bits() const {
    return 8.0 * static_cast<double>(stream_overhead_bytes(weights, encoding.chunk_bits));
  }

  device_compression_bytes bytes() const {
    workspace_layout kept(nullptr);
    device_packed_block block;
    place(kept, block);
    workspace_layout working(nullptr);
    working.take<std::uint8_t>(weights);
    return {kept.bytes(), working.bytes() + scratch};
  }

  void place(workspace_layout& memory, device_packed_block& block) const {
    block.stream_bytes = memory.take<std::uint64_t>(1);
    block.lambda = memory.take<double>(1);
    block.scales = {memory.take<bf16>(scales), static_cast<std::size_t>(scales)};
    block.stream = {memory.take<std::byte>(capacity), static_cast<std::size_t>(capacity)};
  }

  std::uint64_t weights = 0;
  std::uint64_t scales = 0;
  std::uint64_t capacity = 0;  ///< bytes of the largest possible stream
  std::uint64_t scratch = 0;
  device_stream_options encoding;
};

inline result<void> check_for_device(const entquant& quantizer) {
  if (quantizer.each_matrix) {
    return error(errc::unsupported, "devices find only one lambda for all matrices of a block");
  }
  return quantizer.check();
}

inline result<void> copy_to_host(const cuda& gpu, void* to, const void* from, std::size_t size) {
  return check_cuda(cudaMemcpyAsync(to, from, size, cudaMemcpyDeviceToHost, gpu.stream),
                    "copying a block from the device");
}

inline result<void> check_room(std::span<const std::byte> memory, std::uint64_t bytes, const char* what) {
  if (memory.size() >= bytes && reinterpret_cast<std::uintptr_t>(memory.data()) % 256 == 0) return {};
  return error(errc::invalid_argument, what, " has ", memory.size(), " bytes, not ", bytes,
               ", or is not aligned to 256 bytes");
}

}  // namespace detail

template <symmetric_format Format, device_encoded Coder>
result<device_compression_bytes> compression_bytes(const compressor<Format, Coder, entquant>& codec,
                                                   std::span<const device_weights> matrices) {
  return detail::or_out_of_memory("the list of matrices", [&]() -> result<device_compression_bytes> {
    ECQ_CHECK(detail::check_for_device(codec.quantizer));
    ECQ_TRY(plan, detail::compression_plan::of(codec.stream, matrices));
    return plan.bytes();
  });
}

template <symmetric_format Format, device_encoded Coder>
result<device_packed_block> compress(const cuda& gpu, const compressor<Format, Coder, entquant>& codec,
                                     std::span<const device_weights> matrices, std::span<std::byte> block,
                                     std::span<std::byte> workspace, const device_verdict& verdict) {
  return detail::or_out_of_memory("the list of matrices", [&]() -> result<device_packed_block> {
    ECQ_CHECK(detail::check_for_device(codec.quantizer));
    ECQ_TRY(plan, detail::compression_plan::of(codec.stream, matrices));
    const device_compression_bytes bytes = plan.bytes();
    ECQ_CHECK(detail::check_room(block, bytes.block, "memory for a block"));
    ECQ_CHECK(detail::check_room(workspace, bytes.workspace, "workspace"));

    device_packed_block packed;
    packed.format = code_dtype_of<Format>;
    detail::workspace_layout kept(block.data());
    plan.place(kept, packed);
    detail::workspace_layout working(workspace.data());
    auto* const codes = working.take<std::uint8_t>(plan.weights);
    const std::span<std::byte> scratch = workspace.subspan(static_cast<std::size_t>(working.bytes()));

    std::vector<device_quantization> quantized;
    std::uint64_t symbol = 0;
    std::uint64_t scale = 0;
    for (const device_weights& matrix : matrices) {
      quantized.push_back({matrix, codes + symbol, packed.scales.data() + scale});
      packed_matrix& made = packed.matrices.emplace_back();
      made.shape = {matrix.rows, matrix.columns};
      made.original = matrix.type;
      made.set_format<Format>();
      made.layout = codec.quantizer.layout(matrix.rows, matrix.columns);
      made.first_symbol = symbol;
      symbol += matrix.size();
      scale += made.layout.count();
    }
    const entquant& how = codec.quantizer;
    if (how.target_bits) {
      ECQ_CHECK(lambda_for_bits<Format>(gpu, matrices, *how.target_bits, plan.overhead_bits(), packed.lambda,
                                        scratch.data(), verdict));
      ECQ_CHECK(quantize<Format>(gpu, quantized, packed.lambda, scratch.data(), verdict));
    } else {
      ECQ_CHECK(quantize<Format>(gpu, quantized, *how.lambda, scratch.data(), verdict));
      ECQ_CHECK(detail::launch(gpu, "setting lambda", &detail::set_lambda_kernel, {1, 1}, packed.lambda, *how.lambda));
    }
    const std::span<const std::byte> elements(reinterpret_cast<const std::byte*>(codes),
                                              static_cast<std::size_t>(plan.weights));
    ECQ_CHECK(encode_elements<Coder>(gpu, std::nullopt, elements, plan.encoding, scratch, packed.stream,
                                     packed.stream_bytes, verdict));
    return packed;
  });
}

inline result<std::uint64_t> device_packed_block::fetch_matrices(const cuda& gpu, const device_verdict& verdict,
                                                                 std::vector<packed_matrix>& fetched) const {
  std::uint64_t size = 0;
  std::vector<bf16> all(scales.size());
  ECQ_CHECK(detail::copy_to_host(gpu, &size, stream_bytes, sizeof size));
  ECQ_CHECK(detail::copy_to_host(gpu, all.data(), scales.data(), all.size() * sizeof(bf16)));
  ECQ_CHECK(verdict.wait(gpu));
  if (size > stream.size()) return error(errc::corrupt, "stream of ", size, " bytes is larger than its memory");
  fetched = matrices;
  auto next = all.begin();
  for (packed_matrix& matrix : fetched) {
    const auto end = next + static_cast<std::ptrdiff_t>(matrix.layout.count());
    matrix.scales.assign(next, end);
    next = end;
  }
  return size;
}

inline result<packed_block> device_packed_block::fetch(const cuda& gpu, const device_verdict& verdict) const {
  return detail::or_out_of_memory("a block", [&]() -> result<packed_block> {
    packed_block block;
    ECQ_TRY(size, fetch_matrices(gpu, verdict, block.matrices));
    block.stream.resize(static_cast<std::size_t>(size));
    ECQ_CHECK(detail::copy_to_host(gpu, block.stream.data(), stream.data(), block.stream.size()));
    ECQ_CHECK(detail::check_cuda(cudaStreamSynchronize(gpu.stream), "waiting for the device"));
    return block;
  });
}

inline result<resident_block> device_packed_block::open(const cuda& gpu, const device_verdict& verdict) const {
  return detail::or_out_of_memory("a block", [&]() -> result<resident_block> {
    std::vector<packed_matrix> fetched;
    ECQ_TRY(size, fetch_matrices(gpu, verdict, fetched));
    return resident_block::open(gpu, fetched, stream.first(static_cast<std::size_t>(size)));
  });
}

}  // namespace ecq
