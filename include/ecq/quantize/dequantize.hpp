#pragma once
/// \file
/// Conversion of codes to weights on the CPU. Runs of codes that share a scale look up their weights in a table.

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>

#include "ecq/base/config.hpp"
#include "ecq/base/instruction_set.hpp"
#include "ecq/format/bf16.hpp"
#include "ecq/format/fp16.hpp"
#include "ecq/format/fp32.hpp"
#include "ecq/format/nearest_finite.hpp"
#include "ecq/quantize/dequantize_avx512.hpp"

namespace ecq::detail {

/// Rule that turns codes that share a scale into weights: value of the code * scale, plus `zero` if `affine`.
/// check_matrices() has ensured that no weight leaves the range of FP32.
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
  /// Returns the weight as an element of the output.
  template <class Element>
  Element as(std::uint8_t code) const {
    return nearest_finite<Element>((*this)(code));
  }
};

/// Table of the weights of all codes at one scale.
template <class Element>
class weight_table {
 public:
  /// Returns the length of the shortest run that is worth a table: making a table takes about as long as converting
  /// this many codes one by one.
  static std::size_t fewest_codes(instruction_set isa) noexcept {
    const instruction_set chosen = chosen_instruction_set(isa);
    if (chosen == instruction_set::avx512 && sizeof(Element) == 2) return 64;
    return chosen >= instruction_set::avx2 ? 128 : 256;
  }

  explicit weight_table(const weight_rule& rule, instruction_set isa = instruction_set::automatic)
      : isa_(chosen_instruction_set(isa)) {
    float weights[256];
    for (std::size_t code = 0; code < 256; ++code) weights[code] = rule(static_cast<std::uint8_t>(code));
    round(weights, rule.values.data());
  }

  /// Sets out[i] to the weight of codes[i]. Returns false if a code is not a finite number.
  bool look_up(const std::byte* codes, std::size_t count, Element* out) const {
    std::size_t done = 0;
    bool finite = true;
#if ECQ_X86
    constexpr std::size_t fewest_in_registers = sizeof(Element) == 2 ? 64 : 512;  // filling registers takes time
    if (isa_ == instruction_set::avx512 && count >= fewest_in_registers) {
      done = count / avx512::looked_up_together * avx512::looked_up_together;
      finite = avx512::look_up(elements_.data(), codes, done, out, infinity >> (8 * sizeof(bits) - 16));
    }
#endif
    for (std::size_t i = done; i < count; ++i) out[i] = element_of(elements_[std::to_integer<std::uint8_t>(codes[i])]);
    // Weights are finite, so only a code that is not a finite number gives NaN. Compilers vectorise this loop, and its
    // test of bits also works under options that assume that there is no NaN: the sum reaches the sign bit where a
    // magnitude exceeds infinity.
    bits sums = 0;
    for (std::size_t i = done; i < count; ++i) {
      sums = static_cast<bits>(sums | static_cast<bits>((bits_of(out[i]) & magnitude) + beyond));
    }
    return finite && sums <= magnitude;
  }

 private:
  using bits = std::conditional_t<sizeof(Element) == 4, std::uint32_t, std::uint16_t>;

  /// Returns the bits of `element`. A bit_cast of a class would keep g++ 12 from vectorising.
  static constexpr bits bits_of(Element element) noexcept {
    if constexpr (std::is_same_v<Element, float>) {
      return std::bit_cast<bits>(element);
    } else {
      return element.bits;
    }
  }

  static constexpr Element element_of(bits from) noexcept {
    if constexpr (std::is_same_v<Element, float>) {
      return std::bit_cast<float>(from);
    } else {
      return Element::from_bits(from);
    }
  }

  /// Sets each element to the number nearest to its weight, or to NaN if the code's value in `values` is not finite.
  void round(const float* weights, const float* values) {
#if ECQ_X86
    if constexpr (sizeof(Element) == 2) {
      using nearest = std::conditional_t<std::is_same_v<Element, bf16>, avx512::nearest_bf16, avx512::nearest_fp16>;
      if (isa_ == instruction_set::avx512) return avx512::round_weights<nearest>(weights, values, elements_.data());
    }
    if (isa_ >= instruction_set::avx2) return round_by_avx2(weights, values);
#endif
    round_each(weights, values);
  }

  [[gnu::always_inline]] inline void round_each(const float* weights, const float* values) {
    for (std::size_t code = 0; code < 256; ++code) {
      const bits weight = bits_of(nearest_finite<Element>(weights[code]));
      elements_[code] = fp32::is_finite(std::bit_cast<std::uint32_t>(values[code])) ? weight : nan_bits;
    }
  }

#if ECQ_X86
  /// Runs the loop of round_each(), which compilers vectorise for AVX2 here.
  ECQ_AVX2 void round_by_avx2(const float* weights, const float* values) { round_each(weights, values); }
#endif

  static constexpr bits magnitude = (std::numeric_limits<bits>::max)() >> 1;
  static constexpr bits nan_bits = magnitude;
  static constexpr bits infinity = std::is_same_v<Element, float>  ? 0x7F800000U
                                   : std::is_same_v<Element, bf16> ? 0x7F80U
                                                                   : 0x7C00U;
  static constexpr bits beyond = magnitude - infinity;

  instruction_set isa_;
  alignas(64) std::array<bits, 256> elements_;
};

}  // namespace ecq::detail
