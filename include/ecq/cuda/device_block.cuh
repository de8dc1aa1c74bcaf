#pragma once
/// \file
/// Blocks in device memory, and their upload.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "ecq/base/out_of_memory.hpp"
#include "ecq/base/result.hpp"
#include "ecq/cuda/backend.cuh"
#include "ecq/cuda/device_stream.cuh"
#include "ecq/cuda/resident_stream.cuh"
#include "ecq/cuda/rows_kernel.cuh"
#include "ecq/cuda/warp_block.hpp"
#include "ecq/decompress.hpp"
#include "ecq/format/exact_weight.hpp"
#include "ecq/packed_check.hpp"
#include "ecq/quantize/dequantize_warp.hpp"

namespace ecq {

/// A block in device memory, or rows of one of its matrices. It does not own the memory. Trivially copyable.
struct device_block {
  device_stream stream;
  const warp_matrix* matrices = nullptr;
  const float* values = nullptr;
  const std::uint16_t* scales = nullptr;
  std::uint32_t count = 0;     ///< number of matrices
  bool finite = false;         ///< as in warp_weights
  std::uint64_t elements = 0;  ///< number of elements of the buffer for the weights
  std::uint64_t begin = 0;     ///< symbols begin, ..., end - 1 of the stream are decoded
  std::uint64_t end = 0;
  bool lossless = false;                ///< the stream's elements are the weights, in order; there are no matrices
  std::uint64_t first = 0;              ///< lossless: element of the buffer that receives symbol `begin`
  const exact_weight* exact = nullptr;  ///< replace decoded weights; positions are elements of a buffer
  std::uint64_t exact_count = 0;
  std::uint64_t exact_origin = 0;  ///< position (as in exact_weight) of element 0 of the buffer

  /// Returns the number of bytes of the buffer for weights of type `Output`.
  template <class Output>
  std::uint64_t bytes() const noexcept {
    return elements * sizeof(Output);
  }
};

namespace detail {

/// Image of a block, to be uploaded to a device. `Stream` is the type of its stream, with bytes() and upload().
template <class Stream>
class block_image {
 public:
  /// Returns the place of each matrix of the block.
  std::span<const matrix_place> places() const noexcept { return places_; }

  /// Returns the number of bytes of device memory that upload() fills.
  std::uint64_t bytes() const noexcept { return exact_offset() + sizeof(exact_weight) * exact_.size() + 2; }

  /// Copies the block to `memory`, bytes() bytes of device memory, on gpu.stream. Alignment, lifetimes, waiting and
  /// errors are those of device_image::upload.
  result<device_block> upload(const cuda& gpu, void* memory) const {
    auto* const to = static_cast<std::byte*>(memory);
    ECQ_TRY(stream, stream_.upload(gpu, memory));
    const auto copy = [&](std::uint64_t offset, std::span<const std::byte> from) {
      return copy_to_device(gpu, to + offset, from, "copying a block to the device");
    };
    ECQ_CHECK(copy(values_offset(), std::as_bytes(std::span(block_.values))));
    ECQ_CHECK(copy(matrices_offset(), std::as_bytes(std::span(block_.matrices))));
    ECQ_CHECK(copy(scales_offset(), std::as_bytes(std::span(block_.scales))));
    ECQ_CHECK(copy(exact_offset(), std::as_bytes(std::span(exact_))));
    return device_block{.stream = stream,
                        .matrices = reinterpret_cast<const warp_matrix*>(to + matrices_offset()),
                        .values = reinterpret_cast<const float*>(to + values_offset()),
                        .scales = reinterpret_cast<const std::uint16_t*>(to + scales_offset()),
                        .count = static_cast<std::uint32_t>(block_.matrices.size()),
                        .finite = finite_,
                        .elements = elements_,
                        .end = stream.view.elements,
                        .lossless = lossless_,
                        .first = first_,
                        .exact = reinterpret_cast<const exact_weight*>(to + exact_offset()),
                        .exact_count = exact_.size()};
  }

  /// Number of bytes of device memory that upload_rows() fills.
  static constexpr std::uint64_t rows_bytes = sizeof(warp_rows::pieces);

