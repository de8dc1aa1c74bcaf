#pragma once
/// \file
/// Definition of products with matrices that stay coded.

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "ecq/base/amx.hpp"
#include "ecq/base/config.hpp"
#include "ecq/base/out_of_memory.hpp"
#include "ecq/format/fp8_e4m3.hpp"
#include "ecq/format/fp8_e5m2.hpp"
#include "ecq/matmul/exact_products-inl.hpp"
#include "ecq/matmul/integer_products-inl.hpp"
#include "ecq/matmul/matmul_plan.hpp"
#include "ecq/matmul/ordered_rows.hpp"
#include "ecq/matmul/quantized_activations.hpp"
#include "ecq/matmul/stored_products-inl.hpp"
#include "ecq/matmul/stored_weights.hpp"
#include "ecq/matmul/thread_tile.hpp"
#include "ecq/packed_check.hpp"
#include "ecq/stream/chunk_decoder.hpp"

namespace ecq {

namespace detail {

/// Maximum number of bytes that a task decodes: enough chunks to run side by side, and no more than an L2 cache holds.
inline constexpr std::size_t tile_bytes = std::size_t{1} << 20;

/// Maximum number of tables whose decoders a plan keeps. For a stream with more tables, each task makes decoders anew:
/// otherwise the stream could ask for any amount of memory.
inline constexpr std::uint32_t most_kept_tables = 64;

inline row_tile& row_tile_of_thread() {
  thread_local row_tile tile;
  return tile;
}

/// Returns the values of all codes of lossless FP8, including NaN and infinity.
inline std::array<float, 256> values_of_weights(dtype format) {
  std::array<float, 256> values;
  for (unsigned code = 0; code < 256; ++code) {
    const auto byte = static_cast<std::uint8_t>(code);
    values[code] = format == dtype::fp8_e5m2 ? fp8_e5m2::decode(byte) : fp8_e4m3::decode(byte);
  }
  return values;
}

}  // namespace detail

ECQ_INLINE result<matmul_plan> matmul_plan::of(const cpu& backend, packed_block_view block,
                                               std::span<const row_selection> parts, coder_set accepted) {
  return detail::or_out_of_memory("a plan of products", [&]() -> result<matmul_plan> {
    ECQ_TRY(decoder, block_decoder::open(block, accepted));
    matmul_plan plan(std::move(decoder));
    for (const row_selection& rows : parts) ECQ_CHECK(plan.add_part(rows));
    for (std::size_t index = 0; index < plan.parts_.size(); ++index) plan.add_tasks(index);
    const encoded_stream& stream = plan.decoder_.stream();
    ECQ_CHECK(parallel_for(backend, plan.tasks_.size(), [&](std::size_t task) -> result<void> {
      const std::uint64_t first = plan.tasks_[task].begin >> stream.chunk_bits();
      const std::uint64_t last = (plan.tasks_[task].end - 1) >> stream.chunk_bits();
      auto checked = stream.verify_chunks(first, static_cast<std::size_t>(last - first + 1), backend.isa);
      const part& source = plan.parts_[plan.tasks_[task].part];
      if (!checked) return std::move(checked).error().within(detail::label_of(*source.matrix, source.number));
      return {};
    }));
    ECQ_CHECK(plan.make_tables());
    plan.list_escapes(backend);
    ECQ_CHECK(plan.find_exact_terms(backend));
    return result<matmul_plan>(std::move(plan));
  });
}

ECQ_INLINE result<void> matmul_plan::add_part(const row_selection& rows) {
  if (rows.matrix >= decoder_.matrices().size()) {
    return error(errc::not_found, "matrix ", rows.matrix, " in a block of ", decoder_.matrices().size(), " matrices");
  }
  const packed_matrix& matrix = decoder_.matrices()[rows.matrix];
  const group_layout& layout = matrix.layout;
  const auto wrong = [&](const auto&... why) {
    return error(errc::invalid_argument, detail::label_of(matrix, rows.matrix), ": ", why...);
  };
  if (matrix.is_bytes()) return wrong("bytes of ", matrix.element_type, ", not weights");
  if (rows.first_row > layout.rows) return wrong("first row is ", rows.first_row, " of ", layout.rows);
  if (parts_.empty()) columns_ = layout.columns;
  if (layout.columns != columns_) return wrong(layout.columns, " columns, but others have ", columns_);
  const std::size_t count = (std::min)(rows.rows, layout.rows - rows.first_row);
  if (count > (std::numeric_limits<std::size_t>::max)() - rows_) return wrong("more rows than can be counted");
  const std::uint64_t begin = matrix.first_symbol + std::uint64_t{rows.first_row} * columns_;
  parts_.push_back({.matrix = &matrix,
                    .number = rows.matrix,
                    .first_row = rows.first_row,
                    .first_output = rows_,
                    .begin = begin,
                    .end = begin + std::uint64_t{count} * columns_});
  rows_ += count;
  affine_ = affine_ || (!matrix.lossless() && matrix.zero != 0);
  (!matrix.lossless() && is_integer(matrix.format) ? any_integers_ : any_not_integers_) = true;
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
    const packed_matrix& matrix = *each.matrix;
    if (values_[each.number] != nullptr || size_of(matrix.format) != 1) continue;
    values_[each.number] = matrix.lossless()
                               ? std::make_unique<const detail::code_table>(detail::values_of_weights(matrix.format))
                               : std::make_unique<const detail::code_table>(matrix.values_of_codes());
  }
  const encoded_stream& stream = decoder_.stream();
  if (stream.table_count() > detail::most_kept_tables) return {};
  for (std::uint32_t table = 0; table < stream.table_count(); ++table) {
    decoders_.push_back(stream.decoder_of_table(table));
  }
  choose_fusion();
  return {};
}

