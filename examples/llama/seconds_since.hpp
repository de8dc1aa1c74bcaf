#pragma once
/// \file
/// Measurement of elapsed time.

#include <chrono>

namespace llama::detail {

inline double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace llama::detail