  /// Returns a block of rows first, ..., first + rows - 1 of matrix `index` of `whole`, which upload() returned.
  /// decompress() decodes these rows into a buffer that begins with the first of them; rows begin as far apart as
  /// places()[index] says. In a stack of matrices, such as experts, a row is a whole matrix. A description of the rows
  /// goes to `memory`, rows_bytes bytes of device memory, aligned to 16 bytes, on gpu.stream; lossless rows need none,
  /// so `memory` may be null for them. Errors: invalid_argument for rows that the matrix does not have, for memory that
  /// is not aligned and, as far as sizes tell, for a block of another image; device_error.
  result<device_block> upload_rows(const cuda& gpu, const device_block& whole, std::size_t index, std::uint64_t first,
                                   std::uint64_t rows, void* memory) const {
    if (index >= extents_.size()) {
      return error(errc::invalid_argument, "matrix ", index, " does not exist in a block of ", extents_.size());
    }
    const extent& matrix = extents_[index];
    if (first > matrix.rows || rows > matrix.rows - first) {
      return error(errc::invalid_argument, "rows ", first, " + ", rows, " exceed matrix ", index, ", which has ",
                   matrix.rows);
    }
    if (whole.begin != 0 || whole.count != block_.matrices.size() || whole.elements != elements_ ||
        whole.exact_count != exact_.size()) {
      return error(errc::invalid_argument, "the device block does not belong to this image");
    }
    device_block found = whole;
    found.begin = matrix.first_symbol + first * matrix.columns;
    found.end = found.begin + rows * matrix.columns;
    found.first = 0;
    const auto& [offset, stride] = places_[index];
    found.elements = found.begin == found.end ? 0 : (rows - 1) * stride + matrix.columns;
    if (lossless_ || found.elements == 0) return found;

    const auto is_it = [&](const warp_matrix& other) { return other.first_symbol == matrix.first_symbol; };
    const warp_rows pieces = rows_of(*std::ranges::find_if(block_.matrices, is_it), static_cast<std::uint32_t>(first),
                                     static_cast<std::uint32_t>(rows));
    auto* const to = static_cast<warp_matrix*>(memory);
    ECQ_CHECK(launch_rows(gpu, pieces, to));
    found.matrices = to;
    found.count = pieces.count;

    const std::uint64_t origin = offset + first * stride;
    const auto own = std::span(exact_).subspan(matrix.first_exact, matrix.exact_count);
    const auto exact = exact_weights_in(own, origin, origin + found.elements);
    found.exact = whole.exact + (exact.data() - exact_.data());
    found.exact_count = exact.size();
    found.exact_origin = origin;
    return found;
  }

 protected:
  /// Makes an image of `matrices`, which have been checked against the stream and its number of `symbols`. Without
  /// places, matrices go to dense_places(), and lossless ones to the places that their elements have in the stream.
  static result<block_image> make(Stream stream, std::uint64_t symbols, std::span<const packed_matrix> matrices,
                                  std::optional<std::span<const matrix_place>> places) {
    const bool lossless = !matrices.empty() && matrices.front().codes_exponents();
    block_image image(std::move(stream));
    image.places_ = places     ? std::vector<matrix_place>(places->begin(), places->end())
                    : lossless ? stream_places(matrices)
                               : dense_places(matrices);
    ECQ_TRY(elements, elements_at(matrices, image.places_));
    image.elements_ = elements;
    for (const packed_matrix& matrix : matrices) {
      image.extents_.push_back({.first_symbol = matrix.first_symbol,
                                .rows = matrix.layout.rows,
                                .columns = matrix.layout.columns,
                                .first_exact = image.exact_.size(),
                                .exact_count = matrix.exact.size()});
      const auto& [offset, stride] = image.places_[image.extents_.size() - 1];
      for (const auto& [position, weight] : matrix.exact) {
        const std::uint64_t columns = matrix.layout.columns;
        image.exact_.push_back({offset + position / columns * stride + position % columns, weight});
      }
    }
    if (lossless) {
      ECQ_TRY(first, shift_of(matrices, image.places_));
      image.lossless_ = true;
      image.first_ = first;
      image.elements_ = first + symbols;
      return image;
    }
    ECQ_TRY(block, warp_block::of(matrices, image.places_));
    image.block_ = std::move(block);
    image.finite_ = image.block_.finite(image.stream_.symbols());
    return image;
  }

  static error no_memory() { return error(errc::out_of_memory, "no memory for the matrices of a block"); }

 private:
  struct extent {
    std::uint64_t first_symbol = 0;
    std::uint64_t rows = 0;
    std::uint64_t columns = 0;
    std::size_t first_exact = 0;  ///< index in exact_
    std::size_t exact_count = 0;
  };

  explicit block_image(Stream stream) : stream_(std::move(stream)) {}

  static std::vector<matrix_place> stream_places(std::span<const packed_matrix> matrices) {
    std::vector<matrix_place> places;
    for (const packed_matrix& matrix : matrices) places.push_back({matrix.first_symbol, matrix.layout.columns});
    return places;
  }

