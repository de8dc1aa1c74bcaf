#pragma once
/// \file
/// Definition of block_decoder.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ecq/base/config.hpp"
#include "ecq/base/out_of_memory.hpp"
#include "ecq/block_decoder.hpp"
#include "ecq/format/bf16.hpp"
#include "ecq/format/dtype.hpp"
#include "ecq/format/exact_weight.hpp"
#include "ecq/format/fp32.hpp"
#include "ecq/format/nearest_finite.hpp"
#include "ecq/packed_check.hpp"
#include "ecq/quantize/dequantize.hpp"
#include "ecq/stream/stream_decoder.hpp"

namespace ecq {

namespace detail {

/// Converts the `count` codes of Format at `from` to elements. If Element is that format, the bits are copied.
/// Otherwise each element is the nearest finite one, except that infinities and NaN stay.
template <class Format, class Element>
void convert_elements(const std::byte* from, std::size_t count, Element* out) {
  using code_type = typename Format::code_type;
  if constexpr (dtype_of<Element> == dtype_of<Format>) {
    std::memcpy(out, from, count * sizeof(Element));  // NaN included
  } else {
    for (std::size_t i = 0; i < count; ++i) {
      code_type code;
      std::memcpy(&code, from + i * sizeof code, sizeof code);
      const float weight = Format::decode(code);
      out[i] = Format::is_finite(code) ? nearest_finite<Element>(weight) : Element(weight);
    }
  }
}

}  // namespace detail

ECQ_INLINE result<block_decoder> block_decoder::open(packed_block_view block, coder_set accepted) {
  ECQ_TRY(stream, encoded_stream::parse(block.stream, accepted));
  ECQ_CHECK(check_matrices(block.matrices, stream.header().symbols, stream.header().format));
  return block_decoder(block.matrices, std::move(stream));
}

template <weight_output Element>
result<void> block_decoder::decode(const cpu& backend, std::span<const segment<Element>> segments) {
  return detail::or_out_of_memory("the list of chunks", [&]() -> result<void> {
    std::vector<chunk_runs> runs;
    std::vector<std::size_t> ends;  // number of the task after each segment's last one
    std::size_t tasks = 0;
    for (const segment<Element>& each : segments) {
      ECQ_CHECK(each.block->check_range(each.matrix, each.first_row, each.out.rows(), each.out.columns()));
      const packed_matrix& matrix = each.block->matrices_[each.matrix];
      if (matrix.is_bytes()) {
        return error(errc::invalid_argument, detail::label_of(matrix, each.matrix), ": bytes of ", matrix.element_type,
                     ", not weights");
      }
      runs.push_back(each.block->runs_of(backend, each.matrix, each.first_row, each.out.rows()));
      ends.push_back(tasks += runs.back().count);
    }
    return parallel_for(backend, tasks, [&](std::size_t task) -> result<void> {
      const auto at = static_cast<std::size_t>(std::upper_bound(ends.begin(), ends.end(), task) - ends.begin());
      const segment<Element>& each = segments[at];
      auto decoded = each.block->decode_run(backend, each, runs[at], task - (ends[at] - runs[at].count));
      if (decoded) return decoded;
      return std::move(decoded).error().within(detail::label_of(each.block->matrices_[each.matrix], each.matrix));
    });
  });
}

ECQ_INLINE result<void> block_decoder::decode_codes(const cpu& backend, std::size_t matrix, std::size_t first_row,
                                                    std::size_t rows, std::span<std::byte> out) const {
  ECQ_CHECK(check_range(matrix, first_row, rows, matrix < matrices_.size() ? matrices_[matrix].layout.columns : 0));
  const packed_matrix& source = matrices_[matrix];
  if (out.size() / size_of(source.format) != rows * source.layout.columns || out.size() % size_of(source.format)) {
    return error(errc::invalid_argument, detail::label_of(source, matrix), ": ", out.size(),
                 " bytes of output do not fit the codes of ", rows, " x ", source.layout.columns, " weights");
  }
  return decode_elements(backend, stream_, source.first_symbol + first_row * source.layout.columns, out);
}

ECQ_INLINE result<void> block_decoder::check_range(std::size_t matrix, std::size_t first_row, std::size_t rows,
                                                   std::size_t columns) const {
  if (matrix >= matrices_.size()) {
    return error(errc::not_found, "matrix ", matrix, " in a block of ", matrices_.size(), " matrices");
  }
  const group_layout& layout = matrices_[matrix].layout;
  if (first_row > layout.rows || rows > layout.rows - first_row || columns != layout.columns) {
    return error(errc::invalid_argument, detail::label_of(matrices_[matrix], matrix), ": rows ", first_row, " + ", rows,
                 " of ", columns, " columns do not fit ", layout.rows, " x ", layout.columns, " weights");
  }
  return {};
}

ECQ_INLINE block_decoder::chunk_runs block_decoder::runs_of(const cpu& backend, std::size_t matrix,
                                                            std::size_t first_row, std::size_t rows) const {
  const packed_matrix& source = matrices_[matrix];
  chunk_runs runs;
  runs.first = source.first_symbol + static_cast<std::uint64_t>(first_row) * source.layout.columns;
  runs.end = runs.first + static_cast<std::uint64_t>(rows) * source.layout.columns;
  if (runs.end == runs.first) return runs;
  const std::uint64_t chunk = stream_.chunk_symbols();
  const std::uint64_t chunks = (runs.end - 1) / chunk - runs.first / chunk + 1;
  // A few chunks decode faster together than one by one.
  runs.elements = chunk * std::clamp<std::uint64_t>(chunks / backend.thread_count(), 1, detail::min_chunk_run);
  runs.count = static_cast<std::size_t>((runs.end - 1) / runs.elements - runs.first / runs.elements + 1);
  return runs;
}

template <weight_output Element>
result<void> block_decoder::decode_run(const cpu& backend, const segment<Element>& to, const chunk_runs& runs,
                                       std::size_t run) const {
  const std::uint64_t begin = runs.begin_of(run);
  std::vector<std::byte> elements(static_cast<std::size_t>(runs.end_of(run) - begin) * stream_.element_bytes());
  ECQ_CHECK(decode_elements(cpu{.isa = backend.isa}, stream_, begin, elements));
  const packed_matrix& source = matrices_[to.matrix];
  if (!source.lossless()) {
    ECQ_CHECK(dequantize(backend.isa, source, to.first_row, begin - runs.first, elements, to.out));
    put_exact(source, to.first_row, begin - runs.first, elements.size(), to.out);
    return {};
  }
  convert(source.format, begin - runs.first, elements, to.out);
  return {};
}

template <weight_output Element>
void block_decoder::convert(dtype format, std::uint64_t first_element, std::span<const std::byte> elements,
                            matrix_view<Element> out) {
  visit_format(format, [&]<class Format>() {
    constexpr std::size_t width = sizeof(typename Format::code_type);
    std::size_t row = static_cast<std::size_t>(first_element / out.columns());
    std::size_t column = static_cast<std::size_t>(first_element % out.columns());
    for (std::size_t at = 0; at < elements.size(); column = 0, ++row) {
      const std::size_t count = (std::min)(out.columns() - column, (elements.size() - at) / width);
      if (out.contiguous_rows()) {
        detail::convert_elements<Format>(elements.data() + at, count, &out(row, column));
      } else {
        for (std::size_t i = 0; i < count; ++i) {
          detail::convert_elements<Format>(elements.data() + at + i * width, 1, &out(row, column + i));
        }
      }
      at += count * width;
    }
  });
}

template <weight_output Element>
void block_decoder::put_exact(const packed_matrix& source, std::size_t first_row, std::uint64_t first_element,
                              std::size_t elements, matrix_view<Element> out) {
  const std::uint64_t before = static_cast<std::uint64_t>(first_row) * source.layout.columns;
  const std::uint64_t begin = before + first_element;
  for (const auto& [position, weight] : exact_weights_in(source.exact, begin, begin + elements)) {
    const std::uint64_t at = position - before;
    out(static_cast<std::size_t>(at / source.layout.columns), static_cast<std::size_t>(at % source.layout.columns)) =
        nearest_finite<Element>(weight);
  }
}

template <weight_output Element>
result<void> block_decoder::dequantize(instruction_set isa, const packed_matrix& source, std::size_t first_row,
                                       std::uint64_t first_element, std::span<const std::byte> codes,
                                       matrix_view<Element> out) {
  const group_layout& layout = source.layout;
  const std::size_t across = layout.groups_across();
  const std::size_t fewest_codes = detail::weight_table<Element>::fewest_codes(isa);
  detail::weight_rule rule = {source.values_of_codes(), {}, source.zero, is_affine(source.format)};
  std::optional<detail::weight_table<Element>> table;  // for the current scale, once a run needs it
  std::size_t row = static_cast<std::size_t>(first_element / layout.columns);
  std::size_t column = static_cast<std::size_t>(first_element % layout.columns);
  bool finite = true;
  for (std::size_t at = 0; at < codes.size();) {
    const std::size_t group_column = column / layout.columns_per_group;
    const std::size_t stop = (std::min)(layout.columns, (group_column + 1) * layout.columns_per_group);
    const std::size_t run = (std::min)(codes.size() - at, stop - column);
    const bf16 scale = source.scales[(first_row + row) / layout.rows_per_group * across + group_column];
    if (scale.bits != rule.scale.bits) table.reset();
    rule.scale = scale;
    if (out.contiguous_rows() && (table || run >= fewest_codes)) {
      if (!table) table.emplace(rule, isa);
      finite = table->look_up(codes.data() + at, run, &out(row, column)) && finite;
    } else {
      for (std::size_t i = 0; i < run; ++i) {
        const auto code = std::to_integer<std::uint8_t>(codes[at + i]);
        finite = finite && rule.is_finite(code);
        out(row, column + i) = rule.as<Element>(code);
      }
    }
    at += run;
    column += run;
    if (column == layout.columns) {
      column = 0;
      ++row;
    }
  }
  if (finite) return {};
  return error(errc::corrupt, "a code is not a finite ", to_string(source.format));
}

}  // namespace ecq
