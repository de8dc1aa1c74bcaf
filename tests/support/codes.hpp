#pragma once
// Codes to compress. They come from integer arithmetic alone, so that they are the same on every machine.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ecq_test {

/// Reproducible generator of random numbers: splitmix64.
class code_source {
 public:
  explicit code_source(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9E3779B97F4A7C15U;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31);
  }

  /// Returns bell-shaped codes around 128: sums of four uniform numbers in 0 .. spread. At most 4 * spread + 1 values.
  std::vector<std::uint8_t> bell(std::size_t count, unsigned spread) {
    std::vector<std::uint8_t> codes(count);
    for (std::uint8_t& code : codes) {
      unsigned sum = 128;
      for (int i = 0; i < 4; ++i) sum += static_cast<unsigned>(next() >> 32) % (spread + 1);
      code = static_cast<std::uint8_t>(sum - 2 * spread);
    }
    return codes;
  }

  std::vector<std::uint8_t> uniform(std::size_t count) { return below(count, 256); }

  /// Returns codes below `values`, all equally likely.
  std::vector<std::uint8_t> below(std::size_t count, unsigned values) {
    std::vector<std::uint8_t> codes(count);
    for (std::uint8_t& code : codes) code = static_cast<std::uint8_t>((next() >> 32) % values);
    return codes;
  }

 private:
  std::uint64_t state_;
};

}  // namespace ecq_test
