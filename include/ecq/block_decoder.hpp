#pragma once
/// \file
/// Decoder of packed matrices: to weights, as a whole or by row range, or to codes. decompress.hpp adds all coders. A
/// program that includes this header instead names its coders and compiles no others:
///
///   // includes ecq/block_decoder.hpp and ecq/entropy/rans/rans.hpp
///   ecq::decompress(ecq::cpu{}, packed, out, ecq::coders<ecq::rans>);

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "ecq/base/backend.hpp"
#include "ecq/base/config.hpp"
#include "ecq/base/matrix_view.hpp"
#include "ecq/base/result.hpp"
#include "ecq/format/dtype.hpp"
#include "ecq/format/number_format.hpp"
#include "ecq/packed.hpp"
#include "ecq/stream/coder_set.hpp"
#include "ecq/stream/stream_view.hpp"

namespace ecq {

/// Element types to which weights are decoded.
template <class Element>
concept weight_output =
    std::is_same_v<Element, float> || std::is_same_v<Element, bf16> || std::is_same_v<Element, fp16>;

/// A block opened for decoding. Opening it parses the stream and checks the matrices against it once; after that, any
/// matrix, row range or chunk can be decoded on its own. The bytes of the stream and the matrices must outlive the
/// decoder.
class block_decoder {
 public:
  /// Opens a block. Errors: errc::corrupt if matrices and stream do not fit together, and those of
  /// encoded_stream::parse.
  static result<block_decoder> open(packed_block_view block, coder_set accepted);
  template <class Every = every_coder>
  static result<block_decoder> open(packed_block_view block) {
    return open(block, Every());
  }
  /// Deleted: a temporary block would be destroyed before its decoder.
  template <class... More>
  static result<block_decoder> open(const packed_block&&, const More&...) = delete;

  std::span<const packed_matrix> matrices() const noexcept { return matrices_; }
  const encoded_stream& stream() const noexcept { return stream_; }

  /// Decodes the weights of the rows from `first_row` on into `out` (out.rows() x out.columns(), any strides), rounded
  /// as by nearest_finite if `Element` is narrower than FP32. Infinities and NaN of lossless weights stay. A wrong
  /// checksum, or a code that is not a finite number, is an error; `out` then holds unspecified values.
  template <weight_output Element>
  result<void> decode(const cpu& backend, std::size_t matrix, std::size_t first_row, matrix_view<Element> out) const {
    const segment<Element> whole{this, matrix, first_row, out};
    return decode(backend, std::span<const segment<Element>>(&whole, 1));
  }

  /// Rows of a matrix from `first_row` on, and the destination of their weights.
  template <weight_output Element>
  struct segment {
    const block_decoder* block = nullptr;
    std::size_t matrix = 0;
    std::size_t first_row = 0;
    matrix_view<Element> out;
  };

  /// Decodes segments of any blocks side by side, each like decode() of one matrix. Their chunks form one queue, from
  /// which each thread takes the next few when it has finished its last ones, so the load is balanced however much the
  /// segments differ. If chunks fail, the error is that of the first one in the queue.
  template <weight_output Element>
  static result<void> decode(const cpu& backend, std::span<const segment<Element>> segments);

  /// Decodes the codes of `rows` rows from `first_row` on, row-major, in the machine's byte order. For a lossless
  /// matrix, these are the bits of its weights. Exact weights have codes, too, but these carry no meaning. out.size()
  /// must be rows x columns x bytes of a code.
  result<void> decode_codes(const cpu& backend, std::size_t matrix, std::size_t first_row, std::size_t rows,
                            std::span<std::byte> out) const;
  result<void> decode_codes(const cpu& backend, std::size_t matrix, std::size_t first_row, std::size_t rows,
                            std::span<std::uint8_t> out) const {
    return decode_codes(backend, matrix, first_row, rows, std::as_writable_bytes(out));
  }

 private:
  block_decoder(std::span<const packed_matrix> matrices, encoded_stream stream)
      : matrices_(matrices), stream_(std::move(stream)) {}

  result<void> check_range(std::size_t matrix, std::size_t first_row, std::size_t rows, std::size_t columns) const;

  /// Chunks that hold some rows of a matrix, divided into runs of a few chunks: the tasks of decode().
  struct chunk_runs {
    std::uint64_t first = 0;  ///< first element in the stream; `end` is one past the last
    std::uint64_t end = 0;
    std::uint64_t elements = 1;  ///< elements in the chunks of a run
    std::size_t count = 0;

    std::uint64_t begin_of(std::size_t run) const noexcept {
      return (std::max)(first, (first / elements + run) * elements);
    }
    std::uint64_t end_of(std::size_t run) const noexcept {
      return (std::min)(end, (first / elements + run + 1) * elements);
    }
  };

  chunk_runs runs_of(const cpu& backend, std::size_t matrix, std::size_t first_row, std::size_t rows) const;

  template <weight_output Element>
  result<void> decode_run(const cpu& backend, const segment<Element>& to, const chunk_runs& runs,
                          std::size_t run) const;

  /// Writes the weights of a lossless matrix, converted to Element if it is another type.
  template <weight_output Element>
  static void convert(dtype format, std::uint64_t first_element, std::span<const std::byte> elements,
                      matrix_view<Element> out);
  /// Writes the exact weights among `elements` elements from `first_element` on, counted from row `first_row`, to their
  /// places in `out`.
  template <weight_output Element>
  static void put_exact(const packed_matrix& source, std::size_t first_row, std::uint64_t first_element,
                        std::size_t elements, matrix_view<Element> out);
  template <weight_output Element>
  static result<void> dequantize(instruction_set isa, const packed_matrix& source, std::size_t first_row,
                                 std::uint64_t first_element, std::span<const std::byte> codes,
                                 matrix_view<Element> out);

  std::span<const packed_matrix> matrices_;
  encoded_stream stream_;
};

/// Fails with errc::invalid_argument unless a block has exactly one matrix.
inline result<void> check_single(packed_block_view block) {
  if (block.matrices.size() == 1) return {};
  return error(errc::invalid_argument, "block has ", block.matrices.size(),
               " matrices, not 1; choose one by its index");
}

/// Decodes matrix `matrix` of a block into `out`: a matrix_view of float, bf16 or fp16, or anything that converts to
/// one (an Eigen matrix, a std::span for one row), of the matrix's shape. See block_decoder::decode for errors; use a
/// block_decoder to decode several matrices or parts of them.
template <class Output, class Every = every_coder>
  requires weight_output<typename decltype(matrix_view(std::declval<Output&>()))::element_type>
result<void> decompress(const cpu& backend, packed_block_view block, std::size_t matrix, Output&& out,
                        coder_set accepted = Every()) {
  ECQ_TRY(decoder, block_decoder::open(block, accepted));
  return decoder.decode(backend, matrix, 0, matrix_view(out));
}

/// Decodes the only matrix of a block into `out`. Fails with errc::invalid_argument unless the block has exactly one.
template <class Output, class Every = every_coder>
  requires weight_output<typename decltype(matrix_view(std::declval<Output&>()))::element_type>
result<void> decompress(const cpu& backend, packed_block_view block, Output&& out, coder_set accepted = Every()) {
  ECQ_CHECK(check_single(block));
  return decompress(backend, block, 0, out, accepted);
}

}  // namespace ecq

#if ECQ_HEADER_ONLY
#include "ecq/block_decoder-inl.hpp"
#endif
