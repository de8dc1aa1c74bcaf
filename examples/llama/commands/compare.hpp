#pragma once
/// \file
/// What rates and methods cost a model: the predictions of its coded versions beside its own.

#include <string>
#include <vector>

#include "ecq/base/result.hpp"
#include "inputs.hpp"

namespace llama_tool {

struct compare_arguments : model_options, text_options {
  std::vector<std::string> coded;  ///< paths of models
  std::string picture;
};

ecq::result<void> compare(const compare_arguments& given);

}  // namespace llama_tool
