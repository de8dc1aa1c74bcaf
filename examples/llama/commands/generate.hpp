#pragma once
/// \file
/// Command generate: continues a text.

#include <string>

#include "../generation.hpp"
#include "ecq/base/result.hpp"
#include "inputs.hpp"

namespace llama_tool {

struct generate_arguments : model_options {
  std::string prompt;
  llama::generation_options how;
};

ecq::result<void> generate(const generate_arguments& given);

}  // namespace llama_tool
