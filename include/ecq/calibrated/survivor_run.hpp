#pragma once
/// \file
/// What kernels that extend the paths of survivor_paths.hpp read and write.

#include <cstddef>
#include <cstdint>

namespace ecq::detail {

/// What extend_paths reads and writes.
struct survivor_run {
  float step;
  const float* index_costs;  ///< that of index 0 comes first; others lie before and behind it
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
