#pragma once
/// \file
/// Quantises a matrix and measures the result.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "ecq/analysis/code_statistics.hpp"
#include "ecq/quantize/scaled_quantizer.hpp"

namespace ecq_test {

struct quantized_figures {
  double bits = 0;  ///< entropy of the codes
  double sqnr_db = 0;
  double relative_l1 = 0;
  double sparsity = 0;
  unsigned unique_values = 0;
};

/// Quantises `weights` and returns the figures of the result. Throws if the quantiser fails.
template <class Format, class Quantizer>
quantized_figures figures_of(const Quantizer& quantizer, const std::vector<float>& weights, std::size_t rows) {
  const std::size_t columns = weights.size() / rows;
  std::vector<std::uint8_t> codes(weights.size());
  const ecq::group_layout layout = quantizer.layout(rows, columns);
  std::vector<ecq::bf16> scales(layout.count());
  const auto done = quantizer.template quantize<Format>(
      ecq::cpu{.threads = 2}, ecq::matrix_view<const float>(weights.data(), rows, columns), codes, scales);
  if (!done) throw std::runtime_error(done.error().to_string());
  double error1 = 0;
  double error2 = 0;
  double weight1 = 0;
  double weight2 = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const std::size_t group =
        i / columns / layout.rows_per_group * layout.groups_across() + i % columns / layout.columns_per_group;
    const double weight = static_cast<double>(weights[i]);
    const double error = static_cast<double>(Format::decode(codes[i]) * scales[group]) - weight;
    error1 += std::abs(error);
    error2 += error * error;
    weight1 += std::abs(weight);
    weight2 += weight * weight;
  }
  const auto statistics = ecq::analyse_codes(codes);
  return {statistics.entropy, 10 * std::log10(weight2 / error2), error1 / weight1, statistics.sparsity,
          statistics.unique_values};
}

}  // namespace ecq_test
