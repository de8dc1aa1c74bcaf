#pragma once
/// \file
/// Packed blocks back to weights on a device: all matrices of a block by one launch, into memory of the caller's.

#include <cstddef>
#include <cstdint>
#include <new>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "ecq/cuda/backend.cuh"
#include "ecq/cuda/decode.cuh"
#include "ecq/cuda/decode_kernel.cuh"
#include "ecq/cuda/device_stream.cuh"
#include "ecq/cuda/verdict.cuh"
#include "ecq/decompress.hpp"
#include "ecq/quantize/dequantize_warp.hpp"
#include "ecq/quantize/warp_block.hpp"
#include "ecq/result.hpp"
#include "ecq/stream/pair_warp.hpp"

namespace ecq {

/// A block that lies in device memory, which somebody else owns. Trivially copyable.
struct device_block {
  device_stream stream;
  const warp_matrix* matrices = nullptr;
  const float* values = nullptr;
  const std::uint16_t* scales = nullptr;
  std::uint32_t count = 0;     ///< of matrices
  std::uint64_t elements = 0;  ///< that the buffer of all matrices has
  bool lossless = false;       ///< there are no matrices here: the stream's elements are the weights, and lie in order
  std::uint64_t first = 0;     ///< of lossless blocks: element of the buffer where the stream's first one goes

  /// Bytes of the buffer for weights of type `Output`.
  template <class Output>
  std::uint64_t bytes() const noexcept {
    return elements * sizeof(Output);
  }
};

/// A packed block on its way to a device. The block's stream must outlive it.
///
///   ECQ_TRY(image, device_block_image::of(block));
///   cudaMalloc(&memory, image.bytes());
///   ECQ_TRY(on_device, image.upload(ecq::cuda{queue}, memory));
///   // as often as the weights are wanted, into any buffer of on_device.bytes<bf16>() bytes:
///   ECQ_CHECK(decompress<bf16>(ecq::cuda{queue}, on_device, out, verdict));
///   // matrix i then begins at element image.places()[i].offset of it
class device_block_image {
 public:
  /// Matrices at dense_places, lossless ones at the places that their elements have in the stream. Errors: those of
  /// block_decoder::open, device_image::of and warp_block::of.
  static result<device_block_image> of(packed_block_view block) {
    try {
      ECQ_TRY(opened, block_decoder::open(block));
      return make(opened, is_lossless(block.matrices) ? stream_places(block.matrices) : dense_places(block.matrices));
    } catch (const std::bad_alloc&) {
      return no_memory();
    }
  }

  /// Matrix i at places[i], which must not overlap. Errors: as above, and invalid_argument as elements_at; unsupported
  /// for lossless matrices that are to lie other than in the stream, but for where the first one begins.
  static result<device_block_image> of(packed_block_view block, std::span<const matrix_place> places) {
    try {
      ECQ_TRY(opened, block_decoder::open(block));
      return make(opened, {places.begin(), places.end()});
    } catch (const std::bad_alloc&) {
      return no_memory();
    }
  }

  /// Where each matrix of the block goes.
  std::span<const matrix_place> places() const noexcept { return places_; }

  /// Bytes of device memory that upload() fills.
  std::uint64_t bytes() const noexcept { return scales_offset() + sizeof(std::uint16_t) * block_.scales.size() + 2; }

  /// As device_image::upload.
  result<device_block> upload(const cuda& gpu, void* memory) const {
    auto* const to = static_cast<std::byte*>(memory);
    ECQ_TRY(stream, stream_.upload(gpu, memory));
    const auto copy = [&](std::uint64_t offset, std::span<const std::byte> from) {
      return detail::copy_to_device(gpu, to + offset, from, "copying a block to the device");
    };
    ECQ_CHECK(copy(values_offset(), std::as_bytes(std::span(block_.values))));
    ECQ_CHECK(copy(matrices_offset(), std::as_bytes(std::span(block_.matrices))));
    ECQ_CHECK(copy(scales_offset(), std::as_bytes(std::span(block_.scales))));
    return device_block{.stream = stream,
                        .matrices = reinterpret_cast<const warp_matrix*>(to + matrices_offset()),
                        .values = reinterpret_cast<const float*>(to + values_offset()),
                        .scales = reinterpret_cast<const std::uint16_t*>(to + scales_offset()),
                        .count = static_cast<std::uint32_t>(block_.matrices.size()),
                        .elements = elements_,
                        .lossless = lossless_,
                        .first = first_};
  }

 private:
  device_block_image(device_image stream, warp_block block, std::vector<matrix_place> places, std::uint64_t elements)
      : stream_(std::move(stream)), block_(std::move(block)), places_(std::move(places)), elements_(elements) {}

  static error no_memory() { return error(errc::out_of_memory, "no memory for the matrices of a block"); }

  static result<device_block_image> make(const block_decoder& opened, std::vector<matrix_place> places) {
    ECQ_TRY(elements, elements_at(opened.matrices(), places));
    ECQ_TRY(stream, device_image::of(opened.stream()));
    if (is_lossless(opened.matrices())) {
      ECQ_TRY(first, shift_of(opened.matrices(), places));
      device_block_image image(std::move(stream), {}, std::move(places), first + opened.stream().size());
      image.lossless_ = true;
      image.first_ = first;
      return image;
    }
    ECQ_TRY(block, warp_block::of(opened.matrices(), places));
    return device_block_image(std::move(stream), std::move(block), std::move(places), elements);
  }

