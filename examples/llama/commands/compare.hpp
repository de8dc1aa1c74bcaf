#pragma once
/// \file
/// Command compare: measures the loss of a model by rate and method, from the predictions of its coded versions.

#include <string>
#include <vector>

#include "ecq/base/result.hpp"
#include "feedback_options.hpp"
#include "inputs.hpp"

namespace llama_tool {

/// Arguments of compare(): existing models, and models to be made for the comparison.
struct compare_arguments : feedback_options, text_options {
  std::vector<std::string> coded;  ///< paths of models
  std::vector<double> bits;        ///< a weight, of models to be made; empty: none
  std::vector<std::string> methods = {"entquant", "tcq8", "feedback", "feedback-tcq16"};
  std::string folder;  ///< of the models that are made
  std::string picture;
};

/// Values that `methods` may have. tcqN is a trellis of N states.
inline const std::vector<std::string> comparable_methods{
    "entquant", "tcq4",          "tcq8",          "tcq16",          "tcq32",
    "feedback", "feedback-tcq4", "feedback-tcq8", "feedback-tcq16", "feedback-tcq32"};

ecq::result<void> compare(const compare_arguments& given);

}  // namespace llama_tool
