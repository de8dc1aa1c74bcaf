#pragma once
/// \file
/// How often each of the 256 codes occurs.

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>

#include "ecq/cpu/backend.hpp"

namespace ecq {

/// Counts of the byte values 0..255.
struct histogram {
  std::array<std::uint64_t, 256> counts{};

  std::uint64_t total() const noexcept {
    std::uint64_t sum = 0;
    for (const std::uint64_t count : counts) sum += count;
    return sum;
  }

  /// Different values that occur.
  unsigned distinct() const noexcept {
    unsigned present = 0;
    for (const std::uint64_t count : counts) present += count != 0 ? 1U : 0U;
    return present;
  }

  /// Counts `codes` on top of what is there.
  void add(std::span<const std::uint8_t> codes) noexcept {
    // Four counters a value: a run of one value would otherwise wait for its own last store every time.
    std::uint64_t part[4][256] = {};
    std::size_t at = 0;
    for (; at + 4 <= codes.size(); at += 4) {
      for (std::size_t i = 0; i < 4; ++i) ++part[i][codes[at + i]];
    }
    for (; at < codes.size(); ++at) ++part[0][codes[at]];
    for (std::size_t value = 0; value < 256; ++value) {
      counts[value] += part[0][value] + part[1][value] + part[2][value] + part[3][value];
    }
  }

  histogram& operator+=(const histogram& other) noexcept {
    for (std::size_t value = 0; value < 256; ++value) counts[value] += other.counts[value];
    return *this;
  }

  bool operator==(const histogram&) const = default;
};

/// Histogram of `codes`, counted on all threads of `backend`.
inline result<histogram> count_codes(const cpu& backend, std::span<const std::uint8_t> codes) {
  constexpr std::size_t piece = std::size_t{1} << 20;
  histogram all;
  std::mutex guard;
  ECQ_CHECK(parallel_for(backend, (codes.size() + piece - 1) / piece, [&](std::size_t index) -> result<void> {
    histogram part;
    part.add(codes.subspan(index * piece, (std::min)(piece, codes.size() - index * piece)));
    const std::scoped_lock lock(guard);
    all += part;
    return {};
  }));
  return all;
}

}  // namespace ecq
