#pragma once
/// \file
/// The lockstep_warp of the host: 32 lanes as one value. In every test it runs, bit for bit, the code that devices run
/// with cuda/device_warp.cuh.

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "ecq/base/host_group.hpp"
#include "ecq/base/lanes.hpp"
#include "ecq/base/little_endian.hpp"
#include "ecq/base/threads.hpp"
#include "ecq/format/nearest_finite.hpp"

namespace ecq {

/// A 32-bit value for each lane, with the operators that a device lane's std::uint32_t has.
struct host_lanes {
  std::array<std::uint32_t, lane_count> value{};

  host_lanes() = default;
  explicit host_lanes(std::uint32_t same) { value.fill(same); }

  template <class Operation>
  static host_lanes each(Operation operation) {
    host_lanes lanes;
    for (std::uint32_t i = 0; i < lane_count; ++i) lanes.value[i] = operation(i);
    return lanes;
  }

  friend host_lanes operator+(const host_lanes& a, const host_lanes& b) {
    return each([&](std::uint32_t i) { return a.value[i] + b.value[i]; });
  }
  friend host_lanes operator-(const host_lanes& a, const host_lanes& b) {
    return each([&](std::uint32_t i) { return a.value[i] - b.value[i]; });
  }
  friend host_lanes operator*(const host_lanes& a, const host_lanes& b) {
    return each([&](std::uint32_t i) { return a.value[i] * b.value[i]; });
  }
  friend host_lanes operator|(const host_lanes& a, const host_lanes& b) {
    return each([&](std::uint32_t i) { return a.value[i] | b.value[i]; });
  }
  friend host_lanes operator^(const host_lanes& a, const host_lanes& b) {
    return each([&](std::uint32_t i) { return a.value[i] ^ b.value[i]; });
  }
  friend host_lanes operator&(const host_lanes& a, const host_lanes& b) {
    return each([&](std::uint32_t i) { return a.value[i] & b.value[i]; });
  }
  friend host_lanes operator&(const host_lanes& a, std::uint32_t b) {
    return each([&](std::uint32_t i) { return a.value[i] & b; });
  }
  friend host_lanes operator<<(const host_lanes& a, unsigned bits) {
    return each([&](std::uint32_t i) { return a.value[i] << bits; });
  }
  friend host_lanes operator>>(const host_lanes& a, unsigned bits) {
    return each([&](std::uint32_t i) { return a.value[i] >> bits; });
  }
};

/// `lanes` holds a 32-bit value for each lane, `wide_lanes` a 64-bit one, and `flags` a truth value.
struct host_warp {
  using lanes = host_lanes;
  using wide_lanes = std::array<std::uint64_t, lane_count>;
  using memory = host_memory;
  using flags = std::uint32_t;  ///< bit i: lane i

  static lanes lane_numbers() {
    return lanes::each([](std::uint32_t i) { return i; });
  }

  /// Calls `body(lane)` for each lane, which accesses its own values by `at`.
  template <class Body>
  static void each_lane(Body&& body) {
    for (std::uint32_t lane = 0; lane < lane_count; ++lane) body(lane);
  }
  static std::uint32_t& at(lanes& values, std::uint32_t lane) { return values.value[lane]; }
  static std::uint32_t at(const lanes& values, std::uint32_t lane) { return values.value[lane]; }
  static std::uint64_t& at(wide_lanes& values, std::uint32_t lane) { return values[lane]; }

  /// Returns `x`, which is the same in all lanes.
  static std::uint32_t uniform(std::uint32_t x) { return x; }
  /// Returns the smallest of all lanes' values.
  static std::uint32_t least(const lanes& x) { return *std::min_element(x.value.begin(), x.value.end()); }

  static flags all() { return 0xFFFFFFFFU; }
  static flags below(const lanes& a, const lanes& b) {
    flags result = 0;
    for (std::uint32_t i = 0; i < lane_count; ++i) result |= (a.value[i] < b.value[i] ? 1U : 0U) << i;
    return result;
  }
  static flags at_least(const lanes& a, const lanes& b) { return ~below(a, b); }
  static flags both(flags a, flags b) { return a & b; }
  static std::uint32_t ballot(flags set) { return set; }
  /// Returns whether any lane is set; cheaper than a ballot.
  static bool any(flags set) { return set != 0; }
  static std::uint32_t count(std::uint32_t ballot) { return static_cast<std::uint32_t>(std::popcount(ballot)); }

  /// Returns for each lane the ballot of all lower lanes.
  static lanes lower_lanes() {
    return lanes::each([](std::uint32_t i) { return (1U << i) - 1U; });
  }
  static lanes count_bits(const lanes& x) {
    return lanes::each([&](std::uint32_t i) { return count(x.value[i]); });
  }

  /// Returns for each lane the number of lower lanes that are set in `ballot`.
  static lanes set_below(std::uint32_t ballot) {
    return lanes::each([&](std::uint32_t i) { return count(ballot & ((1U << i) - 1U)); });
  }

