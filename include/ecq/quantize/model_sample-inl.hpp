#pragma once
/// \file
/// Definition of sample_model().

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "ecq/quantize/model_sample.hpp"
#include "ecq/quantize/row_sample.hpp"

namespace ecq::detail {

ECQ_INLINE std::vector<sampled_weights> sample_model(std::span<const rate_input> inputs, std::uint64_t limit,
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
      part.input = index;
      part.stream = input.stream;
      part.stands_for = looked_at.stands_for;
      part.lambda_factor = input.lambda_factor;
    }
    if (finished_reading) finished_reading(index);
  }
  return samples;
}

}  // namespace ecq::detail
