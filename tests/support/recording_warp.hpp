#pragma once
/// \file
/// A warp on the host that remembers which memory it asked for ahead of its need.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "support/host_warp.hpp"

namespace ecq_test {

struct recording_warp : ecq::host_warp {
  struct access {
    const std::byte* first;
    std::size_t bytes;

    bool within(const std::byte* begin, const std::byte* end) const { return first >= begin && first + bytes <= end; }
  };
  static inline std::vector<access> prefetched;

  template <class Word>
  static void prefetch(flags which, const std::byte* from, const lanes& index) {
    for (std::uint32_t i = 0; i < ecq::lane_count; ++i) {
      if ((which >> i & 1U) != 0) prefetched.push_back({from + sizeof(Word) * index.value[i], sizeof(Word)});
    }
  }
  template <std::size_t Words>
  static void prefetch_own(flags which, const std::byte* from) {
    for (std::uint32_t i = 0; i < Words; ++i) {
      prefetch<std::uint32_t>(which, from, lane_numbers() * lanes(Words) + lanes(i));
    }
  }
};
static_assert(ecq::lockstep_warp<recording_warp>);

}  // namespace ecq_test
