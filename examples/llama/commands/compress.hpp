#pragma once
/// \file
/// Command compress: compresses a model with error feedback, from the inputs that its own layers see.

#include <string>

#include "ecq/base/result.hpp"
#include "feedback_options.hpp"

namespace llama_tool {

struct compress_arguments : feedback_options {
  std::string output;
  double bits = 3;
  unsigned states = 0;  ///< of the trellis, 4, 8, 16 or 32; 0: none
};

ecq::result<void> compress(const compress_arguments& given);

}  // namespace llama_tool