template <activation Element>
result<matmul_input> matmul_plan::prepare(matrix_view<const Element> x, matrix_view<float> y, activation_type type,
                                          instruction_set isa, half_product product) const {
  if (x.columns() != columns_) {
    return error(errc::invalid_argument, "activations have ", x.columns(), " columns, but weights have ", columns_);
  }
  return detail::or_out_of_memory("activations", [&]() -> result<matmul_input> {
    matmul_input input;
    input.batch_ = x.rows();
    const bool rounds = std::is_same_v<Element, float> && type == activation_type::bf16;
    const auto in_place = [&] {
      if constexpr (std::is_same_v<Element, float>) {
        if (rounds || !x.contiguous_rows() || x.row_stride() < 0 || x.empty()) return false;
        return !detail::may_overlap(x, y);
      }
      return false;
    }();
    if (type == activation_type::int8) {
      ECQ_CHECK(quantize(x, input));
    } else if (in_place) {
      if constexpr (std::is_same_v<Element, float>) input.rows_ = x.data();
      input.stride_ = static_cast<std::size_t>(x.row_stride());
    } else {
      if (columns_ != 0 && x.rows() > input.copy_.max_size() / columns_) {
        return error(errc::invalid_argument, x.rows(), " x ", columns_, " activations overflow 64 bits");
      }
      input.copy_.resize(x.rows() * columns_);
      for (std::size_t row = 0; row < x.rows(); ++row) {
        float* const to = input.copy_.data() + row * columns_;
        detail::copy_row(x, row, to);
        if (rounds) std::transform(to, to + columns_, to, [](float value) { return bf16(value); });
      }
      input.rows_ = input.copy_.data();
      input.stride_ = columns_;
    }
    const instruction_set chosen = chosen_instruction_set(isa);
    if (!input.quantized_.empty()) {
      input.ordered_for_ = chosen;
      const detail::integer_order order = order_of_integers(chosen);
      if (order != detail::integer_order::columns) input.quantized_.order_as(order, fusion_, places_of_rows());
      const bool many = chosen == instruction_set::avx512 && x.rows() > detail::most_rows_without_tiles_int8;
      if (many && machine_has_amx()) input.quantized_.make_tiles(places_of_rows());
      return input;
    }
    // Quantised activations are multiples of a scale in FP32, whatever x was.
    const bool halves = rounds || (std::is_same_v<Element, bf16> && type != activation_type::int8);
    const bool fed = halves && product && feeds_product(isa);
    if (fed) input.product_ = product;
    using detail::activation_order;
    if (fuses(chosen)) {
      activation_order how = fed ? activation_order::halves : order_of(chosen, x.rows(), halves);
      if (how == activation_order::tiles && !halves && has_tiny_row(input)) how = activation_order::floats;
      const bool any_number = halves && how != activation_order::floats && row_phases_ == 1;
      if (any_number || x.rows() <= detail::most_fused_rows) order(chosen, how, halves, input);
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
  });
}

ECQ_INLINE std::size_t matmul_plan::rows_of_tile() const noexcept {
  const std::uint64_t weights = std::uint64_t{detail::min_chunk_run} * decoder_.stream().chunk_symbols();
  const std::uint64_t rows = weights / (std::max<std::size_t>)(columns_, 1) + 2;
  return (std::max)(static_cast<std::size_t>(most_tile_sums / rows), std::size_t{1});
}

ECQ_INLINE bool matmul_plan::feeds_product(instruction_set isa) const noexcept {
  const bool one_scale = std::all_of(parts_.begin(), parts_.end(),
                                     [&](const part& each) { return columns_of_scale(*each.matrix) == columns_; });
  return chosen_instruction_set(isa) == instruction_set::avx512 && fusion_ != detail::fusion::none &&
         row_phases_ == 1 && one_scale;
}

ECQ_INLINE bool matmul_plan::has_tiny_row(const matmul_input& x) const noexcept {
  for (std::size_t row = 0; row < x.batch(); ++row) {
    const std::int32_t most = detail::largest_magnitude(x.row(row), columns_);
    if (most != 0 && most < std::bit_cast<std::int32_t>(0x1p-60F)) return true;
  }
  return false;
}

ECQ_INLINE detail::activation_order matmul_plan::order_of(instruction_set chosen, std::size_t rows,
                                                          bool halves) noexcept {
  using detail::activation_order;
  if (chosen != instruction_set::avx512) return activation_order::floats;
  const std::size_t few = halves ? detail::most_rows_without_tiles_bf16 : detail::most_rows_without_tiles_fp32;
  if (rows > few && machine_has_amx()) return activation_order::tiles;
  return halves && machine_has_fast_bf16_dots() ? activation_order::halves : activation_order::floats;
}

ECQ_INLINE void matmul_plan::order(instruction_set chosen, detail::activation_order how, bool halves,
                                   matmul_input& input) const {
  input.ordered_for_ = chosen;
  const std::size_t group = detail::group_of(fusion_);
  const bool rounds = chosen == instruction_set::avx512 && pairs_in_rounds();
  const bool floats = how == detail::activation_order::floats;
  std::array<std::uint16_t, 256> places{};  // of columns in a group; rows consist of groups
  for (std::size_t column = 0; column < group; ++column) {
    const std::size_t place =
        rounds ? detail::place_in_rounds(fusion_, column) : detail::place_met(fusion_, chosen, column);
    places[column] = static_cast<std::uint16_t>(floats ? place : detail::place_of_half(place));
  }
  if (how == detail::activation_order::tiles) return order_tiles(halves, places, input);
  const auto fill = [&](auto& ordered, const auto& convert) {
    ordered.resize(row_phases_ * input.batch() * places_of_rows().ordered_columns());
    detail::order_rows<float>(
        places_of_rows(), input.batch(), [&](std::size_t row) { return input.row(row); },
        [&](const float* from, std::size_t at) {
          for (std::size_t i = 0; i < group; ++i) ordered[at + places[i]] = convert(from[i]);
        });
  };
  if (floats) return fill(input.ordered_, [](float x) { return x; });
  fill(input.ordered_halves_,
       [](float x) { return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(x) >> 16); });
}

