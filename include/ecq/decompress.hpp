#pragma once
/// \file
/// Packed matrices back to weights: whole, by row range, or as codes.

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "ecq/base/backend.hpp"
#include "ecq/base/config.hpp"
#include "ecq/base/matrix_view.hpp"
#include "ecq/base/result.hpp"
#include "ecq/format/dtype.hpp"
#include "ecq/format/number_format.hpp"
#include "ecq/packed.hpp"
#include "ecq/stream/encoded_stream.hpp"

namespace ecq {

/// Element types that weights are decoded to.
template <class Element>
concept weight_output =
    std::is_same_v<Element, float> || std::is_same_v<Element, bf16> || std::is_same_v<Element, fp16>;

/// A block opened for decoding: its stream parsed and its matrices checked against it once, so that any matrix, row
/// range or chunk decodes alone afterwards. The bytes of the stream and the matrices must outlive it.
class block_decoder {
 public:
  /// errc::corrupt or what encoded_stream::parse returns if matrices and stream do not fit together.
  static result<block_decoder> open(packed_block_view block) {
    ECQ_TRY(stream, encoded_stream::parse(block.stream));
    ECQ_CHECK(check(block.matrices, stream.header()));
    return block_decoder(block.matrices, std::move(stream));
  }

  /// errc::corrupt unless `matrices` fit the stream whose header is `header`, as open() checks.
  static result<void> check(std::span<const packed_matrix> matrices, const stream_header& header) {
    for (std::size_t index = 0; index < matrices.size(); ++index) {
      if (auto checked = check(matrices[index], header); !checked) {
        return std::move(checked).error().within(label(matrices[index], index));
      }
    }
    return {};
  }

  std::span<const packed_matrix> matrices() const noexcept { return matrices_; }
  const encoded_stream& stream() const noexcept { return stream_; }

  /// Weights of the rows from `first_row` on into `out` (out.rows() x out.columns(), any strides), rounded to nearest
  /// even where `Element` is narrower than FP32. Bytes whose checksum is wrong, or that decode to a code which is no
  /// finite number, are an error, and `out` then holds unspecified values.
  template <weight_output Element>
  result<void> decode(const cpu& backend, std::size_t matrix, std::size_t first_row, matrix_view<Element> out) const {
    const segment<Element> whole{this, matrix, first_row, out};
    return decode(backend, std::span<const segment<Element>>(&whole, 1));
  }

  /// Rows of a matrix from `first_row` on, and where their weights go.
  template <weight_output Element>
  struct segment {
    const block_decoder* block = nullptr;
    std::size_t matrix = 0;
    std::size_t first_row = 0;
    matrix_view<Element> out;
  };

  /// Decodes segments, of any blocks, as above, side by side: their chunks stand in one line, from which each thread
  /// takes the next few whenever it has done its last ones. So the load evens out, however different segments are. The
  /// error is that of the first chunk in the line that has one.
  template <weight_output Element>
  static result<void> decode(const cpu& backend, std::span<const segment<Element>> segments) {
    try {
      std::vector<chunk_runs> runs;
      std::vector<std::size_t> ends;  // number of the task behind each segment's last one
      std::size_t tasks = 0;
      for (const segment<Element>& each : segments) {
        ECQ_CHECK(each.block->check_range(each.matrix, each.first_row, each.out.rows(), each.out.columns()));
        runs.push_back(each.block->runs_of(backend, each.matrix, each.first_row, each.out.rows()));
        ends.push_back(tasks += runs.back().count);
      }
      return parallel_for(backend, tasks, [&](std::size_t task) -> result<void> {
        const auto at = static_cast<std::size_t>(std::upper_bound(ends.begin(), ends.end(), task) - ends.begin());
        const segment<Element>& each = segments[at];
        auto decoded = each.block->decode_run(backend, each, runs[at], task - (ends[at] - runs[at].count));
        if (decoded) return decoded;
        return std::move(decoded).error().within(label(each.block->matrices_[each.matrix], each.matrix));
      });
    } catch (const std::bad_alloc&) {
      return error(errc::out_of_memory, "no memory for the list of chunks");
    }
  }

