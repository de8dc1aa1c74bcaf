#pragma once
/// \file
/// Definition of products with matrices that stay coded.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ecq/base/config.hpp"
#include "ecq/format/fp32.hpp"
#include "ecq/format/number_format.hpp"
#include "ecq/matmul/dot_product.hpp"
#include "ecq/matmul/matmul_plan.hpp"
#include "ecq/stream/chunk_decoder.hpp"

namespace ecq {

namespace detail {

/// What a task decodes at most: enough chunks to run side by side, and no more than a second cache holds.
inline constexpr std::size_t tile_bytes = std::size_t{1} << 20;

/// A stream with more tables makes their decoders anew in each task: it could ask for any amount of memory otherwise.
inline constexpr std::uint32_t most_kept_tables = 64;

/// The tile of this thread, of at least `size` bytes. It stays, as does the thread.
inline std::byte* tile_of_thread(std::size_t size) {
  thread_local std::vector<std::byte> tile;
  if (tile.size() < size) tile.resize(size);
  return tile.data();
}

inline std::string label_of(const packed_matrix& matrix) {
  return matrix.name.empty() ? "a matrix" : "matrix '" + matrix.name + "'";
}

/// Lossless weights of `format` to FP32.
inline void convert_weights(dtype format, const std::byte* elements, std::size_t count, float* values) {
  visit_format(format, [&]<class Format>() {
    using code_type = typename Format::code_type;
    for (std::size_t i = 0; i < count; ++i) {
      code_type code;
      std::memcpy(&code, elements + i * sizeof code, sizeof code);
      values[i] = static_cast<float>(Format::decode(code));
    }
  });
}

}  // namespace detail

ECQ_INLINE result<matmul_plan> matmul_plan::of(const cpu& backend, packed_block_view block,
                                               std::span<const row_selection> parts, coder_set accepted) {
  try {
    ECQ_TRY(decoder, block_decoder::open(block, accepted));
    matmul_plan plan(std::move(decoder));
    for (const row_selection& rows : parts) ECQ_CHECK(plan.add_part(rows));
    for (std::size_t index = 0; index < plan.parts_.size(); ++index) plan.add_tasks(index);
    const encoded_stream& stream = plan.decoder_.stream();
    ECQ_CHECK(parallel_for(backend, plan.tasks_.size(), [&](std::size_t task) -> result<void> {
      const std::uint64_t first = plan.tasks_[task].begin >> stream.chunk_bits();
      const std::uint64_t last = (plan.tasks_[task].end - 1) >> stream.chunk_bits();
      return stream.verify_chunks(first, static_cast<std::size_t>(last - first + 1), backend.isa);
    }));
    ECQ_CHECK(plan.make_tables());
    return plan;
  } catch (const std::bad_alloc&) {
    return error(errc::out_of_memory, "no memory for a plan of products");
  }
}

ECQ_INLINE result<void> matmul_plan::add_part(const row_selection& rows) {
  if (rows.matrix >= decoder_.matrices().size()) {
    return error(errc::not_found, "matrix ", rows.matrix, " of a block that holds ", decoder_.matrices().size());
  }
  const packed_matrix& matrix = decoder_.matrices()[rows.matrix];
  const group_layout& layout = matrix.layout;
  const auto wrong = [&](const auto&... why) {
    return error(errc::invalid_argument, detail::label_of(matrix), ": ", why...);
  };
  if (matrix.is_bytes()) return wrong("bytes of ", matrix.element_type, ", no weights");
  if (rows.first_row > layout.rows) return wrong("row ", rows.first_row, " of ", layout.rows);
  if (parts_.empty()) columns_ = layout.columns;
  if (layout.columns != columns_) return wrong(layout.columns, " columns, others have ", columns_);
  const std::size_t count = (std::min)(rows.rows, layout.rows - rows.first_row);
  if (count > (std::numeric_limits<std::size_t>::max)() - rows_) return wrong("more rows than can be counted");
  const std::uint64_t begin = matrix.first_symbol + std::uint64_t{rows.first_row} * columns_;
  parts_.push_back({.matrix = &matrix,
                    .table = rows.matrix,
                    .first_row = rows.first_row,
                    .first_output = rows_,
                    .begin = begin,
                    .end = begin + std::uint64_t{count} * columns_});
  rows_ += count;
  affine_ = affine_ || (!matrix.lossless() && matrix.zero != 0);
  return {};
}

ECQ_INLINE void matmul_plan::add_tasks(std::size_t index) {
  const encoded_stream& stream = decoder_.stream();
  const std::uint64_t bytes = stream.chunk_symbols() * stream.element_bytes();
  const std::uint64_t chunks = std::clamp<std::uint64_t>(detail::tile_bytes / bytes, 1, detail::min_chunk_run);
  const std::uint64_t elements = chunks * stream.chunk_symbols();
  for (std::uint64_t begin = parts_[index].begin; begin < parts_[index].end;) {
    const std::uint64_t end = (std::min)(parts_[index].end, (begin / elements + 1) * elements);
    tasks_.push_back({index, begin, end});
    begin = end;
  }
}

ECQ_INLINE result<void> matmul_plan::make_tables() {
  values_.resize(decoder_.matrices().size());
  for (const part& each : parts_) {
    if (each.matrix->lossless() || values_[each.table] != nullptr) continue;
    values_[each.table] = std::make_unique<const detail::code_table>(each.matrix->values_of_codes());
  }
  const encoded_stream& stream = decoder_.stream();
  if (stream.table_count() > detail::most_kept_tables) return {};
  for (std::uint32_t table = 0; table < stream.table_count(); ++table) {
    decoders_.push_back(stream.decoder_of_table(table));
  }
  return {};
}

template <activation Element>
result<matmul_input> matmul_plan::prepare(matrix_view<const Element> x, matrix_view<float> y) const {
  if (x.columns() != columns_) {
    return error(errc::invalid_argument, "activations of ", x.columns(), " columns for weights of ", columns_);
  }
  try {
    matmul_input input;
    input.batch_ = x.rows();
    const auto in_place = [&] {
      if constexpr (std::is_same_v<Element, float>) {
        if (!x.contiguous_rows() || x.row_stride() < 0 || x.empty()) return false;
        if (y.empty()) return true;
        // Compared as numbers: the two need not be parts of one array.
        const auto at = [](const float* place) { return reinterpret_cast<std::uintptr_t>(place); };
        const auto corners = std::minmax(
            {at(&y(0, 0)), at(&y(y.rows() - 1, 0)), at(&y(0, y.columns() - 1)), at(&y(y.rows() - 1, y.columns() - 1))});
        return corners.second < at(x.data()) || corners.first > at(&x(x.rows() - 1, x.columns() - 1));
      }
      return false;
    }();
    if (in_place) {
      if constexpr (std::is_same_v<Element, float>) input.rows_ = x.data();
      input.stride_ = static_cast<std::size_t>(x.row_stride());
    } else {
      if (columns_ != 0 && x.rows() > input.copy_.max_size() / columns_) {
        return error(errc::invalid_argument, x.rows(), " x ", columns_, " activations overflow 64 bits");
      }
      input.copy_.resize(x.rows() * columns_);
      for (std::size_t row = 0; row < x.rows(); ++row) {
        for (std::size_t column = 0; column < columns_; ++column) {
          input.copy_[row * columns_ + column] = static_cast<float>(x(row, column));
        }
      }
      input.rows_ = input.copy_.data();
      input.stride_ = columns_;
    }
    if (affine_) {
      input.sums_stride_ = columns_ + 1;
      input.sums_.resize(x.rows() * (columns_ + 1));
      for (std::size_t row = 0; row < x.rows(); ++row) {
        double* const sums = input.sums_.data() + row * (columns_ + 1);
        for (std::size_t column = 0; column < columns_; ++column) {
          sums[column + 1] = sums[column] + static_cast<double>(input.row(row)[column]);
        }
      }
    }
    return input;
  } catch (const std::bad_alloc&) {
    return error(errc::out_of_memory, "no memory for activations");
  }
}

ECQ_INLINE result<void> matmul_plan::check_output(std::size_t batch, matrix_view<float> y) const {
  if (y.rows() == batch && y.columns() == rows_) return {};
  return error(errc::invalid_argument, "products of ", batch, " x ", rows_, " do not fit ", y.rows(), " x ",
               y.columns());
}

template <class Use>
result<void> matmul_plan::for_each_segment(const task_range& range, Use&& use) const {
  const part& source = parts_[range.part];
  std::size_t row = static_cast<std::size_t>((range.begin - source.begin) / columns_);
  std::size_t column = static_cast<std::size_t>((range.begin - source.begin) % columns_);
  for (std::uint64_t at = range.begin; at < range.end; ++row, column = 0) {
    const auto count = static_cast<std::size_t>((std::min)(range.end - at, std::uint64_t{columns_ - column}));
    const bool whole = count == columns_;
    const std::size_t edge = whole ? 2 : at == range.begin ? 0 : 1;
    ECQ_CHECK(use(segment{source.first_output + row, source.first_row + row, column, count}, at - range.begin, edge));
    at += count;
  }
  return {};
}

ECQ_INLINE result<void> matmul_plan::run(instruction_set isa, std::size_t task, const matmul_input& x,
                                         matrix_view<float> y, std::span<float> edges, bool accumulate) const {
  const task_range& range = tasks_[task];
  const part& source = parts_[range.part];
  const encoded_stream& stream = decoder_.stream();
  const std::size_t width = stream.element_bytes();
  const std::uint64_t first = range.begin >> stream.chunk_bits();
  const std::uint64_t last = (range.end - 1) >> stream.chunk_bits();
  const auto chunks = static_cast<std::size_t>(last - first + 1);
  const auto chunk_bytes = static_cast<std::size_t>(stream.chunk_symbols()) * width;
  std::byte* const tile = detail::tile_of_thread(chunks * chunk_bytes);
  std::byte* targets[detail::min_chunk_run];
  for (std::size_t index = 0; index < chunks; ++index) targets[index] = tile + index * chunk_bytes;
  detail::chunk_decoder decoder(cpu{.isa = isa}, stream, {.verify_checksums = false}, decoders_);
  if (auto decoded = decoder.decode(first, {targets, chunks}); !decoded) {
    return std::move(decoded).error().within(detail::label_of(*source.matrix));
  }
  const std::byte* const elements = tile + (range.begin - (first << stream.chunk_bits())) * width;
  const instruction_set chosen = chosen_instruction_set(isa);
  constexpr std::size_t at_once = 64;
  float sums[at_once];
  return for_each_segment(range, [&](const segment& at, std::uint64_t offset, std::size_t edge) -> result<void> {
    const std::byte* const from = elements + offset * width;
    for (std::size_t b = 0; b < x.batch(); b += at_once) {
      const std::size_t count = (std::min)(at_once, x.batch() - b);
      ECQ_CHECK(product(chosen, source, at, from, x, b, count, sums));
      for (std::size_t i = 0; i < count; ++i) {
        if (edge != 2) {
          edges[(2 * task + edge) * x.batch() + b + i] = sums[i];
        } else if (accumulate) {
          y(b + i, at.output) += sums[i];
        } else {
          y(b + i, at.output) = sums[i];
        }
      }
    }
    return {};
  });
}

ECQ_INLINE void matmul_plan::join(std::size_t batch, matrix_view<float> y, std::span<const float> edges,
                                  bool accumulate) const {
  if (columns_ == 0 && !accumulate) {
    for (std::size_t b = 0; b < batch; ++b) {
      for (std::size_t row = 0; row < rows_; ++row) y(b, row) = 0;
    }
  }
  for (std::size_t task = 0; task < tasks_.size(); ++task) {
    const auto add = [&](const segment& at, std::uint64_t, std::size_t edge) -> result<void> {
      if (edge == 2) return {};
      for (std::size_t b = 0; b < batch; ++b) {
        const float sum = edges[(2 * task + edge) * batch + b];
        if (at.first_column == 0 && !accumulate) {
          y(b, at.output) = sum;
        } else {
          y(b, at.output) += sum;
        }
      }
      return {};
    };
    static_cast<void>(for_each_segment(tasks_[task], add));
  }
}

ECQ_INLINE result<void> matmul_plan::product(instruction_set isa, const part& source, const segment& at,
                                             const std::byte* elements, const matmul_input& x, std::size_t first,
                                             std::size_t batch, float* out) const {
  const packed_matrix& matrix = *source.matrix;
  const float* const activations = x.row(first) + at.first_column;
  std::fill_n(out, batch, 0.0F);
  if (matrix.lossless()) {
    alignas(64) float values[detail::weights_per_tile];
    const std::size_t width = size_of(matrix.format);
    for (std::size_t done = 0; done < at.columns; done += detail::weights_per_tile) {
      const std::size_t count = (std::min)(detail::weights_per_tile, at.columns - done);
      detail::convert_weights(matrix.format, elements + done * width, count, values);
      detail::add_dots(values, activations + done, x.stride(), count, batch, out, isa);
    }
    return {};
  }
  const detail::code_table& table = *values_[source.table];
  const group_layout& layout = matrix.layout;
  const bf16* const scales = matrix.scales.data() + at.row / layout.rows_per_group * layout.groups_across();
  float sums[64];
  for (std::size_t done = 0; done < at.columns;) {
    const std::size_t column = at.first_column + done;
    const std::size_t group = column / layout.columns_per_group;
    const std::size_t count = (std::min)(
        at.columns - done, (std::min)(layout.columns_per_group, layout.columns - group * layout.columns_per_group) -
                               (column - group * layout.columns_per_group));
    const std::byte* const codes = elements + done;
    detail::dot_codes(table, codes, activations + done, x.stride(), count, batch, sums, isa);
    const auto scale = static_cast<float>(scales[group]);
    bool finite = true;
    for (std::size_t b = 0; b < batch; ++b) {
      finite = finite && fp32::is_finite(std::bit_cast<std::uint32_t>(sums[b]));
      out[b] += sums[b] * scale;
      if (matrix.zero != 0) {
        out[b] += static_cast<float>(static_cast<double>(matrix.zero) * x.sum(first + b, column, count));
      }
    }
    if (!finite && !table.all_finite) ECQ_CHECK(check_codes(source, table, codes, count));
    done += count;
  }
  return {};
}

/// Activations may have made a product infinite or NaN; a code must not.
ECQ_INLINE result<void> matmul_plan::check_codes(const part& source, const detail::code_table& table,
                                                 const std::byte* codes, std::size_t count) {
  const bool finite = std::all_of(codes, codes + count, [&](std::byte code) { return table.is_finite(code); });
  if (finite) return {};
  return error(errc::corrupt, detail::label_of(*source.matrix), ": a code that is no finite ",
               to_string(source.matrix->format));
}

}  // namespace ecq
