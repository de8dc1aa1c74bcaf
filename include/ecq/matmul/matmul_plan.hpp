#pragma once
/// \file
/// Plans for products with matrices that stay coded: y = x W^T. Weights are decoded a few chunks at a time into a tile
/// that stays in the cache, multiplied, and discarded. ecq::matmul (matmul/matmul.hpp) multiplies by a plan. An engine
/// with its own threads runs the tasks of a plan itself: prepare(), run() for each of tasks(), join().

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "ecq/base/backend.hpp"
#include "ecq/base/config.hpp"
#include "ecq/base/instruction_set.hpp"
#include "ecq/base/matrix_view.hpp"
#include "ecq/base/out_of_memory.hpp"
#include "ecq/base/result.hpp"
#include "ecq/block_decoder.hpp"
#include "ecq/format/bf16.hpp"
#include "ecq/matmul/code_table.hpp"
#include "ecq/matmul/dense_product.hpp"
#include "ecq/matmul/dot_product.hpp"
#include "ecq/matmul/fused_table.hpp"
#include "ecq/matmul/fusion.hpp"
#include "ecq/matmul/matmul_input.hpp"
#include "ecq/matmul/ordered_rows.hpp"
#include "ecq/matmul/pair_escapes.hpp"
#include "ecq/matmul/stored_weights.hpp"
#include "ecq/packed.hpp"
#include "ecq/stream/coder_set.hpp"

namespace ecq {

/// Selection of rows of a matrix of a block.
struct row_selection {
  std::size_t matrix = 0;  ///< number of the matrix in the block
  std::size_t first_row = 0;
  std::size_t rows = (std::numeric_limits<std::size_t>::max)();  ///< at most; by default, all rows from first_row on
};

/// Plan for products with rows of matrices of one block. All matrices have the same number of columns, and their rows
/// together are one matrix W (q, k and v; gate and up). The bytes of the stream and the matrices must outlive the plan,
/// which refers to them. The plan itself holds only tables and lists of escapes and exact weights. A plan does not
/// change, so any number of threads may use it.
///
/// Each element of y is a sum of products in FP32. With c columns, its error is at most (c / 8 + 64 t) 2^-24 times the
/// sum of (|value * scale| + |zero point| + |exact weight|) |x| of its row, where t is 1 plus the number of groups and
/// of chunks that the row lies in. y depends on the instruction set, but neither on the number of threads nor on the
/// order of tasks. NaN and infinity in x, and sums beyond FP32, give the results that IEEE 754 defines. Values of codes
/// are multiplied and added before scales are applied. If such a sum of values times x is beyond FP32, y is infinite or
/// NaN even if scales would bring it back; if it is subnormal, the bound does not hold. If x is BF16 and the machine
/// has fast dot products of BF16 (machine_has_fast_bf16_dots()) or AMX (machine_has_amx()), subnormal numbers may count
/// as 0. With AMX, x in FP32 is multiplied as three BF16 numbers whose sum it is, unless the largest |x| of a row is
/// below 2^-60; subnormal ones among these numbers, and subnormal products, may count as 0.
///
/// With AVX-512 or AVX2, a plan of narrow pairs keeps 4 bytes for each escape: 0.02 bit per weight if one code in 2000
/// is an escape, and 2 bits per weight at most. With more escapes, weights are stored before they are multiplied
/// (AVX-512).
///
/// With activation_type::bf16, x in FP32 is first rounded to BF16 and then treated as BF16. This adds at most 2^-9
/// times the sum of |weight| |x| of its row to the error of an element of y.
///
/// With activation_type::int8, matrices of Int8, uint8 and uint4 codes are multiplied in integers. A sum of code * q is
/// exact for any number of columns. All further arithmetic is FP64 until an element of y, or the part of it that a task
/// adds, is rounded to FP32. So y is the same with every instruction set. Other matrices are multiplied in FP32 as
/// above, by q * scale. Either way, the error of an element of y is at most max |x| / 254 times the sum of |weight| of
/// its row, apart from rounding.
class matmul_plan {
 public:
  /// A plan that has been moved from can only be assigned to or destroyed.
  matmul_plan(matmul_plan&&) noexcept = default;  // not copied: nvcc would consider tables copyable
  matmul_plan& operator=(matmul_plan&&) noexcept = default;

