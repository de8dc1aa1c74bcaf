#pragma once
/// \file
/// Codes to weights on the CPU: runs of codes that share a scale look their weights up in a table.

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>

#include "ecq/format/bf16.hpp"
#include "ecq/format/fp16.hpp"
#include "ecq/format/fp32.hpp"
#include "ecq/format/nearest_finite.hpp"

namespace ecq::detail {

/// How codes that share a scale become weights: value of the code * scale, or that + zero. block_decoder::check has
/// seen to it that no weight leaves the range of FP32.
struct weight_rule {
  std::span<const float, 256> values;  ///< of all codes; infinity for a code that is not a finite number
  bf16 scale;
  float zero;
  bool affine;  ///< `zero` is added, even if it is 0; otherwise -0 stays -0

  bool is_finite(std::uint8_t code) const { return fp32::is_finite(std::bit_cast<std::uint32_t>(values[code])); }
  float operator()(std::uint8_t code) const {
    const float product = values[code] * static_cast<float>(scale);
    return affine ? product + zero : product;
  }
  /// The weight as an element of the output.
  template <class Element>
  Element as(std::uint8_t code) const {
    return nearest_finite<Element>((*this)(code));
  }
};

/// The weights of all codes at one scale.
template <class Element>
class weight_table {
 public:
  /// Shorter runs are not worth a table: making one takes as long as converting this many codes, one by one.
  static constexpr std::size_t fewest_codes = std::is_same_v<Element, float> ? 64 : 256;

  explicit weight_table(const weight_rule& rule) {
    for (std::size_t code = 0; code < 256; ++code) {
      const auto number = static_cast<std::uint8_t>(code);
      weights_[code] = rule.is_finite(number) ? rule.as<Element>(number) : std::bit_cast<Element>(nan_bits);
    }
  }

  /// out[i] = weight of codes[i]. Returns false if a code is not a finite number.
  bool look_up(const std::byte* codes, std::size_t count, Element* out) const {
    for (std::size_t i = 0; i < count; ++i) out[i] = weights_[std::to_integer<std::uint8_t>(codes[i])];
    // Weights are finite, so NaN comes from such a code alone. This loop is vectorised, and bits are safe from options
    // that assume that there is no NaN: the sum reaches the sign bit where a magnitude exceeds infinity.
    bits sums = 0;
    for (std::size_t i = 0; i < count; ++i) {
      sums = static_cast<bits>(sums | static_cast<bits>((bits_of(out[i]) & magnitude) + beyond));
    }
    return sums <= magnitude;
  }

 private:
  using bits = std::conditional_t<sizeof(Element) == 4, std::uint32_t, std::uint16_t>;

  /// A bit_cast of a class would keep g++ 12 from vectorising.
  static constexpr bits bits_of(Element element) noexcept {
    if constexpr (std::is_same_v<Element, float>) {
      return std::bit_cast<bits>(element);
    } else {
      return element.bits;
    }
  }

  static constexpr bits magnitude = (std::numeric_limits<bits>::max)() >> 1;
  static constexpr bits nan_bits = magnitude;
  static constexpr bits infinity = std::is_same_v<Element, float>  ? 0x7F800000U
                                   : std::is_same_v<Element, bf16> ? 0x7F80U
                                                                   : 0x7C00U;
  static constexpr bits beyond = magnitude - infinity;

  std::array<Element, 256> weights_;
};

}  // namespace ecq::detail