  /// The codes themselves, row-major, of `rows` rows from `first_row` on, in the machine's byte order: of a lossless
  /// matrix the very bits that its weights had. out.size() must be rows x columns x bytes of a code.
  result<void> decode_codes(const cpu& backend, std::size_t matrix, std::size_t first_row, std::size_t rows,
                            std::span<std::byte> out) const {
    ECQ_CHECK(check_range(matrix, first_row, rows, matrix < matrices_.size() ? matrices_[matrix].layout.columns : 0));
    const packed_matrix& source = matrices_[matrix];
    if (out.size() / size_of(source.format) != rows * source.layout.columns || out.size() % size_of(source.format)) {
      return error(errc::invalid_argument, label(source, matrix) + ": " + std::to_string(out.size()) +
                                               " bytes for codes of " + std::to_string(rows) + " x " +
                                               std::to_string(source.layout.columns) + " weights");
    }
    return decode_elements(backend, stream_, source.first_symbol + first_row * source.layout.columns, out);
  }
  result<void> decode_codes(const cpu& backend, std::size_t matrix, std::size_t first_row, std::size_t rows,
                            std::span<std::uint8_t> out) const {
    return decode_codes(backend, matrix, first_row, rows, std::as_writable_bytes(out));
  }

 private:
  block_decoder(std::span<const packed_matrix> matrices, encoded_stream stream)
      : matrices_(matrices), stream_(std::move(stream)) {}

  static std::string label(const packed_matrix& matrix, std::size_t index) {
    return matrix.name.empty() ? "matrix " + std::to_string(index) : "matrix '" + matrix.name + "'";
  }

  static result<void> check(const packed_matrix& matrix, const stream_header& header) {
    const std::uint64_t symbols = header.symbols;
    const std::optional<dtype>& format = header.format;
    const group_layout& layout = matrix.layout;
    if ((layout.rows_per_group == 0) != (layout.columns_per_group == 0)) {
      return error(errc::corrupt, "groups without rows or columns");
    }
    if (matrix.lossless() ? format != matrix.format : format.has_value() || size_of(matrix.format) != 1) {
      return error(errc::corrupt, std::string(matrix.lossless() ? "weights" : "codes") + " of " +
                                      std::string(to_string(matrix.format)) + " in a stream of " +
                                      (format ? std::string(to_string(*format)) : "codes"));
    }
    if (layout.columns != 0 && layout.rows > (std::numeric_limits<std::size_t>::max)() / layout.columns) {
      return error(errc::corrupt, "shape " + std::to_string(layout.rows) + " x " + std::to_string(layout.columns) +
                                      " overflows 64 bits");
    }
    const std::uint64_t weights = static_cast<std::uint64_t>(layout.rows) * layout.columns;
    if (matrix.first_symbol > symbols || weights > symbols - matrix.first_symbol) {
      return error(errc::corrupt, "symbols " + std::to_string(matrix.first_symbol) + " + " + std::to_string(weights) +
                                      " exceed the stream's " + std::to_string(symbols));
    }
    if (matrix.scales.size() != layout.count()) {
      return error(errc::corrupt,
                   std::to_string(matrix.scales.size()) + " scales for " + std::to_string(layout.count()) + " groups");
    }
    const auto bad = std::find_if(matrix.scales.begin(), matrix.scales.end(),
                                  [](bf16 scale) { return !bf16::is_finite(scale.bits); });
    if (bad != matrix.scales.end()) {
      return error(errc::corrupt, "scale " + std::to_string(bad - matrix.scales.begin()) + " is not finite");
    }
    return check_zero(matrix);
  }