  /// Makes a plan for `parts`. Checks the block as block_decoder::open() does, and the checksums of all chunks that
  /// hold these rows. Errors: those of these checks; not_found and invalid_argument for rows that do not exist;
  /// invalid_argument if matrices have different numbers of columns or hold bytes.
  static result<matmul_plan> of(const cpu& backend, packed_block_view block, std::span<const row_selection> parts,
                                coder_set accepted);
  template <class Every = every_coder>
  static result<matmul_plan> of(const cpu& backend, packed_block_view block, std::span<const row_selection> parts) {
    return of(backend, block, parts, Every());
  }
  /// Makes a plan for all matrices of the block.
  static result<matmul_plan> of(const cpu& backend, packed_block_view block, coder_set accepted) {
    std::vector<row_selection> parts(block.matrices.size());
    for (std::size_t index = 0; index < parts.size(); ++index) parts[index].matrix = index;
    return of(backend, block, parts, accepted);
  }
  template <class Every = every_coder>
  static result<matmul_plan> of(const cpu& backend, packed_block_view block) {
    return of(backend, block, Every());
  }
  /// Deleted: a temporary block would end before its plan. (A view of the caller's own arrays must therefore name its
  /// type: packed_block_view{matrices, ...}.)
  template <class... More>
  static result<matmul_plan> of(const cpu&, const packed_block&&, const More&...) = delete;

  /// Returns the number of rows of all parts together.
  std::size_t rows() const noexcept { return rows_; }
  std::size_t columns() const noexcept { return columns_; }

  /// Returns the number of tasks, each of which decodes a few chunks.
  std::size_t tasks() const noexcept { return tasks_.size(); }
  /// Returns the number of floats that run() and join() need for the rows that tasks share.
  std::size_t edges(std::size_t batch) const noexcept { return 2 * tasks_.size() * batch; }

  /// Prepares the activations `x`, n x columns() with any strides, for run(); x must outlive the result. `y` is where
  /// the products will go: if it overlaps x, x is copied. `isa` is the instruction set that run() will be called with;
  /// with another one, run() takes longer. With feeds_product(isa) and activations in BF16, tasks multiply by
  /// `product`, which must outlive the result. Errors: invalid_argument (another number of columns), out_of_memory.
  template <activation Element>
  result<matmul_input> prepare(matrix_view<const Element> x, matrix_view<float> y,
                               activation_type type = activation_type::fp32,
                               instruction_set isa = instruction_set::automatic, half_product product = {}) const;

  /// Prepares activations of any type that converts to a matrix_view: a std::span for one row, an Eigen matrix.
  template <class Input, class Output>
    requires activation<typename decltype(matrix_view(std::declval<Input&>()))::value_type>
  result<matmul_input> prepare(Input&& x, Output&& y, activation_type type = activation_type::fp32,
                               instruction_set isa = instruction_set::automatic, half_product product = {}) const {
    using element = typename decltype(matrix_view(x))::value_type;
    return prepare<element>(matrix_view<const element>(matrix_view(x)), matrix_view<float>(matrix_view(y)), type, isa,
                            product);
  }

  /// Whether tasks can hand weights to a product of dense matrices as they leave the decoder: with AVX-512, if rows are
  /// multiples of 128 weights (256 in pairs) and have one scale each. The weights are then the values of codes, exact
  /// in BF16; scales are applied to sums. Columns are in an order of ecq's own, the same in x and W. (Even so, ecq
  /// itself multiplies a task whose chunks kernels do not take, or with more than rows_at_once() rows of x.)
  bool feeds_product(instruction_set isa = instruction_set::automatic) const noexcept;

