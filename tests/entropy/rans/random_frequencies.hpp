#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace ecq_test {

/// Returns random frequencies of `count` symbols, each at least 1, whose sum is 2^16.
inline std::vector<std::uint32_t> random_frequencies(std::mt19937& random, std::size_t count) {
  std::vector<std::uint32_t> frequencies(count, 1);
  std::uint32_t left = 65536 - static_cast<std::uint32_t>(count);
  for (std::size_t i = 0; i + 1 < count; ++i) {
    const std::uint32_t share =
        static_cast<std::uint32_t>(random()) % (left + 1) / (1 + static_cast<std::uint32_t>(random()) % 4);
    frequencies[random() % count] += share;
    left -= share;
  }
  frequencies[random() % count] += left;
  return frequencies;
}

}  // namespace ecq_test
