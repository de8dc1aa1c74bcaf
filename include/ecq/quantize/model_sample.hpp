#pragma once
/// \file
/// Sample of a model's rows, on which searches measure rates.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "ecq/base/config.hpp"
#include "ecq/format/weights_view.hpp"

namespace ecq {

/// A matrix of the model and the stream its codes go into; the matrices of one stream share one frequency table.
struct rate_input {
  weights_view weights;
  std::size_t stream = 0;    ///< below the number of inputs
  double lambda_factor = 1;  ///< the matrix is quantised at this many times the lambda; above 0
  /// Factors of lambda, one for each row, that a row_weighted quantiser uses instead of lambda_factor; may be empty.
  std::span<const double> row_factors{};
};

namespace detail {

/// Factor of lambda for a matrix as a whole and, if there are any, factors for each of its rows.
struct lambda_factors {
  double whole = 1;
  std::span<const double> rows{};
};

/// Sampled rows of a matrix.
struct sampled_weights {
  std::vector<float> values;  ///< of `weights`, row-major
  weights_view weights;
  std::size_t input = 0;  ///< index of the input that the rows are from
  std::size_t stream = 0;
  double stands_for = 1;  ///< number of weights of the stream that a weight of the sample stands for
  double lambda_factor = 1;
  std::vector<double> row_factors{};  ///< of the rows of the sample, if the matrix has any

  lambda_factors factors() const noexcept { return {lambda_factor, row_factors}; }
};

/// Samples about `limit` weights of `inputs`, but at least one row of each stream. Calls finished_reading(index), if it
/// is set, once for each input that has weights. Throws std::bad_alloc. Precondition: an input has as many row factors
/// as rows, or none.
std::vector<sampled_weights> sample_model(std::span<const rate_input> inputs, std::uint64_t limit,
                                          const std::function<void(std::size_t)>& finished_reading);

}  // namespace detail
}  // namespace ecq

#if ECQ_HEADER_ONLY
#include "ecq/quantize/model_sample-inl.hpp"
#endif