  /// Returns the maximum number of rows of activations for which tasks order them and keep all sums. Tasks also
  /// multiply more rows, but each row then takes several times as long; ecq::matmul passes at most this many at a time.
  /// Element is the type of activations after rounding. `fed` says that a product of dense matrices multiplies them
  /// (feeds_product()).
  template <activation Element>
  std::size_t rows_at_once(instruction_set isa = instruction_set::automatic, bool fed = false) const noexcept {
    const instruction_set chosen = chosen_instruction_set(isa);
    if (!fuses(chosen)) return (std::numeric_limits<std::size_t>::max)();
    const bool halves =
        fed || (std::is_same_v<Element, bf16> && order_of(chosen, 2, true) == detail::activation_order::halves);
    return halves && row_phases_ == 1 ? rows_of_tile() : (std::min)(rows_of_tile(), detail::most_fused_rows);
  }

  /// Runs task `task`. Rows that lie entirely in the task go to y, n x rows(); parts of other rows go to `edges`, which
  /// holds edges(n) floats. With `accumulate`, products are added to y. Preconditions: shapes fit, and x comes from
  /// prepare() of this plan. (Another plan may use another order of columns, and products would be wrong.) Errors:
  /// corrupt, naming the matrix; out_of_memory. Every thread that runs tasks keeps a tile of at most 2 MiB, or of one
  /// chunk, and sums of at most 4 MiB.
  result<void> run(instruction_set isa, std::size_t task, const matmul_input& x, matrix_view<float> y,
                   std::span<float> edges, bool accumulate = false) const {
    return detail::or_out_of_memory("a tile of weights", [&]() -> result<void> {
      if (is_infinite_beside_zero_point(task, x)) return run_dense(isa, task, x, y, edges, accumulate);
      return exact_.empty() ? run_task(isa, task, x, y, edges, accumulate)
                            : run_with_exact(isa, task, x, y, edges, accumulate);
    });
  }

  /// Assembles the rows that tasks share in y, once all tasks are done.
  void join(std::size_t batch, matrix_view<float> y, std::span<const float> edges, bool accumulate = false) const;

  /// Fails with errc::invalid_argument unless y is n x rows().
  result<void> check_output(std::size_t batch, matrix_view<float> y) const;

  /// Rows of W that are decoded to dense weights together.
  struct dense_tile {
    std::size_t matrix;        ///< number of the matrix in the block
    std::size_t first_row;     ///< in the matrix
    std::size_t first_output;  ///< in y
    std::size_t rows;
  };

  /// Returns tiles that cover all rows, of a few chunks each: at most 1 MiB of FP32 unless a row is longer. Errors:
  /// out_of_memory.
  result<std::vector<dense_tile>> dense_tiles() const;

  /// Decodes a tile to tile.rows x columns() weights, rounded to nearest if they are BF16. Errors: corrupt.
  template <activation Element>
  result<void> decode(instruction_set isa, const dense_tile& tile, matrix_view<Element> weights) const {
    return decoder_.decode(cpu{.isa = isa}, tile.matrix, tile.first_row, weights);
  }

 private:
  /// Rows of a matrix, and the place of their products.
  struct part {
    const packed_matrix* matrix;
    std::size_t number;        ///< of the matrix in the block
    std::size_t first_row;     ///< in the matrix
    std::size_t first_output;  ///< in y
    std::uint64_t begin;       ///< elements in the stream
    std::uint64_t end;
  };

  /// Elements of one part that a thread decodes together.
  struct task_range {
    std::size_t part;
    std::uint64_t begin;
    std::uint64_t end;
  };

  /// A run of elements of one row.
  struct segment {
    std::size_t output;  ///< column of y
    std::size_t row;     ///< of the matrix
    std::size_t first_column;
    std::size_t columns;
  };

