#pragma once
/// \file
/// Definition of products by a tile of weights in the order in which kernels decode them, for any number of rows of
/// activations.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include "ecq/base/config.hpp"
#include "ecq/format/bf16.hpp"
#include "ecq/matmul/fusion.hpp"
#include "ecq/matmul/matmul_plan.hpp"
#include "ecq/matmul/pair_escapes.hpp"
#include "ecq/matmul/quantized_activations.hpp"
#include "ecq/matmul/thread_tile.hpp"
#include "ecq/matmul/tile_products_amx.hpp"
#include "ecq/matmul/weight_tile.hpp"

namespace ecq {

#if ECQ_X86
template <class Kernels>
bool matmul_plan::multiply_tile(const task_range& range, const matmul_input& x, const task_output& to) const {
  using dots = typename Kernels::dots;
  const packed_matrix& matrix = *parts_[range.part].matrix;
  const encoded_stream& stream = decoder_.stream();
  const task_range whole = whole_chunks(range);
  const auto weights = static_cast<std::size_t>(whole.end - whole.begin);
  if (whole.end > stream.size() || weights / columns_ + 2 > most_tile_sums / x.batch()) return false;
  std::uint16_t* const tile = reinterpret_cast<std::uint16_t*>(detail::tile_of_thread(weights * sizeof(std::uint16_t)));
  typename Kernels::tile target{};
  const auto chunk = static_cast<std::size_t>(stream.chunk_symbols());
  detail::place_chunks(tile, weights / chunk, chunk, target.to);
  if (!decode_fused<Kernels>(range, target)) return false;
  const detail::code_table* const values = values_[parts_[range.part].number].get();
  for (std::size_t i = 0; i < weights / chunk; ++i) {
    for (const detail::pair_escape escape : escapes_.of(whole.begin / chunk + i)) {
      const std::size_t place = detail::place_of_value(fusion_, Kernels::isa, pairs_in_rounds(), escape.place());
      tile[i * chunk + place] = values->halves[escape.code()];
    }
  }
  const std::size_t batch = x.batch();
  const std::size_t group = detail::group_of(fusion_);
  const std::size_t stride = places_of_rows().ordered_columns();
  const std::size_t of_scale = columns_of_scale(matrix);
  const bool scaled = of_scale < columns_;  // a single scale is applied to the sums of a row
  const bool two_blocks = Kernels::scales_blocks && pairs_in_rounds();
  thread_local std::vector<float> sums;
  sums.clear();
  std::size_t row_of_task = 0;
  // Multiplies `rows` rows, each `apart` rows behind the one before, from the columns of `at` on. All begin at the same
  // place in a group. In the groups in which they begin and end, activations are 0 for the weights of other rows.
  const auto multiply = [&](std::size_t index, const segment& at, std::uint64_t offset, std::size_t rows,
                            std::size_t apart) {
    const auto phase = static_cast<std::size_t>((range.begin + offset - at.first_column) % group);
    const std::size_t begin = (phase + at.first_column) / group * group;
    const std::size_t end = (phase + at.first_column + at.columns + group - 1) / group * group;
    const std::uint64_t first = range.begin - whole.begin + offset - (phase + at.first_column - begin);
    float* const products = sums.data() + index * batch;
    if constexpr (!Kernels::by_tiles && std::is_same_v<typename dots::activation, std::uint16_t>) {
      if (x.product_) {
        const auto as_bf16 = [](const std::uint16_t* halves) { return reinterpret_cast<const bf16*>(halves); };
        const auto of_rows = [](std::size_t elements) { return static_cast<std::ptrdiff_t>(elements); };
        x.product_({as_bf16(x.ordered<std::uint16_t>() + begin), batch, end - begin, of_rows(stride)},
                   {as_bf16(tile + first), rows, end - begin, of_rows(apart * columns_)},
                   {products, batch, rows, 1, of_rows(apart * batch)});
        return;
      }
    }
    const auto scales = [&](std::size_t row) { return scaled ? scales_of(matrix, at.row + row * apart) : nullptr; };
    const std::size_t set = phase / (group / row_phases_);
    if constexpr (Kernels::by_tiles) {
      constexpr std::size_t of_step = detail::amx::halves_of_step;
      const detail::amx::tile_operands operands = {
          reinterpret_cast<const std::byte*>(tile + first), apart * columns_ * sizeof *tile,
          x.tiles_.at(set, 0, begin / of_step), x.tiles_.stride(), x.tiles_.parts()};
      if (!scaled) {
        return detail::amx::set_half_products(operands, rows, batch, (end - begin) / of_step, products, apart * batch);
      }
      constexpr std::size_t together = detail::amx::rows_together;
      for (std::size_t row = 0; row < rows; row += together) {
        const std::size_t count = (std::min)(together, rows - row);
        const bf16* of_rows[together];
        for (std::size_t i = 0; i < count; ++i) of_rows[i] = scales(row + i);
        detail::amx::add_scaled_products(operands.behind(row, 0, 0), of_rows, count, batch,
                                         {begin, end - begin, of_scale, two_blocks}, products + row * apart * batch,
                                         apart * batch);
      }
      return;
    }
    const auto add = [&]<class Dots>() {
      detail::add_tile_products<Dots>(
          tile + first, apart * columns_, scales, rows, x.ordered<typename Dots::activation>() + set * batch * stride,
          stride, {begin, end - begin, scaled ? of_scale : stride, two_blocks}, batch, products, apart * batch);
    };
    if constexpr (!std::is_same_v<typename Kernels::scaled_dots, dots>) {
      if (scaled) return add.template operator()<typename Kernels::scaled_dots>();
    }
    add.template operator()<dots>();
  };
  // Whole rows, all but the first and the last row, are multiplied together.
  segment first_whole{};
  std::uint64_t first_offset = 0;
  std::size_t whole_rows = 0;
  const auto flush = [&] {
    for (std::size_t i = 0; i < (std::min)(row_phases_, whole_rows); ++i) {
      segment at = first_whole;
      at.row += i;
      multiply(row_of_task - whole_rows + i, at, first_offset + i * columns_, (whole_rows - i - 1) / row_phases_ + 1,
               row_phases_);
    }
    whole_rows = 0;
  };
  const auto take = [&](const segment& at, std::uint64_t offset, std::size_t edge) -> result<void> {
    if (edge != 2) flush();
    sums.resize(sums.size() + batch);
    if (edge != 2) {
      multiply(row_of_task, at, offset, 1, 1);
    } else if (whole_rows++ == 0) {
      first_whole = at;
      first_offset = offset;
    }
    ++row_of_task;
    return {};
  };
  static_cast<void>(for_each_segment(range, take));
  flush();
  const bool finite = detail::largest_magnitude(sums.data(), sums.size()) <
                      std::bit_cast<std::int32_t>(std::numeric_limits<float>::infinity());
  if (!finite) return false;
  const float unit = unit_of(Kernels::isa);
  const bool affine = !matrix.lossless() && matrix.zero != 0;
  float* of_row = sums.data();
  const float* whole_sums = nullptr;
  std::size_t first_output = 0;
  std::size_t finished = 0;  // whole rows, whose outputs follow each other
  const auto finish = [&](const segment& at, std::uint64_t, std::size_t edge) -> result<void> {
    const bf16* const scales = scaled ? nullptr : scales_of(matrix, at.row);
    const float scale = scales == nullptr ? 1 : static_cast<float>(scales[0]);
    const float of_unit = unit;  // a local copy, which no store to a sum can change
    for (std::size_t b = 0; b < batch; ++b) of_row[b] = of_row[b] * of_unit * scale;
    for (std::size_t b = 0; affine && b < batch; ++b) {
      of_row[b] += static_cast<float>(static_cast<double>(matrix.zero) * x.sum(b, at.first_column, at.columns));
    }
    if (edge != 2) {
      for (std::size_t b = 0; b < batch; ++b) to.put(at.output, edge, b, of_row[b]);
    } else if (finished++ == 0) {
      whole_sums = of_row;
      first_output = at.output;
    }
    of_row += batch;
    return {};
  };
  static_cast<void>(for_each_segment(range, finish));
  to.put_rows(first_output, finished, whole_sums);
  return true;
}
#endif

}  // namespace ecq