  static bool is_lossless(std::span<const packed_matrix> matrices) {
    return !matrices.empty() && matrices.front().lossless();
  }

  static std::vector<matrix_place> stream_places(std::span<const packed_matrix> matrices) {
    std::vector<matrix_place> places;
    for (const packed_matrix& matrix : matrices) places.push_back({matrix.first_symbol, matrix.layout.columns});
    return places;
  }

  /// By how much all places lie behind those in the stream, which elements_at has checked.
  static result<std::uint64_t> shift_of(std::span<const packed_matrix> matrices, std::span<const matrix_place> places) {
    const std::uint64_t shift = places.front().offset - matrices.front().first_symbol;
    for (std::size_t i = 0; i < matrices.size(); ++i) {
      const auto& [offset, stride] = places[i];
      const std::uint64_t symbol = matrices[i].first_symbol;
      if (offset >= symbol && offset - symbol == shift && stride == matrices[i].layout.columns) continue;
      return error(errc::unsupported, "lossless matrix " + std::to_string(i) + " '" + matrices[i].name +
                                          "' elsewhere than the stream has it");
    }
    return shift;
  }

  std::uint64_t values_offset() const { return detail::aligned_on_device(stream_.bytes()); }
  std::uint64_t matrices_offset() const { return values_offset() + sizeof block_.values; }
  std::uint64_t scales_offset() const {
    return detail::aligned_on_device(matrices_offset() + sizeof(warp_matrix) * block_.matrices.size());
  }

  device_image stream_;
  warp_block block_;
  std::vector<matrix_place> places_;
  std::uint64_t elements_;
  bool lossless_ = false;
  std::uint64_t first_ = 0;
};

/// Element types that devices decode the weights of a block to: those of lossless blocks alone among them.
template <class Element>
concept device_output =
    weight_output<Element> || std::is_same_v<Element, fp8_e4m3> || std::is_same_v<Element, fp8_e5m2>;

namespace detail {

/// The weights of a block, with `Pairs` of a stream in pairs, to the places of its matrices: a chunk_user.
template <weight_output Output, bool Pairs>
struct weights_to {
  static constexpr bool pairs = Pairs;
  static constexpr std::size_t shared_bytes = 256 * sizeof(float);
  static constexpr unsigned blocks = Pairs ? 3 : 4;

  warp_weights weights;

  __device__ void load(std::byte* shared) {
    copy_to_shared(reinterpret_cast<std::uint32_t*>(shared), reinterpret_cast<const std::uint32_t*>(weights.values),
                   256);
    weights.values = reinterpret_cast<const float*>(shared);
  }

  template <class Decode>
  __device__ errc operator()(const stream_chunk& chunk, Decode&& decode) const {
    warp_weight_sink<device_warp, Output> sink(weights, chunk.begin, chunk.raw, chunk.raw_bits);
    errc outcome = errc::ok;
    if constexpr (Pairs) {
      warp_pair_codes<device_warp, decltype(sink)> codes(chunk.pairs, sink);
      outcome = decode(codes);
      if (codes.verdict() != errc::ok) outcome = errc::corrupt;
    } else {
      outcome = decode(sink);
    }
    return sink.met_non_finite() ? errc::corrupt : outcome;
  }
};

}  // namespace detail

/// All weights of a block into `out`, device memory aligned to 16 bytes, with block.bytes<Output>() bytes at least, in
/// order of gpu.stream; what lies between the matrices stays as it is. What is wrong with the block's bytes, a code
/// that is no finite number included, `verdict` tells. Errors: invalid_argument, device_error; unsupported where the
/// weights of a lossless block have another format than `Output`, and for quantised weights as FP8.
template <device_output Output>
result<void> decompress(const cuda& gpu, const device_block& block, std::span<std::byte> out,
                        const device_verdict& verdict) {
  if (out.size() < block.template bytes<Output>()) {
    return error(errc::invalid_argument, std::to_string(out.size()) + " bytes for weights of " +
                                             std::to_string(block.template bytes<Output>()));
  }
  ECQ_CHECK(detail::check_aligned(out.data(), 16, "the output"));
  if (block.lossless) {
    if (block.stream.format != dtype_of<Output>) {
      return error(errc::unsupported, "lossless weights in another format than their own");
    }
    const std::uint64_t begin = block.first * sizeof(Output);
    return decode_elements(gpu, block.stream, 0, out.subspan(begin, block.stream.view.elements * sizeof(Output)),
                           verdict);
  }
  if constexpr (weight_output<Output>) {
    const warp_weights weights = {block.matrices, block.count, block.values, block.scales, out.data()};
    const chunk_range all = {0, block.stream.view.chunks};
    if (block.stream.view.pairs != 0) {
      return detail::launch_decode(gpu, block.stream, all, detail::weights_to<Output, true>{weights}, verdict);
    }
    return detail::launch_decode(gpu, block.stream, all, detail::weights_to<Output, false>{weights}, verdict);
  } else {
    return error(errc::unsupported, "quantised weights as FP8");
  }
}

}  // namespace ecq