  /// Maximum number of sums that a task keeps.
  static constexpr std::size_t most_tile_sums = std::size_t{1} << 20;

  /// Destination of a task's products: y for whole rows, edge 0 or 1 of the task for parts of rows.
  struct task_output {
    std::size_t task;
    std::size_t batch;
    matrix_view<float> y;
    std::span<float> edges;
    bool accumulate;

    /// Returns the place of element (b, output) of y, or of a part of it: for `edge` 2, the task has the whole row of
    /// weights.
    float& at(std::size_t output, std::size_t edge, std::size_t b) const {
      return edge == 2 ? y(b, output) : edges[(2 * task + edge) * batch + b];
    }
    void put(std::size_t output, std::size_t edge, std::size_t b, float sum) const {
      float& to = at(output, edge, b);
      to = edge == 2 && accumulate ? to + sum : sum;
    }
    /// Puts `rows` whole rows from `output` on, whose sums are sums[row * batch + b]. Takes so few rows at a time that
    /// both sides of the transposition stay in the L1 cache.
    void put_rows(std::size_t output, std::size_t rows, const float* sums) const {
      constexpr std::size_t together = 32;
      for (std::size_t first = 0; first < rows; first += together) {
        const std::size_t count = (std::min)(together, rows - first);
        for (std::size_t b = 0; b < batch; ++b) {
          float* const to = &y(b, output + first);
          const float* const from = sums + first * batch + b;
          const std::ptrdiff_t stride = y.column_stride();
          for (std::size_t row = 0; row < count; ++row) {
            float& element = to[static_cast<std::ptrdiff_t>(row) * stride];
            element = accumulate ? element + from[row * batch] : from[row * batch];
          }
        }
      }
    }
  };

  /// Correction for an exact weight, added to its row's product with the weights of codes, for each row of activations.
  struct exact_term {
    std::size_t task;
    std::size_t output;  ///< column of y
    std::size_t column;  ///< of the matrix
    float difference;    ///< exact weight minus the weight of its code
  };

  explicit matmul_plan(block_decoder decoder) : decoder_(std::move(decoder)) {}