ECQ_INLINE void matmul_plan::order_tiles(bool halves, const std::array<std::uint16_t, 256>& places,
                                         matmul_input& input) const {
  using detail::activation_tiles;
  const detail::row_places of = places_of_rows();
  const std::size_t columns = of.ordered_columns();
  const std::size_t parts = halves ? 1 : detail::activation_tiles::parts_of_fp32;
  input.tiles_.resize(row_phases_, input.batch(), columns * sizeof(std::uint16_t) / sizeof(std::uint32_t), parts);
  const std::size_t together = row_phases_ * (std::min)(activation_tiles::rows_together, input.batch());
  detail::line_vector<float> rests(together * columns);
  detail::line_vector<std::uint16_t> upper(together * columns);
  for (std::size_t row = 0; row < input.batch(); row += activation_tiles::rows_together) {
    const std::size_t rows = (std::min)(activation_tiles::rows_together, input.batch() - row);
    detail::order_rows<float>(
        of, rows, [&](std::size_t index) { return input.row(row + index); },
        [&](const float* from, std::size_t at) {
          for (std::size_t i = 0; i < of.group; ++i) rests[at + places[i]] = from[i];
        });
    // An FP32 number is the sum of its upper half, a BF16 number, and a remainder with eight bits less.
    for (std::size_t which = 0; which < parts; ++which) {
      for (std::size_t i = 0; i < row_phases_ * rows * columns; ++i) {
        const std::uint32_t bits = std::bit_cast<std::uint32_t>(rests[i]);
        upper[i] = static_cast<std::uint16_t>(bits >> 16);
        rests[i] -= std::bit_cast<float>(bits & 0xFFFF0000U);
      }
      for (std::size_t phase = 0; phase < row_phases_; ++phase) {
        input.tiles_.set_rows(phase, row, which, rows, upper.data() + phase * rows * columns,
                              columns * sizeof upper[0]);
      }
    }
  }
}

