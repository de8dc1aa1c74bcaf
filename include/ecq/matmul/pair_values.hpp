#pragma once
/// \file
/// Values of the symbols of coded weights, in the form that kernels need to hand weights to products.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "ecq/entropy/nibble_list.hpp"
#include "ecq/entropy/trellis.hpp"
#include "ecq/matmul/fusion.hpp"

namespace ecq::detail {

/// Returns the raw bits of code number `at` of a group or a chunk, whose raw bits begin at `raw`, `bits` for each code.
inline unsigned raw_bits_at(const std::byte* raw, unsigned bits, std::size_t at) noexcept {
  return std::to_integer<unsigned>(raw[at * bits / 8]) >> (at * bits % 8) & ((1U << bits) - 1U);
}

/// Values of pairs of codes. The nibbles that occur are numbered. The number of a code's nibble and the code's raw bits
/// together are the index of its value.
struct pair_values {
  static constexpr std::size_t most_nibbles = 8;
  static constexpr unsigned most_raw_bits = 2;

  alignas(64) std::uint8_t index[2][64];   ///< indices of the first and the second code of each pair, raw bits 0
  alignas(64) std::uint8_t nibbles[64]{};  ///< numbers of both codes' nibbles, the second one's in the upper bits
  alignas(64) std::uint8_t escaped[64]{};  ///< bit 0: the first code is an escape; bit 1: the second one
  alignas(64) std::uint16_t halves[32];    ///< value of each index as BF16; 0 for escapes
  std::size_t escape_index = 32;           ///< first of the 2^raw_bits indices of escapes; 32 if there are none
  const std::uint16_t* all_halves;         ///< BF16 values of all codes
  unsigned raw_bits;                       ///< raw bits per code
  bool escaping;                           ///< codes may be escapes
  bool usable = true;                      ///< there is room for all nibbles and raw bits

  /// `pairs` are the pairs by their numbers in an alias table; `of_codes` are the BF16 values of all codes.
  pair_values(const std::uint8_t (&pairs)[64], const nibble_list& list, unsigned bits, const std::uint16_t* of_codes)
      : all_halves(of_codes), raw_bits(bits), escaping(list.has_escape()) {
    std::fill_n(halves, 32, std::uint16_t{0});
    std::uint8_t number_of[16];
    std::fill_n(number_of, 16, std::uint8_t{255});
    std::size_t numbers = 0;
    usable = bits <= most_raw_bits;
    for (std::size_t i = 0; i < 64 && usable; ++i) {
      for (std::size_t which = 0; which < 2; ++which) {
        const unsigned nibble = which == 0 ? pairs[i] % 16U : pairs[i] / 16U;
        const bool escape = escaping && nibble == nibble_list::escape_value;
        if (escape) escaped[i] = static_cast<std::uint8_t>(escaped[i] | (1U << which));
        if (number_of[nibble] == 255) {
          usable = usable && numbers < most_nibbles;
          if (!usable) return;
          number_of[nibble] = static_cast<std::uint8_t>(numbers << bits);
          if (escape) escape_index = number_of[nibble];
          for (unsigned raw = 0; raw >> bits == 0 && !escape; ++raw) {
            halves[(numbers << bits) + raw] = of_codes[(list.symbols[nibble] + raw) % 256U];
          }
          ++numbers;
        }
        index[which][i] = number_of[nibble];
        nibbles[i] = static_cast<std::uint8_t>(nibbles[i] | number_of[nibble] >> bits << (4 * which));
      }
    }
  }
};

/// Description of a stream's symbols, apart from its alias table.
struct weight_coding {
  fusion how;
  const pair_values* pairs;            ///< with fusion::pairs
  const std::uint16_t* halves;         ///< BF16 values of all codes; not used with fusion::bf16 or on a trellis
  const std::optional<trellis>& walk;  ///< the trellis on which codes lie, if any; they are then Int8
  bool listed = false;                 ///< kernels leave out escapes of pairs, since a plan has listed them
};

/// Argument `of_codes` with which the values in pair_values are the codes themselves; on a trellis, these are indices.
inline constexpr auto every_index = [] {
  std::array<std::uint16_t, 256> all{};
  for (std::size_t index = 0; index < all.size(); ++index) all[index] = static_cast<std::uint16_t>(index);
  return all;
}();

}  // namespace ecq::detail