  static lanes select(flags which, const lanes& yes, const lanes& no) {
    return lanes::each([&](std::uint32_t i) { return (which >> i & 1U) != 0 ? yes.value[i] : no.value[i]; });
  }

  /// Returns the high 32 bits of a * b + addend.
  static lanes multiply_high(const lanes& a, const lanes& b, std::uint32_t addend) {
    return lanes::each([&](std::uint32_t i) {
      return static_cast<std::uint32_t>((std::uint64_t{a.value[i]} * b.value[i] + addend) >> 32);
    });
  }
  /// Returns a * b, rounded before anything is added.
  static float multiply(float a, float b) {
    const volatile float product = a * b;
    return product;
  }
  /// Returns (a << 16) | b; a and b are below 2^16.
  static lanes append_half(const lanes& a, const lanes& b) { return (a << 16) | b; }
  /// Returns the bits of `a` where those of `mask` are set, and the bits of `b` elsewhere.
  static lanes merge_bits(const lanes& a, const lanes& b, std::uint32_t mask) { return (a & mask) | (b & ~mask); }

  /// Returns x >> bits, for bits modulo 32.
  static lanes shift_right(const lanes& x, const lanes& bits) {
    return lanes::each([&](std::uint32_t i) { return x.value[i] >> (bits.value[i] % 32); });
  }
  /// Returns the lowest bits of x; their number is `bits` modulo 32.
  static lanes low_bits(const lanes& x, const lanes& bits) {
    return lanes::each([&](std::uint32_t i) { return x.value[i] & ((1U << (bits.value[i] % 32)) - 1U); });
  }
  /// Returns bytes selected from (b:a): byte i of the result is byte (selector >> 4 i) modulo 8 of (b:a).
  static lanes permute_bytes(const lanes& a, const lanes& b, unsigned selector) {
    return lanes::each([&](std::uint32_t i) { return permuted(a.value[i], b.value[i], selector); });
  }
  /// Like permute_bytes(), with a selector for each lane, of which the low 16 bits count. If bit 3 of a nibble is set,
  /// its byte is unspecified.
  static lanes permute_bytes_by(const lanes& a, const lanes& b, const lanes& selector) {
    return lanes::each([&](std::uint32_t i) { return permuted(a.value[i], b.value[i], selector.value[i]); });
  }

  /// Returns for each lane the value of `x` in the lane that `lane` names, modulo 32.
  static lanes shuffle(const lanes& x, const lanes& lane) {
    return lanes::each([&](std::uint32_t i) { return x.value[lane.value[i] % lane_count]; });
  }

  /// Returns the low 32 bits of (high:low) >> bits, for bits 0..31.
  static lanes funnel_right(const lanes& low, const lanes& high, const lanes& bits) {
    return lanes::each([&](std::uint32_t i) {
      return static_cast<std::uint32_t>(((std::uint64_t{high.value[i]} << 32) | low.value[i]) >> bits.value[i]);
    });
  }

  /// Returns table[index] for each lane.
  template <class Entry>
  static lanes gather(const Entry* table, const lanes& index) {
    return lanes::each([&](std::uint32_t i) { return std::uint32_t{table[index.value[i]]}; });
  }

  /// Loads words 2 * index and 2 * index + 1 of `table` for each lane; on a device, `table` is aligned to 8 bytes.
  static void gather_two(const std::uint32_t* table, const lanes& index, lanes (&words)[2]) {
    for (std::uint32_t lane = 0; lane < lane_count; ++lane) {
      for (std::size_t i = 0; i < 2; ++i) words[i].value[lane] = table[2 * index.value[lane] + i];
    }
  }

  /// Loads the four words of an entry of 16 bytes for each lane: the entry `offset` bytes after the first one.
  template <class Entry>
  static void gather_four(const Entry* table, const lanes& offset, lanes (&words)[4]) {
    static_assert(sizeof(Entry) == 16);
    for (std::uint32_t lane = 0; lane < lane_count; ++lane) {
      std::uint32_t four[4];
      std::memcpy(four, table + offset.value[lane] / 16, sizeof four);
      for (std::size_t i = 0; i < 4; ++i) words[i].value[lane] = four[i];
    }
  }

  /// Loads little-endian word number `index` from `from` on for each lane, aligned to its size; unspecified in lanes
  /// that are not set in `which`.
  template <class Word>
  static lanes load(flags which, const std::byte* from, const lanes& index) {
    return lanes::each([&](std::uint32_t i) {
      return (which >> i & 1U) != 0 ? std::uint32_t{load_le<Word>(from + sizeof(Word) * index.value[i])} : 0U;
    });
  }

  /// Loads the little-endian word `offset` bytes from `from` on for each lane, aligned to its size.
  template <class Word>
  static lanes load_at(const std::byte* from, const lanes& offset) {
    return lanes::each([&](std::uint32_t i) { return std::uint32_t{load_le<Word>(from + offset.value[i])}; });
  }