  /// With a zero point no value may leave FP32: where a sum is fused with its product, infinity would not come about.
  static result<void> check_zero(const packed_matrix& matrix) {
    if (!is_affine(matrix.format)) {
      if (matrix.zero == 0) return {};
      return error(errc::corrupt, "a zero point of " + std::string(to_string(matrix.format)));
    }
    const float largest = matrix.format == dtype::uint4 ? uint4::largest : uint8::largest;
    for (const bf16 scale : matrix.scales) {
      if (affine_grid{scale, matrix.zero}.representable(largest)) continue;
      return error(errc::corrupt, "scale " + std::to_string(static_cast<float>(scale)) + " and zero point " +
                                      std::to_string(matrix.zero) + " leave FP32");
    }
    return {};
  }

  result<void> check_range(std::size_t matrix, std::size_t first_row, std::size_t rows, std::size_t columns) const {
    if (matrix >= matrices_.size()) {
      return error(errc::not_found,
                   "matrix " + std::to_string(matrix) + " of a block that holds " + std::to_string(matrices_.size()));
    }
    const group_layout& layout = matrices_[matrix].layout;
    if (first_row > layout.rows || rows > layout.rows - first_row || columns != layout.columns) {
      return error(errc::invalid_argument, label(matrices_[matrix], matrix) + ": rows " + std::to_string(first_row) +
                                               " + " + std::to_string(rows) + " of " + std::to_string(columns) +
                                               " columns asked of " + std::to_string(layout.rows) + " x " +
                                               std::to_string(layout.columns));
    }
    return {};
  }

  /// The chunks that hold some rows of a matrix, a few at a time: the tasks of decode().
  struct chunk_runs {
    std::uint64_t first = 0;  ///< element of the stream; `end` is behind the last one
    std::uint64_t end = 0;
    std::uint64_t elements = 1;  ///< of all chunks of a run
    std::size_t count = 0;

    std::uint64_t begin_of(std::size_t run) const noexcept {
      return (std::max)(first, (first / elements + run) * elements);
    }
    std::uint64_t end_of(std::size_t run) const noexcept {
      return (std::min)(end, (first / elements + run + 1) * elements);
    }
  };

  chunk_runs runs_of(const cpu& backend, std::size_t matrix, std::size_t first_row, std::size_t rows) const {
    const packed_matrix& source = matrices_[matrix];
    chunk_runs runs;
    runs.first = source.first_symbol + static_cast<std::uint64_t>(first_row) * source.layout.columns;
    runs.end = runs.first + static_cast<std::uint64_t>(rows) * source.layout.columns;
    if (runs.end == runs.first) return runs;
    const std::uint64_t chunk = stream_.chunk_symbols();
    const std::uint64_t chunks = (runs.end - 1) / chunk - runs.first / chunk + 1;
    // A few chunks decode faster together than one by one.
    runs.elements = chunk * std::clamp<std::uint64_t>(chunks / backend.thread_count(), 1, 4);
    runs.count = static_cast<std::size_t>((runs.end - 1) / runs.elements - runs.first / runs.elements + 1);
    return runs;
  }

  template <weight_output Element>
  result<void> decode_run(const cpu& backend, const segment<Element>& to, const chunk_runs& runs,
                          std::size_t run) const {
    const std::uint64_t begin = runs.begin_of(run);
    std::vector<std::byte> elements(static_cast<std::size_t>(runs.end_of(run) - begin) * stream_.element_bytes());
    ECQ_CHECK(decode_elements(cpu{.isa = backend.isa}, stream_, begin, elements));
    const packed_matrix& source = matrices_[to.matrix];
    return visit_format(source.format, [&]<class Format>() -> result<void> {
      if (source.lossless()) {
        convert<Format>(begin - runs.first, elements, to.out);
        return {};
      }
      if constexpr (code_format<Format>) {
        return dequantize<Format>(source, to.first_row, begin - runs.first, elements, to.out);
      }
      return error(errc::corrupt, "codes that are no bytes");  // open() has checked
    });
  }

