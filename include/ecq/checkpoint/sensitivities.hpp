#pragma once
/// \file
/// How much the loss of a model depends on each of its tensors.

#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "ecq/base/config.hpp"
#include "ecq/base/result.hpp"

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
result<sensitivity_map> parse_sensitivities(std::string_view text);

/// Reads such a file. Errors: those of parse_json_file and parse_sensitivities.
result<sensitivity_map> read_sensitivities(const std::filesystem::path& path);

}  // namespace ecq

#if ECQ_HEADER_ONLY
#include "ecq/checkpoint/sensitivities-inl.hpp"
#endif
