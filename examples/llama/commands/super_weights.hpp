#pragma once
/// \file
/// Command super-weights: finds weights without which a model falls apart.

#include <string>

#include "../super_weights.hpp"
#include "ecq/base/result.hpp"
#include "inputs.hpp"

namespace llama_tool {

struct super_weights_arguments : model_options {
  std::string text = "The quick brown fox jumps over the lazy dog.";
  std::string output;
  llama::super_weight_options how;
};

ecq::result<void> find_super_weights(const super_weights_arguments& given);

}  // namespace llama_tool
