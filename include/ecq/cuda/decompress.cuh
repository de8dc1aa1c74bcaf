#pragma once
/// \file
/// Packed blocks back to weights on a device: all matrices of a block by one launch, into memory of the caller's.

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <new>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ecq/cuda/backend.cuh"
#include "ecq/cuda/decode_kernel.cuh"
#include "ecq/cuda/device_stream.cuh"
#include "ecq/decompress.hpp"
#include "ecq/quantize/dequantize_warp.hpp"
#include "ecq/result.hpp"

namespace ecq {

/// Where a matrix of a block goes in device memory: rows x columns weights, rows `row_stride` elements apart.
struct device_target {
  void* weights = nullptr;
  std::size_t row_stride = 0;
};

/// A block of quantised matrices that lies in device memory, which somebody else owns. Trivially copyable.
struct device_block {
  device_stream stream;
  const warp_matrix* matrices = nullptr;
  const float* values = nullptr;  ///< of the 256 codes; infinity where a code is no finite number
  std::uint32_t count = 0;        ///< of matrices
};

/// A packed block on its way to a device. The block's bytes and matrices must outlive it.
///
///   ECQ_TRY(image, device_block_image::of(block, targets));
///   cudaMalloc(&memory, image.bytes());
///   ECQ_TRY(on_device, image.upload<bf16>(ecq::cuda{queue}, memory));
///   decompress<bf16>(ecq::cuda{queue}, on_device, verdict);            // as often as the weights are wanted
class device_block_image {
 public:
  /// `targets[i]` is where matrix i goes, in device memory, which is not looked at. Errors: those of
  /// block_decoder::open and device_image::of; invalid_argument; unsupported for lossless blocks, whose streams
  /// decode_elements decodes, for matrices of several formats, and for 2^32 rows or columns.
  static result<device_block_image> of(packed_block_view block, std::span<const device_target> targets) {
    try {
      ECQ_TRY(opened, block_decoder::open(block));
      ECQ_TRY(stream, device_image::of(opened.stream()));
      device_block_image image(std::move(stream));
      ECQ_CHECK(image.add(block.matrices, targets));
      return image;
    } catch (const std::bad_alloc&) {
      return error(errc::out_of_memory, "no memory for the matrices of a block");
    }
  }

  /// Bytes of device memory that upload() fills.
  std::uint64_t bytes() const noexcept { return scales_offset() + sizeof(std::uint16_t) * scales_.size() + 2; }

  /// As device_image::upload, for weights of type `Output`.
  template <weight_output Output>
  result<device_block> upload(const cuda& gpu, void* memory) {
    auto* const to = static_cast<std::byte*>(memory);
    for (std::size_t i = 0; i < matrices_.size(); ++i) {
      warp_matrix& matrix = matrices_[i];
      matrix.scales = reinterpret_cast<const std::uint16_t*>(to + scales_offset()) + first_scale_[i];
      matrix.by_four = matrix.first_symbol % 4 == 0 && matrix.columns % 4 == 0 && matrix.columns_per_group % 4 == 0 &&
                       matrix.row_stride % 4 == 0 &&
                       reinterpret_cast<std::uintptr_t>(matrix.out) % (4 * sizeof(Output)) == 0;
    }
    ECQ_TRY(stream, stream_.upload(gpu, memory));
    const auto copy = [&](std::uint64_t offset, std::span<const std::byte> from) {
      return detail::check_cuda(
          cudaMemcpyAsync(to + offset, from.data(), from.size(), cudaMemcpyHostToDevice, gpu.stream),
          "copying a block to the device");
    };
    ECQ_CHECK(copy(values_offset(), std::as_bytes(std::span(values_))));
    ECQ_CHECK(copy(matrices_offset(), std::as_bytes(std::span(matrices_))));
    ECQ_CHECK(copy(scales_offset(), std::as_bytes(std::span(scales_))));
    return device_block{.stream = stream,
                        .matrices = reinterpret_cast<const warp_matrix*>(to + matrices_offset()),
                        .values = reinterpret_cast<const float*>(to + values_offset()),
                        .count = static_cast<std::uint32_t>(matrices_.size())};
  }

 private:
  explicit device_block_image(device_image stream) : stream_(std::move(stream)) {}

