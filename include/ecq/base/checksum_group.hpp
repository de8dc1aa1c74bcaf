#pragma once
/// \file
/// XXH64 by one thread, by four or by a warp.

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "ecq/base/checksum.hpp"
#include "ecq/base/config.hpp"
#include "ecq/base/lanes.hpp"
#include "ecq/base/threads.hpp"

namespace ecq {

namespace detail {

/// How the threads of a group share the stripes (32 bytes) that they hash: each keeps `own` of the four accumulators,
/// and loads as many words of each batch of stripes. `together` batches are on their way at a time. More loads would
/// not help: a multiprocessor counts those on their way in few counters, so that threads wait for later ones too. Where
/// that is too few for what memory takes, later stripes are `prefetched`.
template <std::uint32_t Threads>
struct stripe_shares;
template <>
struct stripe_shares<1> {
  static constexpr std::uint32_t own = 4, batch = 1, together = 2, prefetched = 0;
};
template <>
struct stripe_shares<4> {
  static constexpr std::uint32_t own = 1, batch = 1, together = 8, prefetched = 32;
};
template <>
struct stripe_shares<lane_count> {
  static constexpr std::uint32_t own = 1, batch = lane_count / 4, together = 8, prefetched = 0;
};

}  // namespace detail

/// XXH64 of `size` bytes, returned to all threads of a group: one, four, or a warp, which waits for memory least.
/// `from` is aligned to 8 bytes or, with Even, to 2; with Even, up to 6 bytes before the first and beyond the last may
/// be read, and the group is no warp.
template <bool Even, shuffling_group Group>
ECQ_HOST_DEVICE std::uint64_t xxh64_by_group(const Group& group, const std::byte* from, std::uint64_t size,
                                             std::uint64_t seed) {
  using memory = typename Group::memory;
  using shares = detail::stripe_shares<Group::size()>;
  constexpr std::uint32_t own = shares::own;
  static_assert(!Even || shares::batch == 1);
  const std::uint32_t accumulator = group.rank() * own % 4;
  std::uint64_t kept[own];
  for (std::uint32_t i = 0; i < own; ++i) kept[i] = detail::xxh64_start(seed, accumulator + i);

  // Words are loaded as they are aligned. Where that is not how they are hashed, the rest of a word is in the next
  // one, which may be another thread's, and that of a stripe's last word in the next stripe.
  const auto before = Even ? static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(from) % 8) : 0U;
  const std::byte* at = from - before + std::size_t{8} * own * group.rank();
  std::uint64_t left = size / 32;  // stripes
  std::uint64_t words[shares::together][own];
  const auto load = [&](std::uint32_t batch, std::uint64_t(&loaded)[own], bool whole = false) {
    const std::uint32_t stripe = batch * shares::batch + group.rank() * own / 4;
    ECQ_UNROLL
    for (std::uint32_t i = 0; i < own; ++i) {
      const bool rest = Even && before != 0 && accumulator + i == 0 && stripe == left;
      if (!whole && stripe >= left && !rest) continue;
      loaded[i] =
          memory::template load<std::uint64_t>(at + std::size_t{32} * shares::batch * batch + std::size_t{8} * i);
    }
  };
  const auto take = [&](const std::uint64_t(&batch)[own], const std::uint64_t(&next)[own], std::uint64_t stripes) {
    if constexpr (shares::batch != 1) {
      ECQ_UNROLL
      for (std::uint32_t stripe = 0; stripe < shares::batch; ++stripe) {
        const std::uint64_t word = group.value_of(batch[0], 4 * stripe + accumulator);
        if (stripe < stripes) kept[0] = detail::xxh64_round(kept[0], word);
      }
    } else {
      std::uint64_t own_words[own];
      ECQ_UNROLL
      for (std::uint32_t i = 0; i < own; ++i) own_words[i] = batch[i];
      if constexpr (Even) {
        const std::uint64_t rest =
            group.value_of(accumulator == 0 ? next[0] : batch[0], (group.rank() + 1) % Group::size());
        if (before != 0) {
          ECQ_UNROLL
          for (std::uint32_t i = 0; i < own; ++i) {
            own_words[i] = (batch[i] >> (8 * before)) | ((i + 1 < own ? batch[i + 1] : rest) << (64 - 8 * before));
          }
        }
      }
      ECQ_UNROLL
      for (std::uint32_t i = 0; i < own; ++i) kept[i] = detail::xxh64_round(kept[i], own_words[i]);
    }
  };
  const auto prefetch = [&](std::uint32_t stripe) {
    if (stripe + group.rank() < left) memory::prefetch(at + std::size_t{32} * (stripe + group.rank()));
  };
  constexpr std::uint32_t stripes_together = shares::together * shares::batch;
  ECQ_UNROLL
  for (std::uint32_t batch = 0; batch < shares::together; ++batch) load(batch, words[batch]);
  if constexpr (shares::prefetched != 0) {
    for (std::uint32_t stripe = stripes_together; stripe < shares::prefetched; stripe += Group::size()) {
      prefetch(stripe);
    }
  }
  // With Whole there are all stripes of this pass and of the next.
  const auto pass = [&]<bool Whole>(std::bool_constant<Whole>) {
    if constexpr (Whole && shares::prefetched != 0) {
      ECQ_UNROLL
      for (std::uint32_t i = 0; i < stripes_together; i += Group::size()) prefetch(shares::prefetched + i);
    }
    ECQ_UNROLL
    for (std::uint32_t batch = 0; batch < shares::together; ++batch) {
      const std::uint32_t first = batch * shares::batch;
      if (!Whole && first >= left) continue;
      take(words[batch], words[(batch + 1) % shares::together], Whole ? shares::batch : left - first);
      load(batch + shares::together, words[batch], Whole);
    }
  };
  for (; left >= 2 * stripes_together; left -= stripes_together) {
    pass(std::true_type());
    at += std::size_t{32} * stripes_together;
  }
  pass(std::false_type());
  if (left > stripes_together) {
    left -= stripes_together;
    at += std::size_t{32} * stripes_together;
    pass(std::false_type());
  }
  std::uint64_t all[4];
  ECQ_UNROLL
  for (std::uint32_t i = 0; i < 4; ++i) all[i] = group.value_of(kept[i % own], i / own);
  const std::uint64_t hash = size >= 32 ? detail::xxh64_merge(all) : seed + detail::xxh64_prime(4);
  return detail::xxh64_finish(hash + size, from + size / 32 * 32, static_cast<std::size_t>(size % 32));
}

}  // namespace ecq
