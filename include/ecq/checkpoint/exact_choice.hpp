#pragma once
/// \file
/// The choice of weights of a checkpoint that are kept exact.

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ecq/base/config.hpp"
#include "ecq/base/result.hpp"

namespace ecq {

/// Place of a weight in a tensor, taken as a matrix (as_weights).
struct weight_place {
  std::uint64_t row = 0;
  std::uint64_t column = 0;

  bool operator==(const weight_place&) const = default;
};

/// Places of weights by the names of their tensors, in any order.
using weight_places = std::map<std::string, std::vector<weight_place>>;

/// Weights that methods with loss keep exact, each at 96 bits (packed_matrix::exact).
struct exact_choice {
  weight_places places{};  ///< tensors that are not quantised keep all their weights anyway
  /// If not 0, also the weights of each tensor that find_outliers() finds at this ratio; the whole model is then read
  /// once more.
  double outlier_ratio = 0;
};

/// Reads places from JSON: {"model.layers.2.mlp.down_proj.weight": [[row, column], ...], ...}. Errors: errc::corrupt,
/// naming the byte.
result<weight_places> parse_weight_places(std::string_view text);

/// Reads places from a JSON file. Errors: those of parse_json_file and parse_weight_places.
result<weight_places> read_weight_places(const std::filesystem::path& path);

}  // namespace ecq

#if ECQ_HEADER_ONLY
#include "ecq/checkpoint/exact_choice-inl.hpp"
#endif
