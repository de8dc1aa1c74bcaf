#pragma once
/// \file
/// Rows of activations in the order in which products of tiles (AMX) read them.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "ecq/base/line_vector.hpp"

namespace ecq::detail {

/// Maximum numbers of rows of activations that vectors multiply faster than tiles: a tile takes as long for one row as
/// for 16, and three times as long for parts of FP32.
inline constexpr std::size_t most_rows_without_tiles_bf16 = 1;
inline constexpr std::size_t most_rows_without_tiles_fp32 = 4;
inline constexpr std::size_t most_rows_without_tiles_int8 = 8;

/// Rows of activations as tiles. A tile holds 64 bytes of each of 16 rows: row i of the tile has word i, of 32 bits, of
/// all 16 rows. A word is a pair of BF16 values or four bytes. Missing rows are zeros. There is a set of rows for each
/// place at which rows of weights begin in a group (row_places). Activations may be sums of several parts, whose tiles
/// follow each other.
class activation_tiles {
 public:
  static constexpr std::size_t rows_together = 16;
  static constexpr std::size_t words = 16;  ///< words of a row in a tile
  static constexpr std::size_t row_bytes = words * sizeof(std::uint32_t);
  static constexpr std::size_t tile_words = rows_together * words;
  static constexpr std::size_t parts_of_fp32 = 3;  ///< BF16 numbers whose sum is an FP32 number

  bool empty() const noexcept { return tiles_.empty(); }

  /// Makes room for `sets` x `rows` rows of `row_words` words, a multiple of `words`, in `parts` parts. Throws
  /// std::bad_alloc.
  void resize(std::size_t sets, std::size_t rows, std::size_t row_words, std::size_t parts = 1) {
    row_words_ = row_words;
    parts_ = parts;
    set_words_ = (rows + rows_together - 1) / rows_together * stride();
    tiles_.resize(sets * set_words_);
  }

  std::size_t parts() const noexcept { return parts_; }
  /// Returns the number of words from the tiles of 16 rows to those of the next 16 rows.
  std::size_t stride() const noexcept { return rows_together * row_words_ * parts_; }

  /// Returns the tiles number `step` of 16 rows, the first of which is `row`, a multiple of 16.
  const std::uint32_t* at(std::size_t set, std::size_t row, std::size_t step) const noexcept {
    return tiles_.data() + set * set_words_ + row / rows_together * stride() + step * parts_ * tile_words;
  }

  /// Sets part `part` of up to 16 rows, from `row` on, to rows that are `apart` bytes from each other.
  void set_rows(std::size_t set, std::size_t row, std::size_t part, std::size_t count, const void* rows,
                std::size_t apart) {
    std::uint32_t* to = tiles_.data() + (at(set, row, 0) - tiles_.data()) + part * tile_words;
    for (std::size_t word = 0; word < row_words_; word += words, to += parts_ * tile_words) {
      std::uint32_t some[rows_together][words] = {};
      for (std::size_t i = 0; i < count; ++i) {
        std::memcpy(some[i], static_cast<const std::byte*>(rows) + i * apart + word * sizeof(std::uint32_t),
                    sizeof some[i]);
      }
      for (std::size_t k = 0; k < words; ++k) {
        for (std::size_t i = 0; i < rows_together; ++i) to[k * rows_together + i] = some[i][k];
      }
    }
  }

 private:
  std::size_t row_words_ = 0;
  std::size_t parts_ = 1;
  std::size_t set_words_ = 0;
  line_vector<std::uint32_t> tiles_;
};

}  // namespace ecq::detail
