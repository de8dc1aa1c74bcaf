#pragma once
/// \file
/// Command perplexity: measures how well a model predicts a text.

#include "ecq/base/result.hpp"
#include "inputs.hpp"

namespace llama_tool {

struct perplexity_arguments : model_options, text_options {};

ecq::result<void> perplexity(const perplexity_arguments& given);

}  // namespace llama_tool
