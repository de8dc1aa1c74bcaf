#pragma once
/// \file
/// XXH64, the checksum of headers and chunks: 64 bits, not cryptographic, defined by the xxHash specification 0.1.1
/// (https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md).

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "ecq/base/config.hpp"
#include "ecq/base/instruction_set.hpp"
#include "ecq/base/little_endian.hpp"

namespace ecq {

namespace detail {

inline constexpr std::uint64_t xxh64_primes[5] = {0x9E3779B185EBCA87U, 0xC2B2AE3D27D4EB4FU, 0x165667B19E3779F9U,
                                                  0x85EBCA77C2B2AE63U, 0x27D4EB2F165667C5U};

/// Returns xxh64_primes[number], also in device code.
ECQ_HOST_DEVICE constexpr std::uint64_t xxh64_prime(std::size_t number) noexcept {
  constexpr std::uint64_t primes[5] = {xxh64_primes[0], xxh64_primes[1], xxh64_primes[2], xxh64_primes[3],
                                       xxh64_primes[4]};
  return primes[number];
}

/// Like std::rotl, which device code cannot call.
ECQ_HOST_DEVICE constexpr std::uint64_t rotate_left(std::uint64_t value, unsigned bits) noexcept {
  return (value << bits) | (value >> (64 - bits));
}

ECQ_HOST_DEVICE constexpr std::uint64_t xxh64_round(std::uint64_t accumulator, std::uint64_t lane) noexcept {
  return rotate_left(accumulator + lane * xxh64_prime(1), 31) * xxh64_prime(0);
}

/// Returns the initial value of accumulator `number` (0..3).
ECQ_HOST_DEVICE constexpr std::uint64_t xxh64_start(std::uint64_t seed, std::size_t number) noexcept {
  const std::uint64_t first = number == 0 ? xxh64_prime(0) + xxh64_prime(1) : xxh64_prime(1);
  return number < 2 ? seed + first : number == 2 ? seed : seed - xxh64_prime(0);
}

/// Merges the four accumulators into one hash.
ECQ_HOST_DEVICE constexpr std::uint64_t xxh64_merge(const std::uint64_t (&lanes)[4]) noexcept {
  std::uint64_t hash =
      rotate_left(lanes[0], 1) + rotate_left(lanes[1], 7) + rotate_left(lanes[2], 12) + rotate_left(lanes[3], 18);
  for (const std::uint64_t accumulator : lanes) {
    hash = (hash ^ xxh64_round(0, accumulator)) * xxh64_prime(0) + xxh64_prime(3);
  }
  return hash;
}

/// Returns the digest. `hash` is that of all whole stripes plus the number of bytes; `left` (< 32) bytes at `at`
/// remain.
ECQ_HOST_DEVICE constexpr std::uint64_t xxh64_finish(std::uint64_t hash, const std::byte* at,
                                                     std::size_t left) noexcept {
  for (; left >= 8; left -= 8, at += 8) {
    hash = rotate_left(hash ^ xxh64_round(0, load_le<std::uint64_t>(at)), 27) * xxh64_prime(0) + xxh64_prime(3);
  }
  if (left >= 4) {
    hash = rotate_left(hash ^ (load_le<std::uint32_t>(at) * xxh64_prime(0)), 23) * xxh64_prime(1) + xxh64_prime(2);
    left -= 4;
    at += 4;
  }
  for (; left > 0; --left, ++at) {
    hash = rotate_left(hash ^ (static_cast<std::uint64_t>(*at) * xxh64_prime(4)), 11) * xxh64_prime(0);
  }
  hash = (hash ^ (hash >> 33)) * xxh64_prime(1);
  hash = (hash ^ (hash >> 29)) * xxh64_prime(2);
  return hash ^ (hash >> 32);
}

}  // namespace detail

/// XXH64 of bytes that arrive in pieces of any size.
class xxh64_hasher {
 public:
  constexpr explicit xxh64_hasher(std::uint64_t seed = 0) noexcept
      : lane_{detail::xxh64_start(seed, 0), detail::xxh64_start(seed, 1), detail::xxh64_start(seed, 2),
              detail::xxh64_start(seed, 3)},
        seed_(seed) {}

  constexpr void update(std::span<const std::byte> bytes) noexcept {
    total_ += bytes.size();
    if (buffered_ > 0) {
      const std::size_t taken = (std::min)(bytes.size(), stripe - buffered_);
      std::copy_n(bytes.begin(), taken, buffer_ + buffered_);
      buffered_ += taken;
      bytes = bytes.subspan(taken);
      if (buffered_ < stripe) return;
      consume(buffer_);
    }
    for (; bytes.size() >= stripe; bytes = bytes.subspan(stripe)) consume(bytes.data());
    std::copy_n(bytes.begin(), bytes.size(), buffer_);
    buffered_ = bytes.size();
  }

  /// Returns the XXH64 of all bytes so far; more may follow.
  constexpr std::uint64_t digest() const noexcept {
    const std::uint64_t hash = total_ >= stripe ? detail::xxh64_merge(lane_) : seed_ + detail::xxh64_prime(4);
    return detail::xxh64_finish(hash + total_, buffer_, buffered_);
  }

 private:
  friend void xxh64_many(std::span<const std::span<const std::byte>> inputs, std::span<std::uint64_t> hashes,
                         instruction_set isa);

  static constexpr std::size_t stripe = 32;

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
  std::byte buffer_[stripe] = {};
  std::size_t buffered_ = 0;
};

/// Returns the XXH64 of `bytes`. To chain several ranges, pass the digest of one as the seed of the next.
constexpr std::uint64_t xxh64(std::span<const std::byte> bytes, std::uint64_t seed = 0) noexcept {
  xxh64_hasher hasher(seed);
  hasher.update(bytes);
  return hasher.digest();
}

/// Sets hashes[i] to xxh64(inputs[i], hashes[i]) for all i. With AVX-512, four inputs take little longer than one,
/// ideally if they have similar sizes.
void xxh64_many(std::span<const std::span<const std::byte>> inputs, std::span<std::uint64_t> hashes,
                instruction_set isa);

}  // namespace ecq

#if ECQ_HEADER_ONLY
#include "ecq/base/checksum-inl.hpp"
#endif
