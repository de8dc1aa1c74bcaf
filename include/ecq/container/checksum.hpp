#pragma once
/// \file
/// XXH64, the checksum of headers and chunks: 64 bits, not cryptographic, defined by the xxHash specification 0.1.1
/// (https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md).

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "ecq/cpu/instruction_set.hpp"
#include "ecq/cpu/xxh64_avx512.hpp"
#include "ecq/stream/little_endian.hpp"

namespace ecq {

namespace detail {

inline constexpr std::uint64_t xxh64_primes[5] = {0x9E3779B185EBCA87U, 0xC2B2AE3D27D4EB4FU, 0x165667B19E3779F9U,
                                                  0x85EBCA77C2B2AE63U, 0x27D4EB2F165667C5U};

constexpr std::uint64_t xxh64_round(std::uint64_t accumulator, std::uint64_t lane) noexcept {
  return std::rotl(accumulator + lane * xxh64_primes[1], 31) * xxh64_primes[0];
}

}  // namespace detail

/// XXH64 of bytes that come in pieces, however they are cut.
class xxh64_hasher {
 public:
  constexpr explicit xxh64_hasher(std::uint64_t seed = 0) noexcept
      : lane_{seed + detail::xxh64_primes[0] + detail::xxh64_primes[1], seed + detail::xxh64_primes[1], seed,
              seed - detail::xxh64_primes[0]},
        seed_(seed) {}

  constexpr void update(std::span<const std::byte> bytes) noexcept {
    total_ += bytes.size();
    if (buffered_ > 0) {
      const std::size_t taken = (std::min)(bytes.size(), block - buffered_);
      std::copy_n(bytes.begin(), taken, buffer_ + buffered_);
      buffered_ += taken;
      bytes = bytes.subspan(taken);
      if (buffered_ < block) return;
      consume(buffer_);
    }
    for (; bytes.size() >= block; bytes = bytes.subspan(block)) consume(bytes.data());
    std::copy_n(bytes.begin(), bytes.size(), buffer_);
    buffered_ = bytes.size();
  }

  /// Of everything so far; more may follow.
  constexpr std::uint64_t digest() const noexcept {
    constexpr const std::uint64_t(&prime)[5] = detail::xxh64_primes;
    std::uint64_t hash = seed_ + prime[4];
    if (total_ >= block) {
      hash = std::rotl(lane_[0], 1) + std::rotl(lane_[1], 7) + std::rotl(lane_[2], 12) + std::rotl(lane_[3], 18);
      for (const std::uint64_t accumulator : lane_) {
        hash = (hash ^ detail::xxh64_round(0, accumulator)) * prime[0] + prime[3];
      }
    }
    hash += total_;
    const std::byte* at = buffer_;
    std::size_t left = buffered_;
    for (; left >= 8; left -= 8, at += 8) {
      hash = std::rotl(hash ^ detail::xxh64_round(0, load_le<std::uint64_t>(at)), 27) * prime[0] + prime[3];
    }
    if (left >= 4) {
      hash = std::rotl(hash ^ (load_le<std::uint32_t>(at) * prime[0]), 23) * prime[1] + prime[2];
      left -= 4;
      at += 4;
    }
    for (; left > 0; --left, ++at) {
      hash = std::rotl(hash ^ (static_cast<std::uint64_t>(*at) * prime[4]), 11) * prime[0];
    }
    hash = (hash ^ (hash >> 33)) * prime[1];
    hash = (hash ^ (hash >> 29)) * prime[2];
    return hash ^ (hash >> 32);
  }

 private:
  friend void xxh64_many(std::span<const std::span<const std::byte>> inputs, std::span<std::uint64_t> hashes,
                         instruction_set isa);

  static constexpr std::size_t block = 32;

  constexpr void consume(const std::byte* at) noexcept {
    for (std::uint64_t& accumulator : lane_) {
      accumulator = detail::xxh64_round(accumulator, load_le<std::uint64_t>(at));
      at += 8;
    }
    buffered_ = 0;
  }

  std::uint64_t lane_[4];
  std::uint64_t seed_;
  std::uint64_t total_ = 0;
  std::byte buffer_[block] = {};
  std::size_t buffered_ = 0;
};

/// XXH64 of `bytes`. Several ranges are chained by passing the digest of one as the seed of the next.
constexpr std::uint64_t xxh64(std::span<const std::byte> bytes, std::uint64_t seed = 0) noexcept {
  xxh64_hasher hasher(seed);
  hasher.update(bytes);
  return hasher.digest();
}

/// hashes[i] becomes xxh64(inputs[i], hashes[i]), for all i. With AVX-512 four inputs, of similar size at best, take
/// little longer than one.
inline void xxh64_many(std::span<const std::span<const std::byte>> inputs, std::span<std::uint64_t> hashes,
                       [[maybe_unused]] instruction_set isa) {
  std::size_t first = 0;
#if ECQ_X86
  constexpr std::size_t together = 4;
  if (chosen_instruction_set(isa) == instruction_set::avx512) {
    for (; inputs.size() - first > 1; first += (std::min)(together, inputs.size() - first)) {
      const std::size_t count = (std::min)(together, inputs.size() - first);
      std::uint64_t accumulators[together][4];
      const std::byte* from[together];
      std::size_t blocks = inputs[first].size() / xxh64_hasher::block;
      for (std::size_t i = 0; i < together; ++i) {
        const std::size_t input = first + (std::min)(i, count - 1);  // the last one again where there are fewer
        std::copy_n(xxh64_hasher(hashes[input]).lane_, 4, accumulators[i]);
        from[i] = inputs[input].data();
        blocks = (std::min)(blocks, inputs[input].size() / xxh64_hasher::block);
      }
      detail::avx512::xxh64_blocks(detail::xxh64_primes, accumulators, from, blocks);
      for (std::size_t i = 0; i < count; ++i) {
        xxh64_hasher hasher(hashes[first + i]);
        std::copy_n(accumulators[i], 4, hasher.lane_);
        hasher.total_ = blocks * xxh64_hasher::block;
        hasher.update(inputs[first + i].subspan(blocks * xxh64_hasher::block));
        hashes[first + i] = hasher.digest();
      }
    }
  }
#endif
  for (; first < inputs.size(); ++first) hashes[first] = xxh64(inputs[first], hashes[first]);
}

}  // namespace ecq
