#pragma once
/// \file
/// Sample of a large matrix's rows for a search, the same on processors and devices.

#include <algorithm>
#include <cstdint>

#include "ecq/base/config.hpp"

namespace ecq::detail {

/// Returns the number, among `rows` rows, of row `index` of a sample. The sample takes one of each `step` neighbours; a
/// hash of `index` decides which one. Where kinds of rows alternate, a fixed stride would see only one kind.
ECQ_HOST_DEVICE constexpr std::uint64_t sampled_row(std::uint64_t index, std::uint64_t step,
                                                    std::uint64_t rows) noexcept {
  if (step <= 1) return index;
  const std::uint64_t first = index * step;
  const std::uint64_t neighbours = rows - first < step ? rows - first : step;
  // splitmix64
  std::uint64_t hash = (index + 1) * 0x9E3779B97F4A7C15U;
  hash = (hash ^ (hash >> 30)) * 0xBF58476D1CE4E5B9U;
  hash = (hash ^ (hash >> 27)) * 0x94D049BB133111EBU;
  // Use 21 bits of the hash: times 2^43 rows, they fill 64 bits. A division would cost a device's kernels registers.
  return first + (((hash ^ (hash >> 31)) >> 43) * neighbours >> 21);
}

/// Sampled rows of a matrix, each with its first `columns` weights. The rows of all matrices of a stream are numbered
/// consecutively and sampled together, so that models of any size are sampled alike: if a matrix has fewer rows than
/// `step`, chance decides whether it has a row in the sample.
struct row_sample {
  std::uint64_t step = 1;
  std::uint64_t first = 0;           ///< number of the matrix's first sampled row among those of the stream
  std::uint64_t rows_before = 0;     ///< rows of the stream's matrices before this one
  std::uint64_t rows_of_stream = 0;  ///< rows of all matrices of the stream; only `step` above 1 needs it
  std::uint64_t rows = 0;            ///< number of rows in the sample, possibly 0
  std::uint64_t columns = 0;
  double stands_for = 1;  ///< number of weights of the stream that a weight of the sample stands for

  /// Returns the row of the matrix that is row `index` of the sample.
  ECQ_HOST_DEVICE constexpr std::uint64_t row(std::uint64_t index) const noexcept {
    return sampled_row(first + index, step, rows_of_stream) - rows_before;
  }
};

/// Generator of the samples of a stream's matrices, one after another.
class row_sampler {
 public:
  /// Samples a stream of `rows_of_stream` rows in a model of `weights` weights, about `limit` of which are sampled, but
  /// at least one row per stream.
  row_sampler(std::uint64_t weights, std::uint64_t limit, std::uint64_t rows_of_stream) noexcept
      : limit_(limit == 0 ? 1 : limit), rows_of_stream_(rows_of_stream) {
    step_ = (std::max)(weights / limit_ + (weights % limit_ != 0 ? 1U : 0U), std::uint64_t{1});
  }

  /// Returns the sample of the stream's next matrix. Precondition: the matrix has weights.
  row_sample next(std::uint64_t rows, std::uint64_t columns) noexcept {
    row_sample sample{.step = step_,
                      .first = rows_before_ / step_,
                      .rows_before = rows_before_,
                      .rows_of_stream = rows_of_stream_,
                      .columns = (std::min)(columns, limit_)};
    rows_before_ += rows;
    std::uint64_t end = (rows_before_ - 1) / step_ + 1;
    // At either end, the row chosen among neighbours may belong to another matrix.
    if (sampled_row(sample.first, step_, rows_of_stream_) < sample.rows_before) ++sample.first;
    if (end > sample.first && sampled_row(end - 1, step_, rows_of_stream_) >= rows_before_) --end;
    sample.rows = end - (std::min)(sample.first, end);
    const std::uint64_t sampled = (rows_of_stream_ - 1) / step_ + 1;
    sample.stands_for = static_cast<double>(rows_of_stream_) / static_cast<double>(sampled) *
                        (static_cast<double>(columns) / static_cast<double>(sample.columns));
    return sample;
  }

 private:
  std::uint64_t limit_;
  std::uint64_t rows_of_stream_;
  std::uint64_t step_ = 1;
  std::uint64_t rows_before_ = 0;
};

}  // namespace ecq::detail