  result<void> run_task(instruction_set isa, std::size_t task, const matmul_input& x, matrix_view<float> y,
                        std::span<float> edges, bool accumulate) const;
  result<void> run_with_exact(instruction_set isa, std::size_t task, const matmul_input& x, matrix_view<float> y,
                              std::span<float> edges, bool accumulate) const;
  result<void> run_dense(instruction_set isa, std::size_t task, const matmul_input& x, matrix_view<float> y,
                         std::span<float> edges, bool accumulate) const;
  /// Returns how many of `most` rows, at least 1, to decode at once: those of a chunk, since decoding any of them
  /// decodes the chunk.
  std::size_t rows_decoded_together(std::size_t most) const noexcept;
  /// Whether the products of codes and of a zero point, which are added, could be infinities of both signs.
  bool is_infinite_beside_zero_point(std::size_t task, const matmul_input& x) const noexcept;
  result<void> find_exact_terms(const cpu& backend);
  /// Returns the number of columns of a row that share a scale; the last ones may be fewer.
  std::size_t columns_of_scale(const packed_matrix& matrix) const noexcept;
  /// Returns the scales of a row, or null if it has none.
  static const bf16* scales_of(const packed_matrix& matrix, std::size_t row) noexcept;
  result<void> add_part(const row_selection& rows);
  void add_tasks(std::size_t index);
  result<void> make_tables();
  void choose_fusion();
  /// Lists the escapes of the chunks of all tasks (escapes_) if kernels need them. If there are too many escapes, a
  /// chunk is damaged or memory runs out, lists none; AVX-512 then does not fuse products.
  void list_escapes(const cpu& backend);
  bool run_fused(instruction_set isa, std::size_t task, const matmul_input& x, matrix_view<float> y,
                 std::span<float> edges, bool accumulate) const;
  /// Sets the sums of the tile to the products of `batch` rows of activations, from `first` on, with `rows` rows of
  /// weights, the first of which is `at`.
  result<void> product(instruction_set isa, const part& source, const segment& at, std::size_t rows,
                       const detail::stored_weights& weights, const matmul_input& x, std::size_t first,
                       std::size_t batch, detail::row_tile& tile) const;
  /// Like product(), but without scales, for columns that share one.
  void add_run(instruction_set isa, const packed_matrix& matrix, const detail::code_table* table, std::size_t rows,
               const std::byte* run, const float* x, std::size_t stride, std::size_t count, std::size_t batch,
               detail::row_tile& tile) const;
  /// Whether products with this part are sums of integers.
  static bool takes_integers(const part& source, const matmul_input& x) noexcept;
  /// Like product(), for a part that takes integers.
  result<void> integer_product(instruction_set isa, const part& source, const segment& at, std::size_t rows,
                               const detail::stored_weights& codes, const matmul_input& x, std::size_t first,
                               std::size_t batch, detail::row_tile& tile) const;
  /// Returns the order of `rows` rows of activations, BF16 or FP32, in which products fused by `chosen` take them.
  static detail::activation_order order_of(instruction_set chosen, std::size_t rows, bool halves) noexcept;
  detail::row_places places_of_rows() const noexcept { return {columns_, detail::group_of(fusion_), row_phases_}; }
  /// Returns the place at which a row of a part begins in a group of weights.
  std::size_t place_of_row(const part& source, std::size_t row) const noexcept {
    const std::uint64_t begin = source.begin + std::uint64_t{row - source.first_row} * columns_;
    return static_cast<std::size_t>(begin % detail::group_of(fusion_));
  }
  /// Whether a row is not 0 but so small that all its parts, their products and sums may be subnormal.
  bool has_tiny_row(const matmul_input& x) const noexcept;
  /// Puts the rows of `input`, BF16 values if `halves`, into the order in which products fused by `chosen` take them,
  /// and into the form that `how` names.
  void order(instruction_set chosen, detail::activation_order how, bool halves, matmul_input& input) const;
  /// Like order(), for `how` = tiles.
  void order_tiles(bool halves, const std::array<std::uint16_t, 256>& places, matmul_input& input) const;
  /// Sets the rows of `input` to quantised activations, in the forms that the matrices need.
  template <activation Element>
  result<void> quantize(matrix_view<const Element> x, matmul_input& input) const;
  static result<void> check_codes(const part& source, const detail::code_table& table, const std::byte* codes,
                                  std::size_t count);

