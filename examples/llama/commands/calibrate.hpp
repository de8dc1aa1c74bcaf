#pragma once
/// \file
/// Command calibrate: measures how much the predictions of a model depend on each of its matrices.

#include <string>

#include "../calibration.hpp"
#include "ecq/base/result.hpp"
#include "inputs.hpp"

namespace llama_tool {

/// Arguments of calibrate(); the mode is dense.
struct calibrate_arguments : model_options {
  std::string output;
  llama::calibration_options how;
};

ecq::result<void> calibrate(const calibrate_arguments& given);

}  // namespace llama_tool