  /// Returns the number of elements by which all places lie after those in the stream; precondition: elements_at() has
  /// checked the places.
  static result<std::uint64_t> shift_of(std::span<const packed_matrix> matrices, std::span<const matrix_place> places) {
    const std::uint64_t shift = places.front().offset - matrices.front().first_symbol;
    for (std::size_t i = 0; i < matrices.size(); ++i) {
      const auto& [offset, stride] = places[i];
      const std::uint64_t symbol = matrices[i].first_symbol;
      if (offset >= symbol && offset - symbol == shift && stride == matrices[i].layout.columns) continue;
      return error(errc::unsupported, "lossless matrix ", i, " '", matrices[i].name,
                   "' is not placed as in the stream");
    }
    return shift;
  }

  std::uint64_t values_offset() const { return aligned_on_device(stream_.bytes()); }
  std::uint64_t matrices_offset() const { return values_offset() + sizeof block_.values; }
  std::uint64_t scales_offset() const {
    return aligned_on_device(matrices_offset() + sizeof(warp_matrix) * block_.matrices.size());
  }

  std::uint64_t exact_offset() const {
    return aligned_on_device(scales_offset() + sizeof(std::uint16_t) * block_.scales.size());
  }

  Stream stream_;
  warp_block block_;
  std::vector<extent> extents_;  ///< one per matrix, in order
  std::vector<exact_weight> exact_;
  std::vector<matrix_place> places_;
  std::uint64_t elements_ = 0;
  bool finite_ = false;
  bool lossless_ = false;
  std::uint64_t first_ = 0;
};

}  // namespace detail

/// Image of a packed block, to be uploaded to a device. The block's stream must outlive it.
///
///   ECQ_TRY(image, device_block_image::of(block));
///   cudaMalloc(&memory, image.bytes());
///   ECQ_TRY(on_device, image.upload(ecq::cuda{queue}, memory));
///   // as often as the weights are wanted, into any buffer of on_device.bytes<bf16>() bytes:
///   ECQ_CHECK(decompress<bf16>(ecq::cuda{queue}, on_device, out, verdict));
///   // matrix i then begins at element image.places()[i].offset of it
///   // or rows of matrix i alone, into a buffer of some.bytes<bf16>() bytes:
///   ECQ_TRY(some, image.upload_rows(ecq::cuda{queue}, on_device, i, first, rows, rows_memory));
///   ECQ_CHECK(decompress<bf16>(ecq::cuda{queue}, some, out, verdict));
class device_block_image : public detail::block_image<device_image> {
 public:
  /// Makes an image with matrix i at places[i]; places must not overlap. Without places, matrices go to dense_places(),
  /// and lossless ones to the places that their elements have in the stream. Errors: those of block_decoder::open,
  /// device_image::of and warp_block::of, and invalid_argument as for elements_at; unsupported for lossless matrices at
  /// places that differ from those in the stream by more than a common offset.
  static result<device_block_image> of(packed_block_view block,
                                       std::optional<std::span<const matrix_place>> places = std::nullopt) {
    return detail::or_out_of_memory(no_memory, [&]() -> result<device_block_image> {
      ECQ_TRY(opened, block_decoder::open(block));
      ECQ_TRY(stream, device_image::of(opened.stream()));
      ECQ_TRY(image, make(std::move(stream), opened.stream().size(), block.matrices, places));
      return device_block_image(std::move(image));
    });
  }

 private:
  explicit device_block_image(block_image image) : block_image(std::move(image)) {}
};

/// Image of a packed block whose stream already lies in device memory (encoded there, or read by the device).
class resident_block : public detail::block_image<resident_stream> {
 public:
  /// Opens a block. `matrices` are on the host; `stream` is as for resident_stream::open, which waits for gpu.stream.
  /// Errors: those of resident_stream::open and device_block_image::of.
  static result<resident_block> open(const cuda& gpu, std::span<const packed_matrix> matrices,
                                     std::span<const std::byte> stream,
                                     std::optional<std::span<const matrix_place>> places = std::nullopt) {
    return detail::or_out_of_memory(no_memory, [&]() -> result<resident_block> {
      ECQ_TRY(opened, resident_stream::open(gpu, stream));
      ECQ_CHECK(check_matrices(matrices, opened.header().symbols, opened.header().format));
      const std::uint64_t symbols = opened.header().symbols;
      ECQ_TRY(image, make(std::move(opened), symbols, matrices, places));
      return resident_block(std::move(image));
    });
  }

 private:
  explicit resident_block(block_image image) : block_image(std::move(image)) {}
};

}  // namespace ecq