ECQ_INLINE result<void> matmul_plan::check_output(std::size_t batch, matrix_view<float> y) const {
  if (y.rows() == batch && y.columns() == rows_) return {};
  return error(errc::invalid_argument, "products of ", batch, " x ", rows_, " do not fit an output of ", y.rows(),
               " x ", y.columns());
}

ECQ_INLINE result<std::vector<matmul_plan::dense_tile>> matmul_plan::dense_tiles() const {
  constexpr std::uint64_t most_weights = detail::tile_bytes / sizeof(float);
  // If rows fill chunks, no chunk is decoded twice.
  const std::uint64_t chunk = decoder_.stream().chunk_symbols();
  const std::uint64_t weights = (std::max)(most_weights / chunk, std::uint64_t{1}) * chunk;
  const std::uint64_t columns = (std::max)(columns_, std::size_t{1});
  const auto together =
      static_cast<std::size_t>((std::max)((std::min)(weights, most_weights) / columns, std::uint64_t{1}));
  return detail::or_out_of_memory("the list of tiles", [&]() -> result<std::vector<matmul_plan::dense_tile>> {
    std::vector<dense_tile> tiles;
    for (std::size_t index = 0; index < parts_.size(); ++index) {
      const std::size_t end = index + 1 < parts_.size() ? parts_[index + 1].first_output : rows_;
      for (std::size_t output = parts_[index].first_output; output < end; output += together) {
        const std::size_t row = parts_[index].first_row + (output - parts_[index].first_output);
        tiles.push_back({parts_[index].number, row, output, (std::min)(together, end - output)});
      }
    }
    return tiles;
  });
}

