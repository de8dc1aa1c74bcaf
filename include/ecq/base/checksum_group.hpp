#pragma once
/// \file
/// XXH64 computed by one thread or by a warp, alone or together with a copy of the bytes.

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "ecq/base/checksum.hpp"
#include "ecq/base/config.hpp"
#include "ecq/base/lanes.hpp"
#include "ecq/base/little_endian.hpp"
#include "ecq/base/threads.hpp"

namespace ecq {

namespace detail {

/// Accumulator of XXH64 for devices, where the latency of its chain of steps dominates. It is stored as the rotated sum
/// before the last multiplication, so that this multiplication, which adds anyway, also adds the next word's product.
class xxh64_chain {
 public:
  explicit ECQ_HOST_DEVICE xxh64_chain(std::uint64_t accumulator)
      : low_(low_half(accumulator * inverse)), high_(low_half(accumulator * inverse >> 32)) {}

  ECQ_HOST_DEVICE std::uint64_t accumulator() const { return ((std::uint64_t{high_} << 32) | low_) * prime; }

  /// Takes the next word, already multiplied by xxh64_prime(1).
  ECQ_HOST_DEVICE void add(std::uint64_t product) {
    const std::uint64_t sum = std::uint64_t{low_} * low_half(prime) + product;
    const std::uint32_t low = low_half(sum);
    const std::uint32_t high = low_half(sum >> 32) + (high_ * low_half(prime) + low_ * low_half(prime >> 32));
    low_ = (low << 31) | (high >> 1);  // rotated left by 31
    high_ = (high << 31) | (low >> 1);
  }

 private:
  static constexpr std::uint64_t prime = xxh64_prime(0);
  static constexpr std::uint64_t inverse = 0x0887493432BADB37U;
  static_assert(prime * inverse == 1);

  static ECQ_HOST_DEVICE constexpr std::uint32_t low_half(std::uint64_t x) {
    return static_cast<std::uint32_t>(x & 0xFFFFFFFFU);
  }

  std::uint32_t low_;
  std::uint32_t high_;
};

/// Returns the hash of whole stripes, 32 bytes each, computed by one thread.
ECQ_HOST_DEVICE inline std::uint64_t xxh64_of_stripes(const std::byte* from, std::uint64_t stripes,
                                                      std::uint64_t seed) {
  std::uint64_t kept[4];
  for (std::size_t i = 0; i < 4; ++i) kept[i] = xxh64_start(seed, i);
  for (; stripes > 0; --stripes, from += 32) {
    for (std::size_t i = 0; i < 4; ++i) kept[i] = xxh64_round(kept[i], load_le<std::uint64_t>(from + 8 * i));
  }
  return xxh64_merge(kept);
}

/// XXH64 of bytes by a warp, and optionally their copy. Each lane loads a word of a batch of stripes (32 bytes each),
/// multiplies it and passes the product to the first four lanes, which keep the accumulators. The accumulators of the
/// other lanes are meaningless.
template <bool Copied, shuffling_group Group>
class xxh64_by_lanes {
 public:
  /// Type of numbers of words and bytes; copies have less than 2^32 bytes.
  using number_type = std::conditional_t<Copied, std::uint32_t, std::uint64_t>;

  /// Prepares to hash `size` bytes at `from`, which is aligned to 8 bytes. With Copied, the bytes also go to `to`, and
  /// both places are aligned to 2; the aligned eight bytes that hold the first and the last byte are read as a whole.
  ECQ_HOST_DEVICE xxh64_by_lanes(const Group& group, const std::byte* from, number_type size, std::uint64_t seed,
                                 std::byte* to)
      : group_(group),
        before_(Copied ? misalignment(from) : 0U),
        from_(from - before_),
        readable_((before_ + size + 7) / 8),
        hashed_(size / 32 * 4),
        beyond_(Copied ? misalignment(to) : 0U),
        to_(to - beyond_),
        placed_(Copied ? (size + beyond_) / 8 : 0),
        chain_(xxh64_start(seed, group.rank() % 4)) {}

