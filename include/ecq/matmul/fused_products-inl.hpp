#pragma once
/// \file
/// Definition of products with weights that are never stored.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <type_traits>
#include <variant>
#include <vector>

#include "ecq/base/config.hpp"
#include "ecq/entropy/rans/rans.hpp"
#include "ecq/format/fp32.hpp"
#include "ecq/matmul/decode_weights_avx2.hpp"
#include "ecq/matmul/decode_weights_avx512.hpp"
#include "ecq/matmul/fused_products_avx2.hpp"
#include "ecq/matmul/fused_products_avx512.hpp"
#include "ecq/matmul/fused_tiles-inl.hpp"
#include "ecq/matmul/fusion.hpp"
#include "ecq/matmul/matmul_plan.hpp"
#include "ecq/matmul/pair_escapes.hpp"
#include "ecq/matmul/pair_values.hpp"
#include "ecq/matmul/tile_products_amx.hpp"
#include "ecq/matmul/trellis_sinks_avx2.hpp"
#include "ecq/matmul/weight_tile_avx2.hpp"
#include "ecq/matmul/weight_tile_avx512.hpp"
#include "ecq/stream/chunk_decoder.hpp"

namespace ecq {

#if ECQ_X86
namespace detail {

namespace avx2 {
/// Kernels that fused products need of an instruction set. decode() decodes all groups of `chunks` chunks; there are
/// weight_chunks cursors and targets.
struct fused_kernels {
  static constexpr instruction_set isa = instruction_set::avx2;
  static constexpr bool scales_blocks = false;
  static constexpr bool by_tiles = false;
  using activation = float;
  using cursor = product_cursor;
  using products = product_target;
  using tile = tile_target;
  using dots = tile_dots;
  using scaled_dots = tile_dots;

  template <unsigned BucketBits, class Target>
  static bool decode(const weight_coding& coding, const alias_lookup<BucketBits>& lookup, rans_cursor* const* cursors,
                     std::size_t chunks, const Target& target) {
    return decode_weights(coding, lookup, cursors, chunks, target);
  }
};
}  // namespace avx2

namespace avx512 {
/// Kernels for activations of FP32 or BF16 (product_row).
template <class Activation>
struct fused_kernels {
  static constexpr instruction_set isa = instruction_set::avx512;
  static constexpr bool scales_blocks = true;  ///< sums of rows include scales if weights are met round by round
  static constexpr bool by_tiles = false;      ///< tiles of weights are multiplied by tiles of activations (AMX)
  using activation = Activation;
  using cursor = product_cursor;
  using products = product_target<Activation>;
  using tile = tile_target;
  using dots = std::conditional_t<std::is_same_v<Activation, float>, tile_dots, half_tile_dots>;
  using scaled_dots = std::conditional_t<std::is_same_v<Activation, float>, tile_dots, scaled_half_dots>;