ECQ_INLINE result<void> matmul_plan::run_task(instruction_set isa, std::size_t task, const matmul_input& x,
                                              matrix_view<float> y, std::span<float> edges, bool accumulate) const {
  const task_range& range = tasks_[task];
  const part& source = parts_[range.part];
  const instruction_set chosen = chosen_instruction_set(isa);
  if (run_fused(chosen, task, x, y, edges, accumulate)) return {};
  ECQ_TRY(decoded, decode_task(chosen, range, x));
  detail::row_tile& products = detail::row_tile_of_thread();
  const task_output to{task, x.batch(), y, edges, accumulate};
  const auto multiply = [&](const segment& at, std::size_t rows, std::uint64_t offset,
                            std::size_t edge) -> result<void> {
    for (std::size_t b = 0; b < x.batch(); b += detail::row_tile::most_batch) {
      const std::size_t count = (std::min)(detail::row_tile::most_batch, x.batch() - b);
      ECQ_CHECK(product(chosen, source, at, rows, decoded.behind(offset), x, b, count, products));
      for (std::size_t i = 0; i < count; ++i) {
        for (std::size_t row = 0; row < rows; ++row) {
          to.put(at.output + row, edge, b + i, products.sums[row][i]);
        }
      }
    }
    return {};
  };
  // Rows that lie entirely in this task are multiplied a few at a time.
  segment pending{};
  std::size_t waiting = 0;
  std::uint64_t pending_offset = 0;
  const auto flush = [&]() -> result<void> {
    const std::size_t rows = std::exchange(waiting, 0);
    return rows == 0 ? result<void>() : multiply(pending, rows, pending_offset, 2);
  };
  const bool integers = takes_integers(source, x);
  const bool together = integers || columns_of_scale(*source.matrix) == columns_;
  const std::size_t most_waiting = integers ? detail::row_tile::most_integer_rows : detail::row_tile::most_rows;
  const auto take = [&](const segment& at, std::uint64_t offset, std::size_t edge) -> result<void> {
    if (edge != 2 || !together) {
      ECQ_CHECK(flush());
      return multiply(at, 1, offset, edge);
    }
    if (waiting == 0) {
      pending = at;
      pending_offset = offset;
    }
    return ++waiting == most_waiting ? flush() : result<void>();
  };
  ECQ_CHECK(for_each_segment(range, take));
  return flush();
}

ECQ_INLINE result<detail::stored_weights> matmul_plan::decode_task(instruction_set isa, const task_range& range,
                                                                   const matmul_input& x) const {
  const part& source = parts_[range.part];
  const encoded_stream& stream = decoder_.stream();
  if (x.ordered_for_ == isa && takes_integers(source, x)) {
    if (const auto decoded = decode_integers(range, x)) return *decoded;
  }
  const std::size_t width = stream.element_bytes();
  const std::uint64_t first = range.begin >> stream.chunk_bits();
  const std::uint64_t last = (range.end - 1) >> stream.chunk_bits();
  const auto chunks = static_cast<std::size_t>(last - first + 1);
  const auto chunk_bytes = static_cast<std::size_t>(stream.chunk_symbols()) * width;
  // AMX reads whole rows of tiles; the last ones may end beyond the codes.
  std::byte* const tile = detail::tile_of_thread(chunks * chunk_bytes + detail::activation_tiles::row_bytes);
  std::byte* targets[detail::min_chunk_run];
  for (std::size_t index = 0; index < chunks; ++index) targets[index] = tile + index * chunk_bytes;
  detail::chunk_decoder decoder(cpu{.isa = isa}, stream, {.verify_checksums = false}, decoders_);
  if (auto decoded = decoder.decode(first, {targets, chunks}); !decoded) {
    return std::move(decoded).error().within(detail::label_of(*source.matrix, source.number));
  }
  return detail::stored_weights{tile + (range.begin - (first << stream.chunk_bits())) * width, width,
                                detail::stored_as::elements};
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

ECQ_INLINE std::size_t matmul_plan::columns_of_scale(const packed_matrix& matrix) const noexcept {
  return matrix.lossless() ? columns_ : (std::min)(columns_, matrix.layout.columns_per_group);
}

ECQ_INLINE const bf16* matmul_plan::scales_of(const packed_matrix& matrix, std::size_t row) noexcept {
  if (matrix.lossless()) return nullptr;
  return matrix.scales.data() + row / matrix.layout.rows_per_group * matrix.layout.groups_across();
}

}  // namespace ecq
