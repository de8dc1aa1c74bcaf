#pragma once
/// \file
/// Definition of products with weights that are never stored.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ecq/base/config.hpp"
#include "ecq/entropy/rans/rans.hpp"
#include "ecq/format/fp32.hpp"
#include "ecq/matmul/fused_products_avx512.hpp"
#include "ecq/matmul/fusion.hpp"
#include "ecq/matmul/matmul_plan.hpp"
#include "ecq/stream/chunk_decoder.hpp"

namespace ecq {

ECQ_INLINE void matmul_plan::choose_fusion() {
#if ECQ_X86
  const encoded_stream& stream = decoder_.stream();
  const unsigned raw_bits = stream.header().raw_bits();
  detail::fusion how = detail::fusion::none;
  if (stream.pairs()) {
    const bool codes = !stream.format() && raw_bits <= detail::avx512::pair_values::most_raw_bits;
    if (codes) how = detail::fusion::pairs;
  } else if (!stream.format()) {
    if (raw_bits == 0) how = detail::fusion::codes;
  } else if (detail::avx512::bf16_writer::takes(stream.join())) {
    how = detail::fusion::bf16;
  }
  if (how == detail::fusion::none || stream.coder() != rans::id || columns_ % detail::group_of(how) != 0) return;
  for (std::uint32_t index = 0; index < stream.table_count(); ++index) {
    fused_tables_.emplace_back(stream.table<rans>(index), stream.map());
  }
  fusion_ = how;
#endif
}

ECQ_INLINE bool matmul_plan::run_fused(std::size_t task, const matmul_input& x, matrix_view<float> y,
                                       std::span<float> edges, bool accumulate) const {
  const task_range& range = tasks_[task];
  const packed_matrix& matrix = *parts_[range.part].matrix;
  thread_local std::vector<float> sums;
  if (!multiply_fused(range, x, sums)) return false;
  // Escapes count as 0 at first, and 0 times infinity would be NaN; and codes that are no numbers must be found.
  const bool finite = std::all_of(sums.begin(), sums.end(),
                                  [](float sum) { return fp32::is_finite(std::bit_cast<std::uint32_t>(sum)); });
  if (!finite) return false;
  std::size_t index = 0;
  const auto emit = [&](const segment& at, std::uint64_t, std::size_t edge) -> result<void> {
    float sum = sums[index++];
    if (!matrix.lossless()) sum *= static_cast<float>(matrix.scales[at.row / matrix.layout.rows_per_group]);
    if (!matrix.lossless() && matrix.zero != 0) {
      sum += static_cast<float>(static_cast<double>(matrix.zero) * x.sum(0, at.first_column, at.columns));
    }
    if (edge != 2) {
      edges[2 * task + edge] = sum;
    } else if (accumulate) {
      y(0, at.output) += sum;
    } else {
      y(0, at.output) = sum;
    }
    return {};
  };
  static_cast<void>(for_each_segment(range, emit));
  return true;
}

ECQ_INLINE bool matmul_plan::multiply_fused([[maybe_unused]] const task_range& range,
                                            [[maybe_unused]] const matmul_input& x,
                                            [[maybe_unused]] std::vector<float>& sums) const {
#if ECQ_X86
  const encoded_stream& stream = decoder_.stream();
  const part& source = parts_[range.part];
  const packed_matrix& matrix = *source.matrix;
  const std::size_t group = detail::group_of(fusion_);
  const std::uint64_t chunk_symbols = stream.chunk_symbols();
  const bool one_scale = matrix.lossless() || matrix.layout.columns_per_group >= columns_;
  if (x.ordered_.empty() || !one_scale || source.begin % group != 0 || chunk_symbols % group != 0 ||
      range.begin % chunk_symbols != 0 || range.end % chunk_symbols != 0) {
    return false;
  }
  const detail::code_table* const values = values_[source.number].get();
  const std::uint64_t first = range.begin / chunk_symbols;
  const auto chunks = static_cast<std::size_t>(range.end / chunk_symbols - first);
  const std::uint16_t table = stream.record(first).table;
  const rans_slots_view slots = fused_tables_[table].view();
  if (slots.constant || slots.bucket_bits == 0 || (values != nullptr && !values->exact_halves)) return false;
  const detail::avx512::product_row row = {x.ordered_.data(), x.row(0), columns_ / group};
  const auto most_rows = static_cast<std::size_t>(chunk_symbols / columns_) + 2;
  thread_local std::vector<float> of_chunks;  // most_rows sums for each chunk, of its part of each row
  of_chunks.assign(chunks * most_rows, 0.0F);
  detail::rans_cursor cursors[detail::min_chunk_run];
  detail::avx512::product_cursor products[detail::min_chunk_run];
  for (std::size_t i = 0; i < chunks; ++i) {
    if (stream.record(first + i).table != table) return false;
    const auto escapes = stream.escapes(first + i);
    cursors[i].raw = stream.raw_bits(first + i).data();
    cursors[i].escape = escapes.data();
    cursors[i].escape_end = escapes.data() + escapes.size();
    if (!cursors[i].begin(stream.chunk(first + i), nullptr)) return false;
    const auto column = static_cast<std::size_t>(((first + i) * chunk_symbols - source.begin) % columns_);
    products[i].x = row.x + column;
    products[i].plain = row.plain + column;
    products[i].groups = row.groups - column / group;
    products[i].sums = of_chunks.data() + i * most_rows;
  }
  const auto multiply = [&](const auto& lookup) {
    return detail::avx512::multiply_chunks(fusion_, lookup, stream.nibbles(), stream.header().raw_bits(),
                                           values != nullptr ? values->halves.data() : nullptr, row, cursors, products,
                                           chunks, most_rows);
  };
  if (!(slots.bucket_bits == 5 ? multiply(detail::alias_lookup<5>(slots)) : multiply(detail::alias_lookup<6>(slots)))) {
    return false;
  }
  for (std::size_t i = 0; i < chunks; ++i) {
    const bool whole = slots.visit([&](const auto& one) { return cursors[i].finish(one) == errc::ok; });
    if (!whole || cursors[i].escape != cursors[i].escape_end) return false;
    if (products[i].groups != row.groups) products[i].end_row();
    products[i].sums = of_chunks.data() + i * most_rows;
  }
  sums.clear();
  const auto add_up = [&](const segment& at, std::uint64_t offset, std::size_t) -> result<void> {
    float sum = 0;
    for (std::uint64_t place = offset, end = offset + at.columns; place < end;) {
      const auto chunk = static_cast<std::size_t>(place / chunk_symbols);
      sum += *products[chunk].sums++;
      place = (std::min)(end, (chunk + 1) * chunk_symbols);
    }
    sums.push_back(sum);
    return {};
  };
  static_cast<void>(for_each_segment(range, add_up));
  return true;
#else
  return false;
#endif
}

}  // namespace ecq
