#pragma once
/// \file
/// Definition of XXH64 of several inputs at once.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "ecq/base/checksum.hpp"
#include "ecq/base/config.hpp"
#include "ecq/base/xxh64_avx512.hpp"

namespace ecq {

ECQ_INLINE void xxh64_many(std::span<const std::span<const std::byte>> inputs, std::span<std::uint64_t> hashes,
                           [[maybe_unused]] instruction_set isa) {
  std::size_t first = 0;
#if ECQ_X86
  constexpr std::size_t together = 4;
  if (chosen_instruction_set(isa) == instruction_set::avx512) {
    for (; inputs.size() - first > 1; first += (std::min)(together, inputs.size() - first)) {
      const std::size_t count = (std::min)(together, inputs.size() - first);
      std::uint64_t accumulators[together][4];
      const std::byte* from[together];
      std::size_t stripes = inputs[first].size() / xxh64_hasher::stripe;
      for (std::size_t i = 0; i < together; ++i) {
        const std::size_t input = first + (std::min)(i, count - 1);  // repeats the last input if there are fewer
        std::copy_n(xxh64_hasher(hashes[input]).lane_, 4, accumulators[i]);
        from[i] = inputs[input].data();
        stripes = (std::min)(stripes, inputs[input].size() / xxh64_hasher::stripe);
      }
      detail::avx512::xxh64_stripes(detail::xxh64_primes, accumulators, from, stripes);
      for (std::size_t i = 0; i < count; ++i) {
        xxh64_hasher hasher(hashes[first + i]);
        std::copy_n(accumulators[i], 4, hasher.lane_);
        hasher.total_ = stripes * xxh64_hasher::stripe;
        hasher.update(inputs[first + i].subspan(stripes * xxh64_hasher::stripe));
        hashes[first + i] = hasher.digest();
      }
    }
  }
#endif
  for (; first < inputs.size(); ++first) hashes[first] = xxh64(inputs[first], hashes[first]);
}

}  // namespace ecq
