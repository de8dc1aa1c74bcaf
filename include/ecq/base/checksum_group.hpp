#pragma once
/// \file
/// XXH64 by one thread or by four.

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "ecq/base/checksum.hpp"
#include "ecq/base/config.hpp"
#include "ecq/base/threads.hpp"

namespace ecq {

/// XXH64 of `size` bytes, returned to all threads of a group of one or four threads, each of which keeps its share of
/// the accumulators. `from` is aligned to 8 bytes or, with Even, to 2; with Even, up to 4 bytes beyond the end may be
/// read. `Together` stripes of 32 bytes are on their way while as many are hashed: the more, the longer memory may
/// take.
template <bool Even, std::uint32_t Together = 8, shuffling_group Group>
ECQ_HOST_DEVICE std::uint64_t xxh64_by_group(const Group& group, const std::byte* from, std::uint64_t size,
                                             std::uint64_t seed) {
  using memory = typename Group::memory;
  static_assert(Group::size() == 1 || Group::size() == 4);
  constexpr std::uint32_t own = 4 / Group::size();
  const std::uint32_t first = group.rank() * own;
  std::uint64_t kept[own];
  for (std::uint32_t i = 0; i < own; ++i) kept[i] = detail::xxh64_start(seed, first + i);
  const std::byte* at = from + std::size_t{8} * first;
  std::uint64_t words[Together][own];
  const auto load = [&](std::uint32_t stripe, std::uint64_t(&loaded)[own]) {
    ECQ_UNROLL
    for (std::uint32_t i = 0; i < own; ++i) {
      const std::byte* const here = at + std::size_t{32} * stripe + std::size_t{8} * i;
      if constexpr (Even) {
        loaded[i] = memory::load_even(here);
      } else {
        loaded[i] = memory::template load<std::uint64_t>(here);
      }
    }
  };
  std::uint64_t left = size / 32;  // stripes
  ECQ_UNROLL
  for (std::uint32_t stripe = 0; stripe < Together; ++stripe) {
    if (stripe < left) load(stripe, words[stripe]);
  }
  // With Whole there are all stripes of this pass and of the next.
  const auto pass = [&]<bool Whole>(std::bool_constant<Whole>) {
    ECQ_UNROLL
    for (std::uint32_t stripe = 0; stripe < Together; ++stripe) {
      if (!Whole && stripe >= left) continue;
      ECQ_UNROLL
      for (std::uint32_t i = 0; i < own; ++i) kept[i] = detail::xxh64_round(kept[i], words[stripe][i]);
      // Where it was used, and no later: compilers would load the next ones all at once, and wait.
      if (Whole || stripe + Together < left) load(stripe + Together, words[stripe]);
    }
  };
  for (; left >= 2 * Together; left -= Together, at += std::size_t{32} * Together) pass(std::true_type());
  pass(std::false_type());
  if (left > Together) {
    left -= Together;
    at += std::size_t{32} * Together;
    pass(std::false_type());
  }
  std::uint64_t all[4];
  ECQ_UNROLL
  for (std::uint32_t i = 0; i < 4; ++i) all[i] = group.value_of(kept[i % own], i / own);
  const std::uint64_t hash = size >= 32 ? detail::xxh64_merge(all) : seed + detail::xxh64_prime(4);
  return detail::xxh64_finish(hash + size, from + size / 32 * 32, static_cast<std::size_t>(size % 32));
}

}  // namespace ecq
