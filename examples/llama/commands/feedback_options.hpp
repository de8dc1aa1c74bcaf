#pragma once
/// \file
/// The options of error feedback, apart from what it takes to do it.

#include <filesystem>
#include <string>
#include <vector>

#include "../own_texts.hpp"
#include "inputs.hpp"

namespace llama_tool {

/// In mode dense, of a plain model.
struct feedback_options : model_options {
  std::string sensitivities;  ///< a file that ecq::read_sensitivities takes; empty: none
  double correction = 0.75;   ///< ecq::error_feedback::correction
  llama::own_text_options texts;

  /// Files that are read besides the model's.
  std::vector<std::filesystem::path> other_inputs() const {
    if (sensitivities.empty()) return {};
    return {sensitivities};
  }
};

}  // namespace llama_tool