  template <unsigned BucketBits, class Target>
  static bool decode(const weight_coding& coding, const alias_lookup<BucketBits>& lookup, rans_cursor* const* cursors,
                     std::size_t, const Target& target) {
    return decode_weights(coding, lookup, cursors, target);
  }
};
}  // namespace avx512

namespace amx {
/// Kernels that multiply a tile of BF16, decoded with AVX-512, by tiles of activations.
struct fused_kernels : avx512::fused_kernels<std::uint16_t> {
  static constexpr bool by_tiles = true;
};
}  // namespace amx

}  // namespace detail
#endif

ECQ_INLINE void matmul_plan::choose_fusion() {
#if ECQ_X86
  const encoded_stream& stream = decoder_.stream();
  const unsigned raw_bits = stream.header().raw_bits();
  detail::fusion how = detail::fusion::none;
  if (stream.pairs()) {
    const bool codes = !stream.format() && raw_bits <= detail::pair_values::most_raw_bits;
    if (codes) how = detail::fusion::pairs;
  } else if (!stream.format()) {
    if (raw_bits == 0) how = detail::fusion::codes;
  } else if (detail::avx512::bf16_writer::takes(stream.join())) {
    how = detail::fusion::bf16;
  }
  if (how == detail::fusion::none || stream.coder() != rans::id) return;
  const std::size_t group = detail::group_of(how);
  const std::size_t phases = group / std::gcd(columns_, group);
  if (phases > detail::most_row_phases || (phases > 1 && columns_ < 2 * group)) return;
  for (std::uint32_t index = 0; index < stream.table_count(); ++index) {
    detail::fused_table& table = fused_tables_.emplace_back(rans_slots(stream.table<rans>(index), stream.map()));
    if (how != detail::fusion::pairs) continue;
    for (const part& each : parts_) {
      const detail::code_table* const values = values_[each.number].get();
      const bool indices = stream.trellis() || values == nullptr;
      table.add_pairs(each.number, stream.nibbles(), raw_bits,
                      indices ? detail::every_index.data() : values->halves.data());
    }
  }
  const auto no_kernel_takes = [](const detail::fused_table& table) {
    return std::holds_alternative<std::monostate>(table.lookup);
  };
  if (std::all_of(fused_tables_.begin(), fused_tables_.end(), no_kernel_takes)) {
    fused_tables_.clear();  // not worth ordering activations and listing escapes
    return;
  }
  fusion_ = how;
  row_phases_ = phases;
  whole_groups_ = std::all_of(parts_.begin(), parts_.end(),
                              [&](const part& each) { return columns_of_scale(*each.matrix) % group == 0; });
#endif
}

ECQ_INLINE void matmul_plan::list_escapes([[maybe_unused]] const cpu& backend) {
#if ECQ_X86
  const encoded_stream& stream = decoder_.stream();
  if (fusion_ != detail::fusion::pairs || stream.trellis() || !stream.nibbles().has_escape()) return;
  const instruction_set chosen = chosen_instruction_set(instruction_set::automatic);
  if (chosen < instruction_set::avx2) return;
  std::vector<std::uint64_t> chunks;
  for (const task_range& range : tasks_) {
    const std::uint64_t last = (range.end - 1) >> stream.chunk_bits();
    for (std::uint64_t chunk = range.begin >> stream.chunk_bits(); chunk <= last; ++chunk) chunks.push_back(chunk);
  }
  std::sort(chunks.begin(), chunks.end());
  chunks.erase(std::unique(chunks.begin(), chunks.end()), chunks.end());
  // Writers choose pairs if at most one code in a hundred is an escape.
  constexpr std::uint64_t codes_of_escape = 16;
  std::uint64_t escapes = 0, codes = 0;
  for (const std::uint64_t chunk : chunks) {
    escapes += stream.escapes(chunk).size();
    codes += stream.symbols_in(chunk);
  }
  if (escapes <= codes / codes_of_escape && escapes_.list(backend, stream, decoders_, chunks)) return;
  escapes_ = {};
  if (chosen == instruction_set::avx512) fusion_ = detail::fusion::none;  // kernels of AVX2 find escapes by themselves
#endif
}

ECQ_INLINE bool matmul_plan::run_fused([[maybe_unused]] instruction_set isa, [[maybe_unused]] std::size_t task,
                                       [[maybe_unused]] const matmul_input& x, [[maybe_unused]] matrix_view<float> y,
                                       [[maybe_unused]] std::span<float> edges,
                                       [[maybe_unused]] bool accumulate) const {
#if ECQ_X86
  const task_range& range = tasks_[task];
  if (x.quantized_.order() == detail::integer_order::rounds) {
    return x.ordered_for_ == isa && takes_integers(parts_[range.part], x) && x.batch() == 1 &&
           run_fused_integers(range, {task, x.batch(), y, edges, accumulate}, x);
  }
  if (x.ordered_for_ != isa || !can_fuse(range, x)) return false;
  const task_output to{task, x.batch(), y, edges, accumulate};
  if (!x.tiles_.empty()) return multiply_tile<detail::amx::fused_kernels>(range, x, to);
  const auto multiplied = [&]<class Kernels>(Kernels) {
    const bool whole = row_phases_ == 1 && has_whole_chunks(range);
    const bool fused = whole && (whole_groups_ || (Kernels::scales_blocks && pairs_in_rounds()));
    return x.batch() == 1 && fused && !x.product_ ? multiply_fused<Kernels>(range, x, to)
                                                  : multiply_tile<Kernels>(range, x, to);
  };
  return isa == instruction_set::avx2 ? multiplied(detail::avx2::fused_kernels())
         : x.ordered_halves_.empty()  ? multiplied(detail::avx512::fused_kernels<float>())
                                      : multiplied(detail::avx512::fused_kernels<std::uint16_t>());
#else
  return false;
#endif
}

ECQ_INLINE matmul_plan::task_range matmul_plan::whole_chunks(const task_range& range) const noexcept {
  const std::uint64_t chunk = decoder_.stream().chunk_symbols();
  return {range.part, range.begin / chunk * chunk, (range.end + chunk - 1) / chunk * chunk};
}

ECQ_INLINE bool matmul_plan::has_whole_chunks(const task_range& range) const noexcept {
  const task_range whole = whole_chunks(range);
  return whole.begin == range.begin && whole.end == range.end;
}

ECQ_INLINE bool matmul_plan::can_fuse(const task_range& range, const matmul_input& x) const {
  const part& source = parts_[range.part];
  const packed_matrix& matrix = *source.matrix;
  const encoded_stream& stream = decoder_.stream();
  const std::size_t group = detail::group_of(fusion_);
  const std::size_t of_scale = columns_of_scale(matrix);
  const bool whole_scales = row_phases_ == 1 ? of_scale % detail::block_of_scale == 0 : of_scale == columns_;
  const detail::code_table* const values = values_[source.number].get();
  const bool integers = !stream.trellis() || matrix.format == dtype::int8;
  return x.is_ordered() && whole_scales && integers && (values == nullptr || values->exact_halves) &&
         source.begin % (group / row_phases_) == 0 && stream.chunk_symbols() % group == 0;
}

#if ECQ_X86
ECQ_INLINE bool matmul_plan::begin_fused(const task_range& range, bool listed, detail::fused_chunks& chunks) const {
  static_assert(detail::weight_chunks == detail::min_chunk_run);
  const encoded_stream& stream = decoder_.stream();
  const std::uint64_t first = range.begin / stream.chunk_symbols();
  const std::uint16_t table = stream.record(first).table;
  chunks.table = &fused_tables_[table];
  chunks.count = static_cast<std::size_t>(whole_chunks(range).end / stream.chunk_symbols() - first);
  for (std::size_t i = 0; i < detail::weight_chunks; ++i) {
    const std::uint64_t chunk = first + (std::min)(i, chunks.count - 1);
    if (stream.record(chunk).table != table) return false;
    const auto escapes = stream.escapes(chunk);
    detail::rans_cursor& cursor = chunks.cursors[i];
    cursor.raw = stream.raw_bits(chunk).data();
    cursor.escape_end = escapes.data() + escapes.size();
    cursor.escape = listed ? cursor.escape_end : escapes.data();
    if (!cursor.begin(stream.chunk(chunk), nullptr)) return false;
    chunks.all[i] = &cursor;
  }
  if (&range != &tasks_.back()) fetch(*(&range + 1));
  return true;
}

ECQ_INLINE void matmul_plan::fetch(const task_range& range) const {
  const encoded_stream& stream = decoder_.stream();
  const unsigned raw_bits = stream.header().raw_bits();
  const std::uint64_t first = range.begin / stream.chunk_symbols();
  const std::uint64_t end = (std::min)(first + detail::weight_chunks, stream.chunk_count());
  for (std::uint64_t index = first; index < end; ++index) {
    const chunk_bytes chunk = stream.chunk(index);
    detail::prefetch<2>(chunk.states, 0);
    detail::prefetch<9>(chunk.words, 0);
    if (raw_bits != 0) detail::prefetch<8>(stream.raw_bits(index).data(), 0);
  }
}

template <class Kernels, class Target>
bool matmul_plan::decode_fused(const task_range& range, const Target& target) const {
  detail::fused_chunks chunks;
  const bool listed = !escapes_.empty();
  if (!begin_fused(range, listed, chunks)) return false;
  const std::size_t number = parts_[range.part].number;
  const detail::code_table* const values = values_[number].get();
  const bool decoded = chunks.table->visit([&](const auto& lookup) {
    const bool pairs = fusion_ == detail::fusion::pairs;
    const detail::weight_coding coding = {fusion_, pairs ? &chunks.table->pairs.find(number)->second : nullptr,
                                          values != nullptr ? values->halves.data() : nullptr,
                                          decoder_.stream().trellis(), listed};
    return Kernels::decode(coding, lookup, chunks.all, chunks.count, target);
  });
  return decoded && chunks.ended();
}

ECQ_INLINE float matmul_plan::unit_of([[maybe_unused]] instruction_set isa) const noexcept {
  return isa == instruction_set::avx2 && decoder_.stream().trellis() ? detail::avx2::unit_on_trellis : 1.0F;
}

ECQ_INLINE const bf16* matmul_plan::scales_of_blocks(const packed_matrix& matrix, std::size_t row, std::size_t column,
                                                     std::size_t weights) const {
  const std::size_t of_scale = columns_of_scale(matrix);
  if (of_scale == detail::block_of_scale && matrix.layout.rows_per_group == 1) {
    return scales_of(matrix, row) + column / of_scale;  // scales of the next row follow
  }
  thread_local std::vector<bf16> list;
  list.resize(weights / detail::block_of_scale);
  bf16* to = list.data();
  for (std::size_t left = weights; left != 0; column = 0, ++row) {
    const bf16* const scales = scales_of(matrix, row);
    const std::size_t count = (std::min)(left, columns_ - column);
    for (detail::scale_run run({column, count, of_scale}); run.is_there(); run.advance()) {
      to = std::fill_n(to, (run.end - run.begin) / detail::block_of_scale, scales[run.number]);
    }
    left -= count;
  }
  return list.data();
}

template <class Kernels>
bool matmul_plan::multiply_fused(const task_range& range, const matmul_input& x, const task_output& to) const {
  using detail::weight_chunks;
  const part& source = parts_[range.part];
  const packed_matrix& matrix = *source.matrix;
  const std::size_t group = detail::group_of(fusion_);
  const std::size_t of_scale = columns_of_scale(matrix);
  // Kernels multiply by the scales of blocks, or leave a sum for each scale.
  const bool in_rounds = fusion_ != detail::fusion::pairs || pairs_in_rounds();
  const bool scaled = Kernels::scales_blocks && in_rounds && of_scale < columns_;
  const std::size_t of_sum = scaled ? columns_ : of_scale;
  const auto chunk_symbols = static_cast<std::size_t>(decoder_.stream().chunk_symbols());
  const std::uint64_t first_chunk = range.begin / chunk_symbols;
  const auto chunks = static_cast<std::size_t>(range.end / chunk_symbols - first_chunk);
  const auto first_row = static_cast<std::size_t>((range.begin - source.begin) / columns_);
  const auto first_column = static_cast<std::size_t>((range.begin - source.begin) % columns_);
  // Each chunk has a sum for each scale in each row; a sum covers at least a group.
  const std::size_t most_sums = chunk_symbols / group;
  thread_local std::vector<float> sums;
  sums.resize(weight_chunks * most_sums);
  typename Kernels::cursor products[weight_chunks];
  using activation = typename Kernels::activation;
  typename Kernels::products target = {{x.ordered<activation>(), x.row(0), columns_ / group, of_sum / group}, {}};
  const bf16* const blocks =
      scaled ? scales_of_blocks(matrix, source.first_row + first_row, first_column, chunks * chunk_symbols) : nullptr;
  for (std::size_t i = 0; i < weight_chunks; ++i) {
    const std::size_t behind = (std::min)(i, chunks - 1) * chunk_symbols;
    products[i].start(target.row, (first_column + behind) % columns_ / group, group);
    products[i].sums = sums.data() + i * most_sums;
    if constexpr (Kernels::scales_blocks) {
      if (scaled) products[i].scales = blocks + behind / detail::block_of_scale;
    }
    target.to[i] = &products[i];
  }
  if (!decode_fused<Kernels>(range, target)) return false;
  for (std::size_t i = 0; i < chunks; ++i) {
    if (!products[i].at_scale(target.row)) products[i].end_sum();
  }

  thread_local std::vector<float> of_rows;
  of_rows.clear();
  const detail::code_table* const values = values_[source.number].get();
  const float unit = unit_of(Kernels::isa);
  const bf16* scales = scales_of(matrix, source.first_row + first_row);
  std::span<const detail::pair_escape> escapes;
  std::size_t begin_column = first_column;  // of the row's weights in this task
  std::size_t last_column = 0;              // behind the weights so far
  float of_scale_sum = 0;
  float of_row = 0;
  bool finite = true;
  const auto end_scale = [&](std::size_t column) {
    // If a sum is not finite, products are not fused: escapes count as 0 at first, and 0 times infinity would be NaN;
    // and codes that are not numbers must be found.
    finite = finite && fp32::is_finite(std::bit_cast<std::uint32_t>(of_scale_sum));
    const float scale = scales == nullptr || scaled ? 1 : static_cast<float>(scales[column / of_scale]);
    of_row += of_scale_sum * unit * scale;
    of_scale_sum = 0;
  };
  const auto end_row = [&] {
    if (!matrix.lossless() && matrix.zero != 0) {
      const double activations = x.sum(0, begin_column, last_column - begin_column);
      of_row += static_cast<float>(static_cast<double>(matrix.zero) * activations);
    }
    of_rows.push_back(of_row);
    of_row = 0;
    begin_column = 0;
  };
  const auto add = [&](const detail::sum_run& run) {
    if (run.begin == 0) escapes = escapes_.of(first_chunk + run.chunk);
    if (run.column == 0) scales = scales_of(matrix, source.first_row + first_row + of_rows.size());
    float sum = sums[run.chunk * most_sums + run.number];
    for (; !escapes.empty() && escapes.front().place() < run.begin + run.count; escapes = escapes.subspan(1)) {
      const std::size_t column = run.column + (escapes.front().place() - run.begin);
      const float scale = scaled ? static_cast<float>(scales[column / of_scale]) : 1;
      const std::uint32_t half = values->halves[escapes.front().code()];
      sum += std::bit_cast<float>(half << 16) * scale * x.row(0)[column];
    }
    of_scale_sum += sum;
    last_column = run.column + run.count;
    if (run.ends_scale) end_scale(run.column);
    if (last_column == columns_) end_row();
  };
  detail::for_each_sum_run(first_column, columns_, of_sum, chunks, chunk_symbols, add);
  if (last_column % of_sum != 0 && last_column != columns_) end_scale(last_column);
  if (last_column != columns_) end_row();
  if (!finite) return false;
  for (std::size_t i = 0; i < of_rows.size(); ++i) {
    const bool whole = (i != 0 || first_column == 0) && (i + 1 != of_rows.size() || last_column == columns_);
    to.put(source.first_output + first_row + i, whole ? 2 : i == 0 ? 0 : 1, 0, of_rows[i]);
  }
  return true;
}
#endif

}  // namespace ecq