  /// Weights of `Format` as they are, in another element type perhaps.
  template <class Format, class Element>
  static void convert(std::uint64_t first_element, std::span<const std::byte> elements, matrix_view<Element> out) {
    using code_type = typename Format::code_type;
    std::size_t row = static_cast<std::size_t>(first_element / out.columns());
    std::size_t column = static_cast<std::size_t>(first_element % out.columns());
    for (std::size_t at = 0; at < elements.size(); at += sizeof(code_type)) {
      code_type code;
      std::memcpy(&code, elements.data() + at, sizeof code);
      if constexpr (dtype_of<Element> == dtype_of<Format>) {
        out(row, column) = std::bit_cast<Element>(code);  // NaN included
      } else {
        out(row, column) = Element(Format::decode(code));
      }
      if (++column == out.columns()) {
        column = 0;
        ++row;
      }
    }
  }

  template <class Format, class Element>
  static result<void> dequantize(const packed_matrix& source, std::size_t first_row, std::uint64_t first_element,
                                 std::span<const std::byte> codes, matrix_view<Element> out) {
    static constexpr auto values = [] {
      std::array<float, 256> table{};
      for (unsigned code = 0; code < 256; ++code) {
        const auto byte = static_cast<std::uint8_t>(code);
        table[code] = Format::is_finite(byte) ? Format::decode(byte) : std::numeric_limits<float>::infinity();
      }
      return table;
    }();
    const group_layout& layout = source.layout;
    const std::size_t across = layout.groups_across();
    std::size_t row = static_cast<std::size_t>(first_element / layout.columns);
    std::size_t column = static_cast<std::size_t>(first_element % layout.columns);
    bool finite = true;
    for (std::size_t at = 0; at < codes.size();) {
      const std::size_t group_column = column / layout.columns_per_group;
      const std::size_t stop = (std::min)(layout.columns, (group_column + 1) * layout.columns_per_group);
      const std::size_t run = (std::min)(codes.size() - at, stop - column);
      const float scale = source.scales[(first_row + row) / layout.rows_per_group * across + group_column];
      for (std::size_t offset = 0; offset < run; ++offset) {
        const float value = values[std::to_integer<std::uint8_t>(codes[at + offset])];
        finite = finite && value != std::numeric_limits<float>::infinity();
        if constexpr (affine_format<Format>) {
          out(row, column + offset) = Element(value * scale + source.zero);
        } else {
          out(row, column + offset) = Element(value * scale);
        }
      }
      at += run;
      column += run;
      if (column == layout.columns) {
        column = 0;
        ++row;
      }
    }
    if (!finite) {
      return error(errc::corrupt, "a code that is no finite " + std::string(Format::name));
    }
    return {};
  }

  std::span<const packed_matrix> matrices_;
  encoded_stream stream_;
};

/// Decodes matrix `matrix` of a block into `out`: a matrix_view of float, bf16 or fp16, or what converts to one (an
/// Eigen matrix, a std::span for one row), of the matrix's shape. See block_decoder::decode for errors; use a
/// block_decoder to decode several matrices or parts of them.
template <class Output>
  requires weight_output<typename decltype(matrix_view(std::declval<Output&>()))::element_type>
result<void> decompress(const cpu& backend, packed_block_view block, std::size_t matrix, Output&& out) {
  ECQ_TRY(decoder, block_decoder::open(block));
  return decoder.decode(backend, matrix, 0, matrix_view(out));
}

/// As above for a block of one matrix.
template <class Output>
  requires weight_output<typename decltype(matrix_view(std::declval<Output&>()))::element_type>
result<void> decompress(const cpu& backend, packed_block_view block, Output&& out) {
  if (block.matrices.size() != 1) {
    return error(errc::invalid_argument,
                 "a block of " + std::to_string(block.matrices.size()) + " matrices needs the index of one");
  }
  return decompress(backend, block, 0, out);
}

}  // namespace ecq
