#pragma once
/// \file
/// Definition of products of integer codes with Int8 activations, in the order in which kernels decode codes. For
/// one row of activations, codes are never stored; for more rows, they are stored as they leave the registers.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ecq/base/config.hpp"
#include "ecq/matmul/code_table.hpp"
#include "ecq/matmul/decode_weights_avx2.hpp"
#include "ecq/matmul/fused_integers_avx512.hpp"
#include "ecq/matmul/fused_table.hpp"
#include "ecq/matmul/fusion.hpp"
#include "ecq/matmul/matmul_plan.hpp"
#include "ecq/matmul/pair_escapes.hpp"
#include "ecq/matmul/pair_values.hpp"
#include "ecq/matmul/quantized_activations.hpp"
#include "ecq/matmul/stored_weights.hpp"
#include "ecq/matmul/thread_tile.hpp"
#include "ecq/matmul/weight_tile_avx2.hpp"

namespace ecq {

ECQ_INLINE detail::integer_order matmul_plan::order_of_integers(
    [[maybe_unused]] instruction_set chosen) const noexcept {
#if ECQ_X86
  const bool codes = fusion_ == detail::fusion::codes || fusion_ == detail::fusion::pairs;
  const bool ordered = codes && (whole_groups_ || row_phases_ > 1) && !decoder_.stream().trellis();
  if (ordered && chosen == instruction_set::avx2) {
    return machine_has_integer_dots_avx2() ? detail::integer_order::bytes_avx2 : detail::integer_order::words_avx2;
  }
  if (ordered && chosen == instruction_set::avx512 && fusion_ == detail::fusion::pairs && machine_has_integer_dots()) {
    return detail::integer_order::rounds;
  }
#endif
  return detail::integer_order::columns;
}

ECQ_INLINE std::optional<detail::stored_weights> matmul_plan::decode_integers(
    [[maybe_unused]] const task_range& range, [[maybe_unused]] const matmul_input& x) const {
#if ECQ_X86
  const part& source = parts_[range.part];
  const detail::integer_order order = x.quantized_.order();
  if (order == detail::integer_order::columns) return {};
  const task_range whole = whole_chunks(range);
  const bool whole_scales = row_phases_ == 1 || columns_of_scale(*source.matrix) == columns_;
  const bool in_places = source.begin % (detail::group_of(fusion_) / row_phases_) == 0;
  if (!whole_scales || !in_places || whole.end > decoder_.stream().size()) return {};
  const bool words = order == detail::integer_order::words_avx2;
  const std::size_t width = words ? sizeof(std::int16_t) : 1;
  std::byte* const tile = detail::tile_of_thread(static_cast<std::size_t>(whole.end - whole.begin) * width);
  const bool decoded = order == detail::integer_order::rounds
                           ? source.matrix->format == dtype::int8 && decode_in_rounds(range, tile)
                       : words ? decode_by_avx2<detail::avx2::tile_target>(range, tile)
                               : decode_by_avx2<detail::avx2::byte_target>(range, tile);
  if (!decoded) return {};
  const auto how = words ? detail::stored_as::words : detail::stored_as::bytes;
  return detail::stored_weights{tile, width, how}.behind(range.begin - whole.begin);
#else
  return {};
#endif
}

#if ECQ_X86
ECQ_INLINE bool matmul_plan::decode_in_rounds(const task_range& range, std::byte* tile) const {
  detail::fused_chunks chunks;
  if (!begin_fused(range, !escapes_.empty(), chunks)) return false;
  const encoded_stream& stream = decoder_.stream();
  const auto chunk_symbols = static_cast<std::size_t>(stream.chunk_symbols());
  std::byte* to[detail::weight_chunks];
  detail::place_chunks(tile, chunks.count, chunk_symbols, to);
  const bool decoded = chunks.table->visit([&](const auto& lookup) {
    return detail::avx512::advance_integers<detail::avx512::pair_integer_tiles>(
        lookup, stream.nibbles(), stream.header().raw_bits(), chunks.all, to);
  });
  if (!decoded || !chunks.ended()) return false;
  for (std::size_t i = 0; i < chunks.count; ++i) {
    for (const detail::pair_escape escape : escapes_.of(range.begin / chunk_symbols + i)) {
      const std::size_t met = detail::place_of_byte_in_rounds(escape.place());
      tile[i * chunk_symbols + met] = std::byte{escape.code()} ^ std::byte{0x80};
    }
  }
  return true;
}

/// Decodes a task by the kernels that store BF16 values of codes: they store 16-bit integers, or their low bytes, as
/// well.
template <class Target>
bool matmul_plan::decode_by_avx2(const task_range& range, std::byte* tile) const {
  const part& source = parts_[range.part];
  const encoded_stream& stream = decoder_.stream();
  const detail::code_table& values = *values_[source.number];
  const bool pairs = fusion_ == detail::fusion::pairs;
  detail::fused_chunks chunks;
  const bool listed = !escapes_.empty();
  if ((pairs && !values.all_finite) || !begin_fused(range, listed, chunks)) return false;
  std::uint16_t integers[256];
  for (unsigned code = 0; code < 256; ++code) {
    const bool is_signed = source.matrix->format == dtype::int8;
    const unsigned word = is_signed && code >= 128 ? code - 256 : code;
    integers[code] = static_cast<std::uint16_t>(is_signed && detail::avx2::takes_bytes<Target> ? code ^ 0x80U : word);
  }
  Target target{};
  auto* const elements = reinterpret_cast<typename Target::element*>(tile);
  const auto chunk_symbols = static_cast<std::size_t>(stream.chunk_symbols());
  detail::place_chunks(elements, chunks.count, chunk_symbols, target.to);
  const bool decoded = chunks.table->visit([&](const auto& lookup) {
    const auto stands_for_number = [&](std::uint8_t code) { return values.is_finite(std::byte{code}); };
    // A code that is no number is left to integer_product(), which reports it.
    if (!pairs && !std::ranges::all_of(lookup.code, stands_for_number)) return false;
    std::optional<detail::pair_values> of_pairs;
    if (pairs) of_pairs.emplace(lookup.code, stream.nibbles(), stream.header().raw_bits(), integers);
    const detail::weight_coding coding = {fusion_, pairs ? &*of_pairs : nullptr, integers, stream.trellis(), listed};
    return detail::avx2::decode_weights(coding, lookup, chunks.all, chunks.count, target);
  });
  if (!decoded || !chunks.ended()) return false;
  for (std::size_t i = 0; i < chunks.count; ++i) {
    for (const detail::pair_escape escape : escapes_.of(range.begin / chunk_symbols + i)) {
      const std::size_t place = detail::avx2::takes_bytes<Target>
                                    ? detail::place_of_byte(fusion_, escape.place())
                                    : detail::place_of_value(fusion_, instruction_set::avx2, false, escape.place());
      elements[i * chunk_symbols + place] = static_cast<typename Target::element>(integers[escape.code()]);
    }
  }
  return true;
}
#endif

ECQ_INLINE bool matmul_plan::run_fused_integers([[maybe_unused]] const task_range& range,
                                                [[maybe_unused]] const task_output& to,
                                                [[maybe_unused]] const matmul_input& x) const {
#if ECQ_X86
  using detail::weight_chunks;
  constexpr std::size_t group = detail::group_of(detail::fusion::pairs);
  const part& source = parts_[range.part];
  const packed_matrix& matrix = *source.matrix;
  const encoded_stream& stream = decoder_.stream();
  const auto chunk_symbols = static_cast<std::size_t>(stream.chunk_symbols());
  const bool whole = row_phases_ == 1 && source.begin % group == 0 && has_whole_chunks(range);
  // Up to this many columns, sums of (code + 128) * activation do not overflow.
  constexpr std::size_t most_columns = std::size_t{1} << 16;
  if (!whole || matrix.format != dtype::int8 || columns_of_scale(matrix) != columns_ || columns_ > most_columns) {
    return false;
  }
  detail::fused_chunks chunks;
  if (!begin_fused(range, !escapes_.empty(), chunks)) return false;
  const detail::product_row<std::int8_t> row = {x.quantized_.ordered_bytes(0, 0), nullptr, columns_ / group,
                                                columns_ / group};
  detail::avx512::integer_cursor products[weight_chunks];
  // Each chunk has a sum for each row of which it has weights.
  const std::size_t most_sums = chunk_symbols / columns_ + 3;
  thread_local std::vector<std::int32_t> sums;
  sums.resize(weight_chunks * most_sums);
  const std::uint64_t first_chunk = range.begin / chunk_symbols;
  const auto first_row = static_cast<std::size_t>((range.begin - source.begin) / columns_);
  const auto first_column = static_cast<std::size_t>((range.begin - source.begin) % columns_);
  for (std::size_t i = 0; i < weight_chunks; ++i) {
    const std::size_t behind = (std::min)(i, chunks.count - 1) * chunk_symbols;
    products[i].start(row, (first_column + behind) % columns_ / group, group);
    products[i].sums = sums.data() + i * most_sums;
  }
  const unsigned bits = stream.header().raw_bits();
  const bool decoded = chunks.table->visit([&](const auto& lookup) {
    detail::avx512::integer_cursor* const cursors = products;
    return machine_has_late_masks() ? detail::avx512::advance_integers<detail::avx512::eight_integer_products>(
                                          lookup, stream.nibbles(), bits, chunks.all, row, cursors)
                                    : detail::avx512::advance_integers<detail::avx512::four_integer_products>(
                                          lookup, stream.nibbles(), bits, chunks.all, row, cursors);
  });
  if (!decoded || !chunks.ended()) return false;
  const std::int8_t* const q = x.quantized_.row(0);
  std::span<const detail::pair_escape> escapes;
  const std::byte* raw = nullptr;
  std::size_t row_of_task = 0;
  std::size_t begin_column = first_column;  // of the row's weights in this task
  std::size_t last_column = 0;              // behind the weights so far
  std::int32_t sum = 0;
  const auto put = [&](bool last) {
    const bool whole_row = (row_of_task != 0 || first_column == 0) && (!last || last_column == columns_);
    const std::int32_t activations = x.quantized_.sum(0, begin_column, last_column - begin_column);
    const bf16* const scales = scales_of(matrix, source.first_row + first_row + row_of_task);
    const double scale = scales == nullptr ? 1 : static_cast<double>(static_cast<float>(scales[0]));
    const double scaled = scale * (sum - 128 * activations);
    const double all = activations;
    float product = 0;
    detail::finish_products(&scaled, static_cast<double>(matrix.zero), &all, x.quantized_.scales(), 1, &product);
    to.put(source.first_output + first_row + row_of_task, whole_row ? 2 : row_of_task == 0 ? 0 : 1, 0, product);
    ++row_of_task;
    begin_column = 0;
    sum = 0;
  };
  const auto add = [&](const detail::sum_run& run) {
    if (run.begin == 0) {
      escapes = escapes_.of(first_chunk + run.chunk);
      raw = stream.raw_bits(first_chunk + run.chunk).data();
    }
    sum += sums[run.chunk * most_sums + run.number];
    for (; !escapes.empty() && escapes.front().place() < run.begin + run.count; escapes = escapes.subspan(1)) {
      // So far, escapes have counted as their raw bits.
      const std::size_t place = escapes.front().place();
      const auto low = static_cast<int>(detail::raw_bits_at(raw, bits, place));
      const int missing = static_cast<std::int8_t>(escapes.front().code()) - low;
      sum += missing * q[run.column + (place - run.begin)];
    }
    last_column = run.column + run.count;
    if (last_column == columns_) put(false);
  };
  detail::for_each_sum_run(first_column, columns_, columns_, chunks.count, chunk_symbols, add);
  if (last_column != columns_) put(true);
  return true;
#else
  return false;
#endif
}

}  // namespace ecq
