#pragma once
/// \file
/// XXH64 by one thread or by four.

#include <cstddef>
#include <cstdint>

#include "ecq/base/checksum.hpp"
#include "ecq/base/config.hpp"
#include "ecq/base/threads.hpp"

namespace ecq {

/// XXH64 of `size` bytes, returned to all threads of a group of one or four threads, each of which keeps its share of
/// the accumulators. `from` is aligned to 8 bytes or, with Even, to 2; with Even, up to 4 bytes beyond the end may be
/// read.
template <bool Even, shuffling_group Group>
ECQ_HOST_DEVICE std::uint64_t xxh64_by_group(const Group& group, const std::byte* from, std::uint64_t size,
                                             std::uint64_t seed) {
  using memory = typename Group::memory;
  static_assert(Group::size() == 1 || Group::size() == 4);
  constexpr std::uint32_t own = 4 / Group::size();
  constexpr std::uint32_t together = 8;  // stripes that are loaded at the same time
  const std::uint32_t first = group.rank() * own;
  std::uint64_t kept[own];
  for (std::uint32_t i = 0; i < own; ++i) kept[i] = detail::xxh64_start(seed, first + i);
  const std::byte* at = from + std::size_t{8} * first;
  std::uint64_t stripes = size / 32;
  const auto load = [&](std::uint32_t stripe, std::uint32_t i) {
    const std::byte* const here = at + std::size_t{32} * stripe + std::size_t{8} * i;
    if constexpr (Even) {
      return memory::load_even(here);
    } else {
      return memory::template load<std::uint64_t>(here);
    }
  };
  std::uint64_t words[together][own];
  const auto fetch = [&] {
    ECQ_UNROLL
    for (std::uint32_t stripe = 0; stripe < together; ++stripe) {
      ECQ_UNROLL
      for (std::uint32_t i = 0; i < own; ++i) words[stripe][i] = load(stripe, i);
    }
    at += std::size_t{32} * together;
    stripes -= together;
  };
  bool more = stripes >= together;
  if (more) fetch();
  while (more) {
    std::uint64_t now[together][own];
    ECQ_UNROLL
    for (std::uint32_t stripe = 0; stripe < together; ++stripe) {
      ECQ_UNROLL
      for (std::uint32_t i = 0; i < own; ++i) now[stripe][i] = words[stripe][i];
    }
    more = stripes >= together;
    if (more) fetch();  // these loads overlap with the rounds below
    ECQ_UNROLL
    for (const auto& stripe : now) {
      ECQ_UNROLL
      for (std::uint32_t i = 0; i < own; ++i) kept[i] = detail::xxh64_round(kept[i], stripe[i]);
    }
  }
  for (; stripes > 0; --stripes, at += 32) {
    ECQ_UNROLL
    for (std::uint32_t i = 0; i < own; ++i) kept[i] = detail::xxh64_round(kept[i], load(0, i));
  }
  std::uint64_t all[4];
  ECQ_UNROLL
  for (std::uint32_t i = 0; i < 4; ++i) all[i] = group.value_of(kept[i % own], i / own);
  const std::uint64_t hash = size >= 32 ? detail::xxh64_merge(all) : seed + detail::xxh64_prime(4);
  return detail::xxh64_finish(hash + size, from + size / 32 * 32, static_cast<std::size_t>(size % 32));
}

}  // namespace ecq