  /// Hints that the lanes set in `which` will soon load word number `index` from `from` on. Here the word is loaded, so
  /// that sanitizers see whether it may be.
  template <class Word>
  static void prefetch(flags which, const std::byte* from, const lanes& index) {
    [[maybe_unused]] const volatile std::uint32_t seen = at(load<Word>(which, from, index), 0);
  }
  /// Like prefetch(), for the words that each lane reads from `place` on by load_own().
  template <std::size_t Words, class Word = std::uint32_t>
  static void prefetch_own(const std::byte* place) {
    for (std::uint32_t i = 0; i < Words; ++i) prefetch<Word>(all(), place, lane_numbers() * lanes(Words) + lanes(i));
  }

  /// Returns the place that load_own() and store_own() of as many words take for the memory from `from` on. On a device
  /// it is the address of the lane's own words. Adding to a place has the same effect as adding to `from`.
  template <std::size_t Words, class Word = std::uint32_t, class Byte>
  static Byte* own_place(Byte* from) {
    return from;
  }
  /// Loads the words of each lane, low byte first; the words of lane i begin at byte sizeof(Word) * Words * i of a
  /// place. Unspecified in lanes that are not set in `which`.
  template <class Word = std::uint32_t, std::size_t Words>
  static void load_own(flags which, const std::byte* from, lanes (&words)[Words]) {
    for (std::uint32_t i = 0; i < Words; ++i) {
      words[i] = load<Word>(which, from, lane_numbers() * lanes(Words) + lanes(i));
    }
  }

  /// Copies the 8 bytes that load_own() of two words reads to `offset` bytes from `to` on, aligned to 8, for the lanes
  /// set in `which`. Lanes may read the copies after wait_for_copies(), which waits for all earlier copies of the warp.
  /// Here no copy arrives before that, and bytes that are read too early are no words of the chunk.
  static void copy_own(flags which, std::byte* to, const lanes& offset, const std::byte* from) {
    for (std::uint32_t i = 0; i < lane_count; ++i) {
      if ((which >> i & 1U) == 0) continue;
      std::memset(to + offset.value[i], 0xEE, 8);
      copies_on_their_way.push_back({to + offset.value[i], from + std::size_t{8} * i});
    }
  }
  static void wait_for_copies() {
    for (const auto& [to, from] : copies_on_their_way) std::memcpy(to, from, 8);
    copies_on_their_way.clear();
  }

  static std::byte* kept_global(std::byte* place) { return place; }
  /// Stores the low half of `words` to word number `index` from `to` on, for the lanes set in `which`.
  static void store_halves(flags which, std::byte* to, const lanes& index, const lanes& words) {
    for (std::uint32_t i = 0; i < lane_count; ++i) {
      if ((which >> i & 1U) == 0) continue;
      store_le(to + std::size_t{2} * index.value[i], static_cast<std::uint16_t>(words.value[i] & 0xFFFFU));
    }
  }

  /// Returns the place of byte 0 of `out`; the place of byte i is larger by i.
  static std::uint64_t origin_of(std::byte*) { return 0; }
  /// Stores four finite numbers of one lane as elements to a place in `out`; store_one() stores one element.
  template <class Element>
  static void store_four(std::byte* out, std::uint64_t place, const float (&four)[4]) {
    for (std::size_t i = 0; i < 4; ++i) store_one(out + place + i * sizeof(Element), nearest_finite<Element>(four[i]));
  }
  template <class Element>
  static void store_one(std::byte* to, const Element& one) {
    std::memcpy(to, &one, sizeof one);
  }

  /// Stores the words of each lane, low byte first; the words of lane i begin at to[4 * Words * i].
  template <std::size_t Words>
  static void store(std::byte* to, const lanes (&words)[Words]) {
    store_own_bytes(to, words, 0, 4 * Words * lane_count);
  }
  /// Like store(), to a place that own_place() has returned.
  template <std::size_t Words>
  static void store_own(std::byte* to, const lanes (&words)[Words]) {
    store(to, words);
  }
  /// Like store_own(), but stores only to[first], ..., to[last - 1].
  template <std::size_t Words>
  static void store_own_bytes(std::byte* to, const lanes (&words)[Words], std::uint32_t first, std::uint32_t last) {
    for (std::uint32_t at = first; at < 4 * Words * lane_count && at < last; ++at) {
      to[at] = static_cast<std::byte>(words[at / 4 % Words].value[at / (4 * Words)] >> (8 * (at % 4)));
    }
  }

 private:
  static inline thread_local std::vector<std::pair<std::byte*, const std::byte*>> copies_on_their_way;

  static std::uint32_t permuted(std::uint32_t a, std::uint32_t b, unsigned selector) {
    const std::uint64_t both = (std::uint64_t{b} << 32) | a;
    std::uint32_t bytes = 0;
    for (unsigned byte = 0; byte < 4; ++byte) {
      bytes |= static_cast<std::uint32_t>(both >> (8 * (selector >> (4 * byte) & 7U)) & 0xFFU) << (8 * byte);
    }
    return bytes;
  }
};
static_assert(lockstep_warp<host_warp>);

}  // namespace ecq