  /// Hashes all whole stripes, copies all words that are whole at their destination, and returns the hash of the
  /// stripes.
  ECQ_HOST_DEVICE std::uint64_t take() {
    const number_type words = hashed_ > placed_ ? hashed_ : placed_;
    number_type whole = readable_ > 0 ? readable_ - 1 : 0;  // words whose next one can be read as well
    if (whole > hashed_) whole = hashed_;
    if (Copied && whole > placed_) whole = placed_;
    if (words == 0) return xxh64_merge({});
    for (number_type number = 0; number < prefetched; number += 2 * Group::size()) prefetch(number);
    loaded_words loaded[together];
    number_type at = group_.rank();
    ECQ_UNROLL
    for (std::uint32_t i = 0; i < together; ++i) loaded[i] = load<false>(at + i * Group::size());
    number_type taken = 0;
    const auto pass = [&]<bool Whole>(std::bool_constant<Whole>) {
      prefetch(taken + prefetched);
      ECQ_UNROLL
      for (std::uint32_t i = 0; i < together; ++i) {
        const loaded_words now = loaded[i];
        loaded[i] = load<Whole>(at + (together + i) * Group::size());
        take<Whole>(now, at + i * Group::size(), taken + i * Group::size());
      }
      at += together * Group::size();
      taken += together * Group::size();
    };
    while (taken + 2 * together * Group::size() <= whole) pass(std::true_type());
    while (taken < words) pass(std::false_type());
    std::uint64_t all[4];
    ECQ_UNROLL
    for (std::uint32_t i = 0; i < 4; ++i) all[i] = group_.value_of(chain_.accumulator(), i);
    return xxh64_merge(all);
  }

 private:
  using memory = typename Group::memory;

  /// Number of batches that are loaded ahead, and that an iteration takes. The compiler would delay the shuffles of
  /// more batches until lanes wait for them.
  static constexpr std::uint32_t together = 2;
  /// Number of words that are prefetched, because a pass takes less time than memory does.
  static constexpr std::uint32_t prefetched = 512;
  static constexpr std::uint32_t stripes = Group::size() / 4;  ///< stripes of a batch
  static_assert(Group::size() == lane_count);

  /// A word and its neighbours, as far as they are needed.
  struct loaded_words {
    std::uint64_t previous, own, next;
  };

  static ECQ_HOST_DEVICE unsigned misalignment(const std::byte* place) {
    return static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(place) % 8);
  }
  /// Returns the eight bytes from byte `first` of (high:low) on.
  static ECQ_HOST_DEVICE std::uint64_t joined(std::uint64_t low, std::uint64_t high, unsigned first) {
    const bool from_high = first >= 4;
    const std::uint64_t middle = (low >> 32) | (high << 32);
    const std::uint64_t begin = from_high ? middle : low;
    const std::uint64_t end = from_high ? high : middle;
    const unsigned bits = first % 4 * 8;
    const auto half = [&](std::uint64_t from) { return from >> bits & 0xFFFFFFFFU; };
    return half(begin) | (half(end) << 32);
  }

  /// Prefetches two words for each lane from word `first` on, or the last word if there are no more.
  ECQ_HOST_DEVICE void prefetch(number_type first) const {
    const number_type number = first + 2 * group_.rank();
    memory::prefetch(from_ + std::size_t{8} * (number < readable_ ? number : readable_ - 1));
  }
  template <bool Whole>
  ECQ_HOST_DEVICE loaded_words load(number_type number) const {
    const auto word = [&](number_type which) {
      if (!Whole && which >= readable_) return std::uint64_t{0};
      return memory::template load<std::uint64_t>(from_ + std::size_t{8} * which);
    };
    return {Copied ? word(number - 1) : 0, word(number), Copied ? word(number + 1) : 0};
  }

