#pragma once
/// \file
/// A copy of some rows of a model, by which searches measure rates.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "ecq/base/config.hpp"
#include "ecq/format/weights_view.hpp"
#include "ecq/quantize/row_sample.hpp"

namespace ecq {

/// A matrix of the model and the stream its codes go into; the matrices of one stream share one frequency table.
struct rate_input {
  weights_view weights;
  std::size_t stream = 0;    ///< below the number of inputs
  double lambda_factor = 1;  ///< the matrix is quantised at this many times the lambda; above 0
  /// Empty, or one for each row, which a row_weighted quantiser takes in place of lambda_factor.
  std::span<const double> row_factors{};
};

namespace detail {

/// What times lambda is that of a matrix or, if there are any, of each of its rows.
struct lambda_factors {
  double whole = 1;
  std::span<const double> rows{};
};

/// Rows of a matrix.
struct sampled_weights {
  std::vector<float> values;  ///< of `weights`, row-major
  weights_view weights;
  std::size_t stream = 0;
  double stands_for = 1;  ///< how many weights of the stream a weight of the sample stands for
  double lambda_factor = 1;
  std::vector<double> row_factors{};  ///< of the rows of the sample, if the matrix has any

  lambda_factors factors() const noexcept { return {lambda_factor, row_factors}; }
};

/// About `limit` weights of `inputs`, but at least one row of each stream. Calls finished_reading(index), if there is
/// one, once for each input that has weights. Throws std::bad_alloc. Precondition: an input has as many factors of rows
/// as rows, or none.
inline std::vector<sampled_weights> sample_model(std::span<const rate_input> inputs, std::uint64_t limit,
                                                 const std::function<void(std::size_t)>& finished_reading) {
  std::uint64_t all = 0;
  std::vector<std::uint64_t> rows_of_stream;
  for (const rate_input& input : inputs) {
    if (input.weights.empty()) continue;
    all += input.weights.size();
    if (input.stream >= rows_of_stream.size()) rows_of_stream.resize(input.stream + 1);
    rows_of_stream[input.stream] += input.weights.rows();
  }
  std::vector<row_sampler> samplers;
  for (const std::uint64_t each : rows_of_stream) samplers.emplace_back(all, limit, each);
  std::vector<sampled_weights> samples;
  for (std::size_t index = 0; index < inputs.size(); ++index) {
    const rate_input& input = inputs[index];
    if (input.weights.empty()) continue;
    const row_sample looked_at = samplers[input.stream].next(input.weights.rows(), input.weights.columns());
    const auto rows = static_cast<std::size_t>(looked_at.rows);
    const auto columns = static_cast<std::size_t>(looked_at.columns);
    if (rows != 0) {
      sampled_weights& part = samples.emplace_back();
      part.values.resize(rows * columns);
      for (std::size_t row = 0; row < rows; ++row) {
        const auto from = static_cast<std::size_t>(looked_at.row(row));
        if (!input.row_factors.empty()) part.row_factors.push_back(input.row_factors[from]);
        input.weights.load(from, 0, std::span(part.values).subspan(row * columns, columns));
      }
      part.weights = matrix_view<const float>(part.values.data(), rows, columns);
      part.stream = input.stream;
      part.stands_for = looked_at.stands_for;
      part.lambda_factor = input.lambda_factor;
    }
    if (finished_reading) finished_reading(index);
  }
  return samples;
}

}  // namespace detail
}  // namespace ecq
