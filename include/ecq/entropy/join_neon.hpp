#pragma once
/// \file
/// Joins symbols in memory with raw bits in registers of 64-bit Arm.

#include "ecq/base/config.hpp"

#if ECQ_NEON

#include <arm_neon.h>

#include <cstddef>
#include <cstdint>

#include "ecq/entropy/element_join.hpp"

namespace ecq::detail::neon {

/// Joins elements of one byte with up to 7 raw bits, 16 at a time. The raw bits are added, which for symbols without
/// low bits is the same as joining them. A byte look-up brings the two bytes that hold an element's bits into 16 bits,
/// and a shift of their own does the rest. Reads up to 8 bytes beyond the raw bits.
inline void join_bytes(const element_join& join, const std::uint8_t* symbols, const std::byte* raw, std::size_t count,
                       std::byte* to) {
  std::uint8_t bytes[16];
  std::int16_t shifts[8];
  for (unsigned i = 0; i < 8; ++i) {
    const unsigned bit = i * join.bits;
    for (unsigned part = 0; part < 2; ++part) bytes[2 * i + part] = static_cast<std::uint8_t>(bit / 8 + part);
    shifts[i] = static_cast<std::int16_t>(-static_cast<int>(bit % 8));
  }
  const uint8x16_t first_bytes = vld1q_u8(bytes), second_bytes = vaddq_u8(first_bytes, vdupq_n_u8(8));
  const int16x8_t down = vld1q_s16(shifts);
  const uint8x16_t raw_mask = vdupq_n_u8(static_cast<std::uint8_t>((1U << join.bits) - 1U));
  const uint8x16_t symbol_mask = vdupq_n_u8(static_cast<std::uint8_t>(0xFFU >> join.low_bits));
  const int8x16_t up = vdupq_n_s8(static_cast<std::int8_t>(join.low_bits));
  const auto* from = reinterpret_cast<const std::uint8_t*>(raw);
  for (std::size_t at = 0; at < count; at += 16, from += std::size_t{2} * join.bits) {
    const uint8x16_t both = vcombine_u8(vld1_u8(from), vld1_u8(from + join.bits));
    const auto shifted = [&](uint8x16_t where) {
      return vreinterpretq_u8_u16(vshlq_u16(vreinterpretq_u16_u8(vqtbl1q_u8(both, where)), down));
    };
    const uint8x16_t low = vandq_u8(vuzp1q_u8(shifted(first_bytes), shifted(second_bytes)), raw_mask);
    const uint8x16_t coded = vandq_u8(vld1q_u8(symbols + at), symbol_mask);
    uint8x16_t element = vaddq_u8(vshlq_u8(coded, up), low);
    if (join.turned != 0) element = vsliq_n_u8(vshrq_n_u8(element, 1), element, 7);
    vst1q_u8(reinterpret_cast<std::uint8_t*>(to) + at, element);
  }
}

inline void store_words(std::byte* to, uint16x8_t words) {
  vst1q_u8(reinterpret_cast<std::uint8_t*>(to), vreinterpretq_u8_u16(words));
}

/// Joins elements of two bytes with 8 raw bits, rotated.
inline void join_bf16(const element_join& /*join*/, const std::uint8_t* symbols, const std::byte* raw,
                      std::size_t count, std::byte* to) {
  for (std::size_t at = 0; at < count; at += 16) {
    const uint8x16_t high = vld1q_u8(symbols + at);
    const uint8x16_t low = vld1q_u8(reinterpret_cast<const std::uint8_t*>(raw) + at);
    const uint16x8_t first = vreinterpretq_u16_u8(vzip1q_u8(low, high));
    const uint16x8_t second = vreinterpretq_u16_u8(vzip2q_u8(low, high));
    store_words(to + 2 * at, vsliq_n_u16(vshrq_n_u16(first, 1), first, 15));
    store_words(to + 2 * at + 16, vsliq_n_u16(vshrq_n_u16(second, 1), second, 15));
  }
}

/// Joins elements of two or four bytes with 8 to 25 raw bits, rotated, four at a time in 32 bits each. A byte look-up
/// brings the four bytes that hold an element's bits into its lane, and the lane's own shift does the rest.
template <std::size_t Width>
struct wide_join {
  explicit wide_join(const element_join& join)
      : bits(join.bits),
        mask(vdupq_n_u32((1U << join.bits) - 1U)),
        up(vdupq_n_s32(static_cast<std::int32_t>(join.low_bits))) {
    std::uint8_t bytes[2][16];
    std::int32_t shifts[2][4];
    for (unsigned i = 0; i < 8; ++i) {
      const unsigned bit = i * bits - (i < 4 ? 0 : static_cast<unsigned>(8 * second_byte()));
      for (unsigned part = 0; part < 4; ++part) {
        bytes[i / 4][4 * (i % 4) + part] = static_cast<std::uint8_t>(bit / 8 + part);
      }
      shifts[i / 4][i % 4] = -static_cast<std::int32_t>(bit % 8);
    }
    for (std::size_t part = 0; part < 2; ++part) {
      byte[part] = vld1q_u8(bytes[part]);
      down[part] = vld1q_s32(shifts[part]);
    }
  }

  /// Joins eight elements; reads up to 16 bytes beyond the raw bits.
  void eight(const std::uint8_t* symbols, const std::byte* raw, std::byte* to) const {
    const uint16x8_t coded = vmovl_u8(vld1_u8(symbols));
    const auto* const from = reinterpret_cast<const std::uint8_t*>(raw);
    const uint32x4_t first = four(vmovl_u16(vget_low_u16(coded)), vld1q_u8(from), 0);
    const uint32x4_t then = four(vmovl_high_u16(coded), vld1q_u8(from + second_byte()), 1);
    if constexpr (Width == 2) {
      const uint16x8_t words = vuzp1q_u16(vreinterpretq_u16_u32(first), vreinterpretq_u16_u32(then));
      store_words(to, vsliq_n_u16(vshrq_n_u16(words, 1), words, 15));
    } else {
      store_words(to, vreinterpretq_u16_u32(vsliq_n_u32(vshrq_n_u32(first, 1), first, 31)));
      store_words(to + 16, vreinterpretq_u16_u32(vsliq_n_u32(vshrq_n_u32(then, 1), then, 31)));
    }
  }

  unsigned bits;

 private:
  /// Returns the byte in which the raw bits of elements 4 to 7 begin.
  std::size_t second_byte() const { return std::size_t{4} * bits / 8; }

  /// Returns four elements before their rotation.
  uint32x4_t four(uint32x4_t coded, uint8x16_t raw, std::size_t part) const {
    const uint32x4_t low = vshlq_u32(vreinterpretq_u32_u8(vqtbl1q_u8(raw, byte[part])), down[part]);
    return vorrq_u32(vshlq_u32(coded, up), vandq_u32(low, mask));
  }

  uint8x16_t byte[2];
  int32x4_t down[2];
  uint32x4_t mask;
  int32x4_t up;
};

template <std::size_t Width>
inline void join_wide(const element_join& join, const std::uint8_t* symbols, const std::byte* raw, std::size_t count,
                      std::byte* to) {
  const wide_join<Width> constants(join);
  for (std::size_t at = 0; at < count; at += 8, raw += join.bits) constants.eight(symbols + at, raw, to + Width * at);
}

inline constexpr join_kernels joins = {join_bytes, join_bf16, join_wide<2>, join_wide<4>};

}  // namespace ecq::detail::neon

#endif
