#pragma once
/// \file
/// Definition of the search for the lambdas of a model.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "ecq/base/backend.hpp"
#include "ecq/base/config.hpp"
#include "ecq/base/result.hpp"
#include "ecq/methods/lambda_search.hpp"
#include "ecq/methods/method.hpp"
#include "ecq/methods/name_outlier.hpp"
#include "ecq/quantize/finite.hpp"
#include "ecq/quantize/lambda_solver.hpp"
#include "ecq/quantize/target_bits.hpp"
#include "ecq/stream/stream_view.hpp"

namespace ecq::detail {

ECQ_INLINE error name_non_finite(const cpu& backend, std::span<const named_weights* const> matrices,
                                 const error& found) {
  if (found.code() != errc::non_finite) return found;
  for (std::size_t index = 0; index < matrices.size(); ++index) {
    if (auto finite = check_finite(backend, matrices[index]->weights); !finite) {
      return std::move(finite).error().within(label_of(*matrices[index], index));
    }
  }
  return found;
}

ECQ_INLINE result<std::vector<double>> find_lambdas(const cpu& backend, matrix_streams streams, double target,
                                                    bool each_matrix, const method_setting& setting,
                                                    const quantizer_at_lambda& quantizer) {
  std::vector<const named_weights*> matrices;
  std::vector<rate_input> inputs;
  std::vector<std::uint64_t> symbols(streams.size());
  for (std::size_t stream = 0; stream < streams.size(); ++stream) {
    for (const named_weights& matrix : streams[stream]) {
      symbols[stream] += matrix.weights.size();
      matrices.push_back(&matrix);
      ECQ_CHECK(check_lambda_factors(matrix, inputs.size()));
      inputs.push_back({matrix.weights, stream, matrix.lambda_factor, matrix.row_factors});
    }
  }
  const auto overhead_bits = [&](std::uint64_t count) {
    return 8.0 * static_cast<double>(stream_overhead_bytes(count, setting.chunk_bits_of(count)));
  };
  const auto finished = [&](std::size_t index) {
    if (setting.finished) setting.finished(index);
  };
  if (!each_matrix) {
    const auto lambda = find_lambda(
        backend, inputs, target, [&](std::size_t, std::uint64_t count) { return overhead_bits(count); },
        {.scale_bits = quantizer.packed_scale_bits,
         .finished_reading = finished,
         .label = [&](std::size_t index) { return label_of(*matrices[index], index); }},
        quantizer);
    if (!lambda) return name_outlier(backend, matrices, name_non_finite(backend, matrices, lambda.error()));
    return std::vector<double>(inputs.size(), *lambda);
  }
  std::vector<double> lambdas;
  std::optional<error> unreached;     // of the first matrix that is too small for a rate of its own
  double logs = 0, found = 0;         // sum of the logarithms of lambdas above 0, and their number
  constexpr double to_be_found = -1;  // no lambda is negative
  for (std::size_t index = 0; index < inputs.size(); ++index) {
    const std::uint64_t stream = symbols[inputs[index].stream];
    rate_input alone = inputs[index];
    alone.stream = 0;
    const auto lambda = find_lambda(
        backend, std::span(&alone, 1), target,
        [&](std::size_t, std::uint64_t count) {
          return overhead_bits(stream) * static_cast<double>(count) / static_cast<double>(stream);
        },
        {.scale_bits = quantizer.packed_scale_bits, .finished_reading = [&](std::size_t) { finished(index); }},
        quantizer);
    if (!lambda && lambda.error().code() == errc::non_finite) {
      return name_non_finite(backend, matrices, lambda.error());
    }
    if (!lambda) {
      const bool too_small = inputs[index].weights.size() < least_weights_of_a_rate;
      auto named = name_outlier(backend, std::span(matrices).subspan(index, 1), lambda.error());
      auto failure = std::move(named).within(label_of(*matrices[index], index));
      if (!too_small || lambda.error().code() != errc::unreachable_target) return failure;
      if (!unreached) unreached = std::move(failure);
      lambdas.push_back(to_be_found);
      continue;
    }
    lambdas.push_back(*lambda);
    if (*lambda > 0) {
      logs += std::log(*lambda);
      ++found;
    }
  }
  if (unreached && std::ranges::count(lambdas, to_be_found) == std::ssize(lambdas)) return *std::move(unreached);
  // If the lambdas of all others are 0 (AbsMax), so are these.
  std::ranges::replace(lambdas, to_be_found, found == 0 ? 0 : short_lambda(std::exp(logs / found)));
  return lambdas;
}

}  // namespace ecq::detail
