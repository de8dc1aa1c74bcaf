#pragma once
/// \file
/// How much the predictions of a model depend on each of its matrices.

#include <string>

#include "../calibration.hpp"
#include "ecq/base/result.hpp"
#include "inputs.hpp"

namespace llama_tool {

/// In mode dense.
struct calibrate_arguments : model_options {
  std::string output;
  llama::calibration_options how;
};

ecq::result<void> calibrate(const calibrate_arguments& given);

}  // namespace llama_tool
