#pragma once
/// \file
/// Facts that trellis-coded quantisation finds out about a model before it quantises any of it.

#include <vector>

#include "ecq/entropy/trellis.hpp"
#include "ecq/quantize/model_sample.hpp"
#include "ecq/quantize/trellis_search.hpp"

namespace ecq::detail {

struct tcq_plan {
  trellis walk{};
  double lambda = 0;
  index_bits bits{};
  std::vector<lambda_factors> factors{};  ///< by matrix
};

}  // namespace ecq::detail
