#pragma once
/// \file
/// Input and output of the kernels that extend the paths of survivor_paths.hpp.

#include <cstddef>
#include <cstdint>

namespace ecq::detail {

/// Input and output of extend_paths().
struct survivor_run {
  float step;
  const float* index_costs;  ///< cost of index 0; the costs of other indices lie before and behind it
  float largest_target;
  std::size_t count;
  const float* weights;
  const float* targets;
  const float* importance;
  const float* feedback;
  std::size_t stride;
  float* costs;
  float* futures;
  std::int8_t* codes;
  std::uint32_t* odd;
};

}  // namespace ecq::detail
