#pragma once
/// \file
/// A host_warp that records which memory it prefetches and which it copies.

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
  static inline std::vector<access> copied;

  template <class Word>
  static void prefetch(flags which, const std::byte* from, const lanes& index) {
    for (std::uint32_t i = 0; i < ecq::lane_count; ++i) {
      if ((which >> i & 1U) != 0) prefetched.push_back({from + sizeof(Word) * index.value[i], sizeof(Word)});
    }
  }
  static void copy_own(flags which, std::byte* to, const lanes& offset, const std::byte* from) {
    for (std::uint32_t i = 0; i < ecq::lane_count; ++i) {
      if ((which >> i & 1U) != 0) copied.push_back({from + std::size_t{8} * i, 8});
    }
    host_warp::copy_own(which, to, offset, from);
  }
};
static_assert(ecq::lockstep_warp<recording_warp>);

}  // namespace ecq_test
