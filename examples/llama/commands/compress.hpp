#pragma once
/// \file
/// A model compressed with error feedback, by what its own layers see.

#include <optional>
#include <string>

#include "../own_texts.hpp"
#include "ecq/base/result.hpp"
#include "inputs.hpp"

namespace llama_tool {

/// In mode dense.
struct compress_arguments : model_options {
  std::string output;
  std::string sensitivities;  ///< a file of `ecq-llama calibrate`; empty: none
  double bits = 3;
  double correction = 0.75;
  unsigned states = 0;  ///< of the trellis, 4, 8, 16 or 32; 0: none
  llama::own_text_options texts;
};

ecq::result<void> compress(const compress_arguments& given);

}  // namespace llama_tool
