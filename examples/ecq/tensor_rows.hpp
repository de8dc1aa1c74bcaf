#pragma once
/// \file
/// Tensors of a compressed checkpoint as JSON and as a table; compress and inspect share this output.

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "command.hpp"
#include "ecq/checkpoint/report.hpp"
#include "text.hpp"

namespace tool {

inline json tensor_rows(std::span<const ecq::tensor_report> tensors) {
  json rows = json::array();
  for (const ecq::tensor_report& tensor : tensors) {
    rows.push_back({{"name", tensor.name},
                    {"shape", tensor.shape},
                    {"format", tensor.format},
                    {"original", tensor.original},
                    {"block", tensor.block},
                    {"weights", tensor.weights},
                    {"bits_per_weight", tensor.bits_per_weight},
                    {"entropy", tensor.entropy},
                    {"exponent_entropy", tensor.exponent_entropy},
                    {"sparsity", tensor.sparsity},
                    {"exact", tensor.exact},
                    {"unique_values", tensor.unique_values}});
  }
  return rows;
}

inline json totals_of(const ecq::checkpoint_report& report) {
  return {{"weights", report.weights},
          {"bits_per_weight", report.bits_per_weight},
          {"entropy", report.entropy},
          {"compressed_bytes", report.compressed_bytes},
          {"file_bytes", report.file_bytes},
          {"blocks", report.blocks},
          {"passed_through", report.passed_through}};
}

inline table tensor_table(std::span<const ecq::tensor_report> tensors) {
  // Only lossless tensors have coded exponents; without such tensors, there is no column for them.
  const bool lossless = std::any_of(tensors.begin(), tensors.end(),
                                    [](const ecq::tensor_report& tensor) { return tensor.exponent_entropy != 0; });
  std::vector<std::string> head{"tensor", "shape", "format", "bits/weight", "entropy", "sparsity", "values"};
  if (lossless) head.insert(head.end() - 2, "exponents");
  table rows(head, 3);
  for (const ecq::tensor_report& tensor : tensors) {
    const auto if_coded = [&](const std::string& figure) { return tensor.block.empty() ? "-" : figure; };
    std::vector<std::string> row{tensor.name,
                                 dimensions(tensor.shape),
                                 tensor.format,
                                 decimal(tensor.bits_per_weight, 3),
                                 if_coded(decimal(tensor.entropy, 3)),
                                 if_coded(decimal(100 * tensor.sparsity, 1) + " %"),
                                 if_coded(std::to_string(tensor.unique_values))};
    if (lossless) row.insert(row.end() - 2, if_coded(decimal(tensor.exponent_entropy, 3)));
    rows.add(row);
  }
  return rows;
}

}  // namespace tool
