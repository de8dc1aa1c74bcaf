#pragma once
/// \file
/// Definition of the choice of exact weights.

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "ecq/base/config.hpp"
#include "ecq/base/out_of_memory.hpp"
#include "ecq/base/result.hpp"
#include "ecq/checkpoint/exact_choice.hpp"
#include "ecq/io/json.hpp"
#include "ecq/io/json_file.hpp"

namespace ecq {

namespace detail {

/// Reads [row, column].
ECQ_INLINE result<weight_place> read_place(json_reader& json) {
  std::vector<std::uint64_t> numbers;
  ECQ_CHECK(json.array([&]() -> result<void> {
    if (numbers.size() == 2) return json.fail("expected only a row and a column");
    ECQ_TRY(number, json.integer());
    numbers.push_back(number);
    return {};
  }));
  if (numbers.size() != 2) return json.fail("expected a row and a column");
  return weight_place{numbers[0], numbers[1]};
}

}  // namespace detail

ECQ_INLINE result<weight_places> parse_weight_places(std::string_view text) {
  return detail::or_out_of_memory("the places of weights", [&]() -> result<weight_places> {
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
  });
}

ECQ_INLINE result<weight_places> read_weight_places(const std::filesystem::path& path) {
  return parse_json_file(path, parse_weight_places);
}

}  // namespace ecq
