#pragma once
/// \file
/// The rows of large matrices that a search looks at: the same on processors and devices.

#include <cstdint>

#include "ecq/base/config.hpp"

namespace ecq::detail {

/// Number of the row of a matrix of `rows` rows that is row `index` of a sample: one of each `step` neighbours, which
/// one a hash of `index` decides. A fixed stride would see one kind of rows alone where kinds take turns.
ECQ_HOST_DEVICE constexpr std::uint64_t sampled_row(std::uint64_t index, std::uint64_t step,
                                                    std::uint64_t rows) noexcept {
  if (step <= 1) return index;
  const std::uint64_t first = index * step;
  const std::uint64_t neighbours = rows - first < step ? rows - first : step;
  // splitmix64
  std::uint64_t hash = (index + 1) * 0x9E3779B97F4A7C15U;
  hash = (hash ^ (hash >> 30)) * 0xBF58476D1CE4E5B9U;
  hash = (hash ^ (hash >> 27)) * 0x94D049BB133111EBU;
  // Of 21 bits, which times 2^43 rows are 64: a division would cost a device's kernels registers.
  return first + (((hash ^ (hash >> 31)) >> 43) * neighbours >> 21);
}

/// The rows of a matrix that a search looks at: sampled_row(0 .. rows - 1, step), and of each the first `columns`
/// weights.
struct row_sample {
  std::uint64_t step = 1;
  std::uint64_t rows = 0;
  std::uint64_t columns = 0;
  double stands_for = 1;  ///< weights of the matrix a weight of the sample

  /// Of a matrix with weights, in a model of `weights` of them; about `limit` of those are looked at.
  static row_sample of(std::uint64_t rows, std::uint64_t columns, std::uint64_t weights, std::uint64_t limit) noexcept {
    if (limit == 0) limit = 1;
    row_sample sample;
    sample.step = weights / limit + (weights % limit != 0 ? 1U : 0U);
    sample.rows = (rows - 1) / sample.step + 1;
    sample.columns = columns < limit ? columns : limit;
    sample.stands_for = static_cast<double>(rows * columns) / static_cast<double>(sample.rows * sample.columns);
    return sample;
  }
};

}  // namespace ecq::detail