  /// Takes word `number` of the batch that begins with word `first`.
  template <bool Whole>
  ECQ_HOST_DEVICE void take(const loaded_words& words, number_type number, number_type first) {
    const std::uint64_t product = (Copied ? joined(words.own, words.next, before_) : words.own) * xxh64_prime(1);
    if constexpr (Copied) {
      const bool earlier = before_ < beyond_;
      const std::uint64_t there =
          joined(earlier ? words.previous : words.own, earlier ? words.own : words.next, (before_ - beyond_) % 8);
      if ((Whole || number < placed_) && (number != 0 || beyond_ == 0)) {
        memory::store(to_ + std::size_t{8} * number, there);
      }
    }
    ECQ_UNROLL
    for (std::uint32_t stripe = 0; stripe < stripes; ++stripe) {
      const std::uint64_t handed = group_.value_behind(product, 4 * stripe);
      if (Whole || first + 4 * stripe < hashed_) chain_.add(handed);
    }
  }

  const Group& group_;
  unsigned before_;        ///< bytes of the first word that are not hashed
  const std::byte* from_;  ///< aligned to 8
  number_type readable_;   ///< words that can be read
  number_type hashed_;     ///< words of whole stripes
  unsigned beyond_;        ///< bytes of the first word that are not written
  std::byte* to_;          ///< aligned to 8
  number_type placed_;     ///< words that are whole at the destination; the first one always counts
  xxh64_chain chain_;
};

}  // namespace detail

/// Returns the XXH64 of `size` bytes to all threads of a group, which is one thread or a warp. `from` is aligned to 8
/// bytes.
template <shuffling_group Group>
ECQ_HOST_DEVICE std::uint64_t xxh64_by_group(const Group& group, const std::byte* from, std::uint64_t size,
                                             std::uint64_t seed) {
  std::uint64_t hash = seed + detail::xxh64_prime(4);
  if (size >= 32) {
    if constexpr (Group::size() == 1) {
      hash = detail::xxh64_of_stripes(from, size / 32, seed);
    } else {
      hash = detail::xxh64_by_lanes<false, Group>(group, from, size, seed, nullptr).take();
    }
  }
  return detail::xxh64_finish(hash + size, from + size / 32 * 32, static_cast<std::size_t>(size % 32));
}

/// Copies `words` 16-bit words from `from` to `to`, both aligned to 2 bytes, and returns their XXH64. The aligned eight
/// bytes that hold the first and the last word may be read as a whole.
template <shuffling_group Group>
ECQ_HOST_DEVICE std::uint64_t xxh64_and_copy(const Group& group, const std::byte* from, std::uint32_t words,
                                             std::uint64_t seed, std::byte* to) {
  using memory = typename Group::memory;
  const std::uint64_t size = std::uint64_t{2} * words;
  const auto copy = [&](std::uint64_t first, std::uint64_t end) {
    for (std::uint64_t i = first + 2 * group.rank(); i < end; i += 2 * group.size()) {
      memory::store(to + i, memory::template load<std::uint16_t>(from + i));
    }
  };
  if constexpr (Group::size() == 1) {
    copy(0, size);
    return xxh64_by_group(group, from, size, seed);
  } else {
    detail::xxh64_by_lanes<true, Group> lanes(group, from, static_cast<std::uint32_t>(size), seed, to);
    const std::uint64_t of_stripes = lanes.take();
    // Copies the parts at the beginning and the end that do not fill a word at the destination.
    const auto beyond = static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(to) % 8);
    const std::uint64_t end = (size + beyond) / 8 * 8;  // of the words placed, counted from the word that holds `to`
    std::uint64_t first = beyond == 0 ? 0 : 8 - beyond;
    if (first > size) first = size;
    copy(0, first);
    copy(end > beyond + first ? end - beyond : first, size);
    const std::uint64_t hash = size >= 32 ? of_stripes : seed + detail::xxh64_prime(4);
    return detail::xxh64_finish(hash + size, from + size / 32 * 32, static_cast<std::size_t>(size % 32));
  }
}

}  // namespace ecq
