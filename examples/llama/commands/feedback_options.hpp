#pragma once
/// \file
/// Options of error feedback, apart from its implementation.

#include <filesystem>
#include <string>
#include <vector>

#include "../own_texts.hpp"
#include "inputs.hpp"

namespace llama_tool {

/// Options of error feedback for a plain model, opened in mode dense.
struct feedback_options : model_options {
  std::string sensitivities;  ///< a file that ecq::read_sensitivities takes; empty: none
  double correction = 0.75;   ///< ecq::error_feedback::correction
  llama::own_text_options texts;

  /// Returns the files that are read besides the model's.
  std::vector<std::filesystem::path> other_inputs() const {
    if (sensitivities.empty()) return {};
    return {sensitivities};
  }
};

}  // namespace llama_tool