  /// Returns the maximum number of rows of activations for which a task keeps no more than most_tile_sums sums.
  std::size_t rows_of_tile() const noexcept;
  /// Whether kernels of `chosen` fuse products.
  bool fuses(instruction_set chosen) const noexcept {
    return fusion_ != detail::fusion::none && chosen >= instruction_set::avx2;
  }
  /// Like run_fused(), for a part that takes integers: sums equal those of integer_product().
  bool run_fused_integers(const task_range& range, const task_output& to, const matmul_input& x) const;
  /// Decodes the weights of a task, in the order of the activations if kernels can. The result is valid until the next
  /// call on this thread.
  result<detail::stored_weights> decode_task(instruction_set isa, const task_range& range, const matmul_input& x) const;
  /// Like decode_task(), for integer codes, if kernels can decode them in the order of the activations. Returns nothing
  /// if they cannot, or if the stream is damaged.
  std::optional<detail::stored_weights> decode_integers(const task_range& range, const matmul_input& x) const;
  bool decode_in_rounds(const task_range& range, std::byte* tile) const;
  template <class Target>
  bool decode_by_avx2(const task_range& range, std::byte* tile) const;
  /// Returns the order in which kernels of `chosen` multiply integer activations.
  detail::integer_order order_of_integers(instruction_set chosen) const noexcept;
  /// Whether kernels of AVX-512 take pairs in the order of place_in_rounds().
  bool pairs_in_rounds() const { return fusion_ == detail::fusion::pairs && !decoder_.stream().trellis(); }
  /// Whether the weights of a task can be decoded in the order in which they meet activations.
  bool can_fuse(const task_range& range, const matmul_input& x) const;
  bool has_whole_chunks(const task_range& range) const noexcept;
  /// Returns the chunks of which a task has any part, as whole chunks. The last one of a stream may be shorter.
  task_range whole_chunks(const task_range& range) const noexcept;
  /// Places cursors at the beginnings of the chunks of `range`, an element of tasks_, and behind their escapes if these
  /// are `listed`. Prefetches the chunks of the next task. Returns false if a chunk is damaged or has another table
  /// than the others.
  bool begin_fused(const task_range& range, bool listed, detail::fused_chunks& chunks) const;
  /// Prefetches the beginnings of the chunks of a task.
  void fetch(const task_range& range) const;
  /// Decodes the chunks of a task that can be fused to a target of weights of `Kernels` (fused_products-inl.hpp).
  /// Returns false if the stream is damaged or has tables that no kernel takes.
  template <class Kernels, class Target>
  bool decode_fused(const task_range& range, const Target& target) const;
  /// Returns the unit of kernels of `isa`: they divide the weights of this plan by it.
  float unit_of(instruction_set isa) const noexcept;
  /// Returns the scale of each block (block_of_scale) of `weights` weights, whole blocks, from a row and a column on.
  /// The result is valid until the next call on this thread.
  const bf16* scales_of_blocks(const packed_matrix& matrix, std::size_t row, std::size_t column,
                               std::size_t weights) const;
  /// Puts the products of a task of whole chunks that can be fused with the one row of activations, without storing a
  /// weight. Returns false, and puts nothing, if decode_fused() does or if a sum is not finite.
  template <class Kernels>
  bool multiply_fused(const task_range& range, const matmul_input& x, const task_output& to) const;
  /// Like multiply_fused(), for any number of rows of activations, by a tile of BF16.
  template <class Kernels>
  bool multiply_tile(const task_range& range, const matmul_input& x, const task_output& to) const;

  /// Calls `use(segment, offset, edge)` for each run of elements of a row in the task; `edge` is 0 or 1 if the row
  /// continues in another task, otherwise 2.
  template <class Use>
  result<void> for_each_segment(const task_range& range, Use&& use) const;

  block_decoder decoder_;
  std::size_t rows_ = 0;
  std::size_t columns_ = 0;
  std::vector<part> parts_;
  std::vector<task_range> tasks_;
  std::vector<exact_term> exact_;                                       ///< in the order of tasks
  std::vector<std::unique_ptr<const detail::code_table>> values_;       ///< one for each matrix of the block, or null
  std::vector<std::unique_ptr<const detail::table_decoder>> decoders_;  ///< of all tables of the stream
  detail::fusion fusion_ = detail::fusion::none;
  std::vector<detail::fused_table> fused_tables_;  ///< all tables of the stream, unless fusion_ is none
  detail::pair_escapes escapes_;                   ///< listed if kernels take escapes for 0; otherwise empty
  std::size_t row_phases_ = 1;  ///< number of places in a group of weights where rows begin (matmul/fusion.hpp)
  bool whole_groups_ = false;   ///< in all parts, columns that share a scale consist of whole groups of weights
  bool affine_ = false;
  bool any_integers_ = false;      ///< a part has integer codes
  bool any_not_integers_ = false;  ///< a part has other weights
};

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

}  // namespace ecq

#if ECQ_HEADER_ONLY
#include "ecq/matmul/fused_integers-inl.hpp"
#include "ecq/matmul/fused_products-inl.hpp"
#include "ecq/matmul/matmul_plan-inl.hpp"
#endif
