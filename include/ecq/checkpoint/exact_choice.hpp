#pragma once
/// \file
/// Which weights of a checkpoint are kept exact.

#include <cstdint>
#include <filesystem>
#include <map>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ecq/base/result.hpp"
#include "ecq/io/json.hpp"
#include "ecq/io/json_file.hpp"

namespace ecq {

/// The place of a weight in a tensor that is a matrix, its first extent being the rows.
struct weight_place {
  std::uint64_t row = 0;
  std::uint64_t column = 0;

  bool operator==(const weight_place&) const = default;
};

/// Places of weights by the names of their tensors, in any order.
using weight_places = std::map<std::string, std::vector<weight_place>>;

/// Which weights are kept exact by methods that change weights, each at 96 bits (packed_matrix::exact).
struct exact_choice {
  weight_places places{};  ///< tensors that are not quantised keep all their weights anyhow
  /// Other than 0: in each tensor also those that find_outliers() finds at this ratio; the whole model is then read
  /// once more.
  double outlier_ratio = 0;
};

namespace detail {

/// Reads [row, column].
inline result<weight_place> read_place(json_reader& json) {
  std::vector<std::uint64_t> numbers;
  ECQ_CHECK(json.array([&]() -> result<void> {
    if (numbers.size() == 2) return json.fail("more than a row and a column");
    ECQ_TRY(number, json.integer());
    numbers.push_back(number);
    return {};
  }));
  if (numbers.size() != 2) return json.fail("expected a row and a column before");
  return weight_place{numbers[0], numbers[1]};
}

}  // namespace detail

/// Reads places from JSON: {"model.layers.2.mlp.down_proj.weight": [[row, column], ...], ...}. Errors: errc::corrupt,
/// naming the byte.
inline result<weight_places> parse_weight_places(std::string_view text) {
  try {
    weight_places places;
    json_reader json(text);
    ECQ_CHECK(json.object([&](const std::string& tensor) -> result<void> {
      std::vector<weight_place>& of_tensor = places[tensor];
      return json.array([&]() -> result<void> {
        ECQ_TRY(place, detail::read_place(json));
        of_tensor.push_back(place);
        return {};
      });
    }));
    ECQ_CHECK(json.finish());
    return places;
  } catch (const std::bad_alloc&) {
    return error(errc::out_of_memory, "no memory for the places of weights");
  }
}

/// Reads such a file. Errors: those of parse_json_file and parse_weight_places.
inline result<weight_places> read_weight_places(const std::filesystem::path& path) {
  return parse_json_file(path, parse_weight_places);
}

}  // namespace ecq
