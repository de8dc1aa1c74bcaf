#pragma once
/// \file
/// Definition of products of Int8 codes in pairs with a row of Int8 activations, whose codes are never stored.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "ecq/base/config.hpp"
#include "ecq/matmul/fused_integers_avx512.hpp"
#include "ecq/matmul/fused_table.hpp"
#include "ecq/matmul/fusion.hpp"
#include "ecq/matmul/matmul_plan.hpp"
#include "ecq/matmul/pair_values.hpp"
#include "ecq/matmul/quantized_activations.hpp"

namespace ecq {

ECQ_INLINE bool matmul_plan::fuses_integers([[maybe_unused]] instruction_set chosen) const noexcept {
#if ECQ_X86
  // Sums of (code + 128) * activation do not overflow.
  constexpr std::size_t most_columns = std::size_t{1} << 16;
  return chosen == instruction_set::avx512 && machine_has_integer_dots() && pairs_in_rounds() &&
         columns_ <= most_columns;
#else
  return false;
#endif
}

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
  const bool whole = source.begin % group == 0 && range.begin % chunk_symbols == 0 && range.end % chunk_symbols == 0;
  if (!whole || matrix.format != dtype::int8 || columns_of_scale(matrix) != columns_) return false;
  detail::fused_chunks chunks;
  if (!begin_fused(range, !escapes_.empty(), chunks)) return false;
  if (&range != &tasks_.back()) fetch(*(&range + 1));
  const detail::product_row<std::int8_t> row = {x.ordered_integers_.data(), nullptr, columns_ / group,
                                                columns_ / group};
  detail::avx512::integer_cursor products[weight_chunks];
  // For each chunk, a sum for each row that it has weights of.
  const std::size_t most_sums = chunk_symbols / columns_ + 3;
  thread_local std::vector<std::int32_t> sums;
  sums.resize(weight_chunks * most_sums);
  const auto column_of = [&](std::size_t chunk) {
    return static_cast<std::size_t>((range.begin + chunk * chunk_symbols - source.begin) % columns_);
  };
  for (std::size_t i = 0; i < weight_chunks; ++i) {
    products[i].start(row, column_of((std::min)(i, chunks.count - 1)) / group, group);
    products[i].sums = sums.data() + i * most_sums;
  }
  const unsigned bits = stream.header().raw_bits();
  const bool decoded = chunks.table->visit([&](const auto& lookup) {
    return detail::avx512::multiply_integers(lookup, stream.nibbles(), bits, chunks.all, row, products);
  });
  if (!decoded || !chunks.ended()) return false;
  const std::int8_t* const q = x.quantized_.row(0);
  for (std::size_t i = 0; i < chunks.count; ++i) {
    // So far, escapes counted as their raw bits.
    const std::uint64_t chunk = range.begin / chunk_symbols + i;
    const std::byte* const raw = stream.raw_bits(chunk).data();
    const std::size_t first = column_of(i);
    escapes_.for_each(chunk, [&](std::size_t place, std::size_t code) {
      const auto low = static_cast<int>(detail::raw_bits_at(raw, bits, place));
      const int missing = static_cast<std::int8_t>(static_cast<std::uint8_t>(code)) - low;
      sums[i * most_sums + (first + place) / columns_] += missing * q[(first + place) % columns_];
    });
  }
  const auto put = [&](const segment& at, std::uint64_t offset, std::size_t edge) -> result<void> {
    std::int32_t sum = -128 * x.quantized_.sum(0, at.first_column, at.columns);
    for (std::size_t place = static_cast<std::size_t>(offset), end = place + at.columns; place < end;) {
      const std::size_t i = place / chunk_symbols;
      sum += sums[i * most_sums + (column_of(i) + place % chunk_symbols) / columns_];
      place = (std::min)(end, (i + 1) * chunk_symbols);
    }
    const bf16* const scales = scales_of(matrix, at.row);
    const double scaled = static_cast<double>(scales == nullptr ? 1 : static_cast<float>(scales[0])) * sum;
    float product = 0;
    const double activations = x.quantized_.sum(0, at.first_column, at.columns);
    detail::finish_products(&scaled, static_cast<double>(matrix.zero), &activations, x.quantized_.scales(), 1,
                            &product);
    to.put(at.output, edge, 0, product);
    return {};
  };
  static_cast<void>(for_each_segment(range, put));
  return true;
#else
  return false;
#endif
}

}  // namespace ecq
