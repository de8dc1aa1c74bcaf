#pragma once
/// \file
/// Random numbers from which benchmarks draw their data, the same on every machine.

#include <cmath>
#include <cstdint>

namespace ecq_bench {

/// splitmix64, and distributions drawn from it.
class random_numbers {
 public:
  explicit random_numbers(std::uint64_t seed) : state_(seed) {}

  /// Returns a number in (0, 1).
  double uniform() {
    std::uint64_t z = state_ += 0x9E3779B97F4A7C15U;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
    return (static_cast<double>((z ^ (z >> 31)) >> 11) + 0.5) * 0x1p-53;
  }
  float normal() {
    const double radius = std::sqrt(-2 * std::log(uniform()));
    return static_cast<float>(radius * std::cos(6.283185307179586 * uniform()));
  }
  double laplace() {
    const double u = uniform() - 0.5;
    return std::copysign(std::log(1 - 2 * std::fabs(u)), -u);
  }

 private:
  std::uint64_t state_;
};

}  // namespace ecq_bench