  result<void> add(std::span<const packed_matrix> matrices, std::span<const device_target> targets) {
    if (targets.size() != matrices.size()) {
      return error(errc::invalid_argument, "places for " + std::to_string(targets.size()) + " matrices of a block of " +
                                               std::to_string(matrices.size()));
    }
    for (std::size_t i = 0; i < matrices.size(); ++i) {
      const packed_matrix& from = matrices[i];
      const auto bad = [&](errc code, const std::string& why) {
        return error(code, "matrix " + std::to_string(i) + " '" + from.name + "': " + why);
      };
      const group_layout& layout = from.layout;
      if (from.lossless()) return bad(errc::unsupported, "lossless");
      if (from.format != matrices[0].format) return bad(errc::unsupported, "another format than the first matrix's");
      constexpr std::size_t most = (std::numeric_limits<std::uint32_t>::max)();
      if (layout.rows > most || layout.columns > most) return bad(errc::unsupported, "2^32 rows or columns");
      if (layout.rows == 0 || layout.columns == 0) continue;
      if (targets[i].weights == nullptr || targets[i].row_stride < layout.columns) {
        return bad(errc::invalid_argument, "no place, or rows that are too short");
      }
      first_scale_.push_back(scales_.size());
      for (const bf16 scale : from.scales) scales_.push_back(scale.bits);
      matrices_.push_back({.first_symbol = from.first_symbol,
                           .rows = static_cast<std::uint32_t>(layout.rows),
                           .columns = static_cast<std::uint32_t>(layout.columns),
                           .rows_per_group = static_cast<std::uint32_t>((std::min)(layout.rows_per_group, most)),
                           .columns_per_group = static_cast<std::uint32_t>((std::min)(layout.columns_per_group, most)),
                           .groups_across = static_cast<std::uint32_t>(layout.groups_across()),
                           .zero = from.zero,
                           .affine = is_affine(from.format),
                           .scales = nullptr,
                           .out = static_cast<std::byte*>(targets[i].weights),
                           .row_stride = targets[i].row_stride,
                           .by_four = false});
    }
    order();
    if (matrices.empty()) return {};
    visit_code_format(matrices[0].format, [&]<class Format>() {
      for (unsigned code = 0; code < 256; ++code) {
        const auto byte = static_cast<std::uint8_t>(code);
        values_[code] = Format::is_finite(byte) ? Format::decode(byte) : std::numeric_limits<float>::infinity();
      }
    });
    return {};
  }

  /// Kernels search matrices by their symbols.
  void order() {
    std::vector<std::size_t> by_symbol(matrices_.size());
    for (std::size_t i = 0; i < by_symbol.size(); ++i) by_symbol[i] = i;
    std::sort(by_symbol.begin(), by_symbol.end(),
              [&](std::size_t a, std::size_t b) { return matrices_[a].first_symbol < matrices_[b].first_symbol; });
    std::vector<warp_matrix> matrices;
    std::vector<std::size_t> first_scale;
    for (const std::size_t i : by_symbol) {
      matrices.push_back(matrices_[i]);
      first_scale.push_back(first_scale_[i]);
    }
    matrices_ = std::move(matrices);
    first_scale_ = std::move(first_scale);
  }

  static std::uint64_t aligned(std::uint64_t offset) { return (offset + 255) / 256 * 256; }
  std::uint64_t values_offset() const { return aligned(stream_.bytes()); }
  std::uint64_t matrices_offset() const { return values_offset() + sizeof values_; }
  std::uint64_t scales_offset() const { return aligned(matrices_offset() + sizeof(warp_matrix) * matrices_.size()); }

  device_image stream_;
  float values_[256] = {};
  std::vector<warp_matrix> matrices_;
  std::vector<std::size_t> first_scale_;  ///< of each matrix, in scales_
  std::vector<std::uint16_t> scales_;
};

namespace detail {

/// The weights of a block to the places of its matrices: a chunk_user.
template <weight_output Output>
struct weights_to {
  static constexpr std::size_t shared_bytes = 256 * sizeof(float);
  static constexpr unsigned blocks = 4;

  const warp_matrix* matrices;
  std::uint32_t count;
  const float* values;

  __device__ void load(std::byte* shared) {
    copy_to_shared(reinterpret_cast<std::uint32_t*>(shared), reinterpret_cast<const std::uint32_t*>(values), 256);
    values = reinterpret_cast<const float*>(shared);
  }

  template <class Decode>
  __device__ errc operator()(const stream_chunk& chunk, Decode&& decode) const {
    warp_weight_sink<device_warp, Output> sink(matrices, count, values, chunk.begin, chunk.raw, chunk.raw_bits, true);
    const errc outcome = decode(sink);
    return sink.met_non_finite() ? errc::corrupt : outcome;
  }
};

}  // namespace detail

/// All weights of a block to where its image said, in order of gpu.stream. What is wrong with the block's bytes, a code
/// that is no finite number included, `verdict` tells. Errors: device_error, unsupported.
template <weight_output Output>
result<void> decompress(const cuda& gpu, const device_block& block, const device_verdict& verdict) {
  return detail::launch_decode(gpu, block.stream, {0, block.stream.view.chunks},
                               detail::weights_to<Output>{block.matrices, block.count, block.values}, verdict);
}

}  // namespace ecq
