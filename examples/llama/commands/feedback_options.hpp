#pragma once
/// \file
/// The options of error feedback, apart from what it takes to do it.

#include <string>

#include "../own_texts.hpp"
#include "inputs.hpp"

namespace llama_tool {

/// In mode dense, of a plain model.
struct feedback_options : model_options {
  std::string sensitivities;  ///< a file that ecq::read_sensitivities takes; empty: none
  double correction = 0.75;   ///< ecq::error_feedback::correction
  llama::own_text_options texts;
};

}  // namespace llama_tool
