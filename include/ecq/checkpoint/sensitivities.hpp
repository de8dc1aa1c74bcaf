#pragma once
/// \file
/// How much the loss of a model depends on each of its tensors.

#include <filesystem>
#include <locale>
#include <map>
#include <new>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>

#include "ecq/base/result.hpp"
#include "ecq/io/json.hpp"
#include "ecq/io/json_file.hpp"

namespace ecq {

/// Sensitivities of tensors by their names: how fast the loss rises, for each weight of the tensor, with the squared
/// error of its weights relative to their mean square. Only ratios matter: a tensor whose sensitivity is s times the
/// geometric mean of all has s^(-3/4) times the lambda, so its step is about s^(-3/8) times that of the others. (Theory
/// has -1/2 for steps; at 2 to 3 bits a weight, less has been measured to be better.)
using sensitivity_map = std::map<std::string, double>;

/// The range of sensitivities.
inline constexpr double least_sensitivity = 1e-12;
inline constexpr double greatest_sensitivity = 1e12;  ///< of the same range

/// Reads sensitivities from JSON: {"model.layers.0.mlp.down_proj.weight": 0.93, ...}. Errors: errc::corrupt, naming the
/// byte, for anything else and for numbers out of range.
inline result<sensitivity_map> parse_sensitivities(std::string_view text) {
  try {
    sensitivity_map sensitivities;
    json_reader json(text);
    ECQ_CHECK(json.object([&](const std::string& tensor) -> result<void> {
      ECQ_TRY(digits, json.number_text());
      std::istringstream in{std::string(digits)};
      in.imbue(std::locale::classic());
      double value = 0;
      in >> value;
      if (!in || !(value >= least_sensitivity && value <= greatest_sensitivity)) {
        return json.fail("a sensitivity of ", digits, " before, not from 1e-12 to 1e12");
      }
      sensitivities.emplace(tensor, value);
      return {};
    }));
    ECQ_CHECK(json.finish());
    return sensitivities;
  } catch (const std::bad_alloc&) {
    return error(errc::out_of_memory, "no memory for the sensitivities of tensors");
  }
}

/// Reads such a file. Errors: those of parse_json_file and parse_sensitivities.
inline result<sensitivity_map> read_sensitivities(const std::filesystem::path& path) {
  return parse_json_file(path, parse_sensitivities);
}

}  // namespace ecq
