#pragma once
/// \file
/// Alias tables of rANS as bytes, which table look-ups of 64-bit Arm read from two or four registers for all lanes of a
/// chunk at once.

#include "ecq/base/config.hpp"

#if ECQ_NEON

#include <arm_neon.h>

#include <cstddef>
#include <cstdint>

#include "ecq/entropy/rans/alias_lookup.hpp"
#include "ecq/entropy/rans/rans_groups_neon.hpp"

namespace ecq::detail::neon {

/// A byte for each number of a bucket or a symbol of an alias table.
template <unsigned BucketBits>
struct byte_lookup {
  void set(std::size_t number, unsigned byte) { bytes[number] = static_cast<std::uint8_t>(byte); }

  [[gnu::always_inline]] inline uint8x16_t operator()(uint8x16_t numbers) const {
    if constexpr (BucketBits == 5) {
      uint8x16_t found = vqtbl2q_u8(vld1q_u8_x2(bytes), numbers);
#if defined(__clang__)
      __asm__("" : "+w"(found));  // clang 16 crashes if it merges two look-ups whose results are shuffled
#endif
      return found;
    } else {
      return vqtbl4q_u8(vld1q_u8_x4(bytes), numbers);
    }
  }

  alignas(16) std::uint8_t bytes[std::size_t{1} << BucketBits];
};

/// An alias table that advance_groups() looks up.
template <unsigned BucketBits>
struct alias_bytes {
  static constexpr std::size_t buckets = std::size_t{1} << BucketBits;

  explicit alias_bytes(const alias_lookup<BucketBits>& from) {
    for (std::size_t i = 0; i < buckets; ++i) {
      bucket.set(i, from.bucket[i]);
      adjust.set(i, from.adjust[i]);
      frequency.set(i, from.frequency[i]);
      codes.set(i, from.code[i]);
    }
  }

  [[gnu::always_inline]] inline slot_fields look_up(const uint16x8_t (&low)[half_registers]) const {
    slot_fields found;
    const uint8x16_t mask = vdupq_n_u8(buckets - 1);
    ECQ_UNROLL
    for (std::size_t side = 0; side < 2; ++side) {
      const uint16x8_t slots[2] = {low[2 * side], low[2 * side + 1]};
      const uint8x16_t own = vandq_u8(bytes_of(slots[0], slots[1]), mask);
      const uint8x16_t bucket_low = bucket.low(own), bucket_high = bucket.high(own);
      const uint8x16_t adjust_low = adjust.low(own), adjust_high = adjust.high(own);
      const uint16x8_t limit[2] = {first_words(bucket_low, bucket_high), second_words(bucket_low, bucket_high)};
      const uint16x8_t adjusts[2] = {first_words(adjust_low, adjust_high), second_words(adjust_low, adjust_high)};
      uint16x8_t least[2];
      ECQ_UNROLL
      for (std::size_t i = 0; i < 2; ++i) {
        least[i] = vminq_u16(slots[i], limit[i]);
        const uint16x8_t is_alias = vcgeq_u16(slots[i], limit[i]);
        found.rank[2 * side + i] = vsraq_n_u16(vandq_u16(adjusts[i], is_alias), slots[i], BucketBits);
      }
      const uint8x16_t symbol = vandq_u8(bytes_of(least[0], least[1]), mask);
      const uint8x16_t frequency_low = frequency.low(symbol), frequency_high = frequency.high(symbol);
      found.frequency[2 * side] = first_words(frequency_low, frequency_high);
      found.frequency[2 * side + 1] = second_words(frequency_low, frequency_high);
      found.symbol[side] = symbol;
    }
    return found;
  }

  /// Turns symbols from `look_up` into codes.
  uint8x16_t code_of(uint8x16_t symbols) const { return codes(symbols); }

 private:
  static uint8x16_t bytes_of(uint16x8_t first, uint16x8_t second) {
    return vuzp1q_u8(vreinterpretq_u8_u16(first), vreinterpretq_u8_u16(second));
  }
  static uint16x8_t first_words(uint8x16_t low, uint8x16_t high) { return vreinterpretq_u16_u8(vzip1q_u8(low, high)); }
  static uint16x8_t second_words(uint8x16_t low, uint8x16_t high) { return vreinterpretq_u16_u8(vzip2q_u8(low, high)); }

  word_lookup<byte_lookup<BucketBits>> bucket, adjust, frequency;
  byte_lookup<BucketBits> codes;
};

}  // namespace ecq::detail::neon

#endif
