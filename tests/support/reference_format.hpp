#pragma once
/// \file
/// Slow models of number formats, to check the fast ones: every value is listed in double precision, encoding searches
/// the list, and all rounding boundaries are tried one by one.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace ecq_test {

/// Non-negative half of a format whose sign is a separate bit.
struct reference_float {
  int bits = 8;
  std::vector<double> values;   ///< values[code] for every finite code without sign, in ascending order
  double next = 0;              ///< value that would follow the largest if there were one more code
  bool overflows = false;       ///< whether rounding up to `next` gives infinity, the code after the largest
  std::uint32_t quiet_nan = 0;  ///< code of NaN without sign
  std::uint32_t first_nan = 0;  ///< the codes from this one on are NaN

  std::uint32_t sign_bit() const { return 1U << (bits - 1); }

  /// Makes the model of a format. If `top_is_special`, the largest exponent holds infinity and NaN, as in IEEE 754;
  /// otherwise only the last code is NaN.
  static reference_float make(int exponent_bits, int mantissa_bits, bool top_is_special, bool overflows) {
    reference_float format;
    format.bits = 1 + exponent_bits + mantissa_bits;
    format.overflows = overflows;
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const int steps = 1 << mantissa_bits;
    const int codes = 1 << (exponent_bits + mantissa_bits);
    const int finite = top_is_special ? codes - steps : codes - 1;
    const auto value_of = [&](int code) {
      const int exponent = code / steps;
      const int mantissa = code % steps;
      return exponent == 0 ? std::ldexp(mantissa, 1 - bias - mantissa_bits)
                           : std::ldexp(steps + mantissa, exponent - bias - mantissa_bits);
    };
    for (int code = 0; code < finite; ++code) format.values.push_back(value_of(code));
    format.next = value_of(finite);
    format.first_nan = static_cast<std::uint32_t>(top_is_special ? finite + 1 : finite);
    format.quiet_nan = static_cast<std::uint32_t>(top_is_special ? finite + steps / 2 : finite);
    return format;
  }

  std::uint32_t encode(float value) const {
    const std::uint32_t sign = std::signbit(value) ? sign_bit() : 0U;
    if (std::isnan(value)) return sign | quiet_nan;
    const double magnitude = std::fabs(static_cast<double>(value));
    const auto largest = static_cast<std::uint32_t>(values.size() - 1);
    if (magnitude >= values.back()) {
      const double middle = (values.back() + next) / 2;
      const bool up = magnitude > middle || (magnitude == middle && largest % 2 == 1);
      return sign | (up && overflows ? largest + 1 : largest);
    }
    const auto above = std::upper_bound(values.begin(), values.end(), magnitude);
    const auto low = static_cast<std::uint32_t>(above - values.begin() - 1);
    const double to_low = magnitude - values[low];
    const double to_high = values[low + 1] - magnitude;
    const bool up = to_high < to_low || (to_high == to_low && low % 2 == 1);
    return sign | (up ? low + 1 : low);
  }

  double decode(std::uint32_t code) const {
    const std::uint32_t magnitude = code & (sign_bit() - 1);
    double value = std::numeric_limits<double>::infinity();
    if (magnitude < values.size()) value = values[magnitude];
    if (magnitude >= first_nan) value = std::numeric_limits<double>::quiet_NaN();
    return (code & sign_bit()) != 0 ? -value : value;
  }
};

inline float above(float value) { return std::nextafter(value, std::numeric_limits<float>::infinity()); }
inline float below(float value) { return std::nextafter(value, -std::numeric_limits<float>::infinity()); }

/// Expects encoding to agree at `value`, at the floats next to it, and at their negatives.
template <class Format, class Reference>
void expect_same_around(const Reference& reference, float value) {
  for (const float near : {below(value), value, above(value)}) {
    for (const float signed_value : {near, -near}) {
      ASSERT_EQ(Format::encode(signed_value), reference.encode(signed_value)) << std::hexfloat << signed_value;
    }
  }
}

/// Expects encoding to agree at floats of every kind: zeros, subnormals, infinities, NaN with payloads, and a walk
/// through all exponents.
template <class Format, class Reference>
void expect_same_everywhere(const Reference& reference) {
  std::vector<std::uint32_t> words = {0x00000000, 0x00000001, 0x007fffff, 0x00800000, 0x7f7fffff, 0x7f800000,
                                      0x7f800001, 0x7fbfffff, 0x7fc00000, 0x7fc12345, 0x7fffffff};
  for (std::uint32_t word = 0; word < 0x7f800000U; word += 65537U) words.push_back(word);
  for (const std::uint32_t word : words) {
    for (const std::uint32_t sign : {0U, 0x80000000U}) {
      const float value = std::bit_cast<float>(word | sign);
      ASSERT_EQ(Format::encode(value), reference.encode(value)) << std::hex << (word | sign);
    }
  }
}

/// Expects agreement at every code and every rounding boundary of a floating-point format.
template <class Format>
void expect_conforms(const reference_float& reference) {
  for (std::uint32_t code = 0; code < 2 * reference.sign_bit(); ++code) {
    const float decoded = Format::decode(static_cast<typename Format::code_type>(code));
    const double expected = reference.decode(code);
    EXPECT_EQ(Format::is_finite(static_cast<typename Format::code_type>(code)), std::isfinite(expected)) << code;
    EXPECT_EQ(std::signbit(decoded), std::signbit(expected)) << code;
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(decoded)) << code;
    } else {
      EXPECT_EQ(static_cast<double>(decoded), expected) << code;
    }
  }
  for (std::size_t code = 0; code < reference.values.size(); ++code) {
    const double value = reference.values[code];
    const double following = code + 1 < reference.values.size() ? reference.values[code + 1] : reference.next;
    expect_same_around<Format>(reference, static_cast<float>(value));
    expect_same_around<Format>(reference, static_cast<float>((value + following) / 2));
  }
  if (reference.next <= static_cast<double>((std::numeric_limits<float>::max)())) {
    expect_same_around<Format>(reference, static_cast<float>(reference.next));
  }
  expect_same_everywhere<Format>(reference);
}

/// Consecutive integers, where code = value modulo 256. Encoding saturates; NaN becomes 0.
struct reference_integer {
  int smallest = 0;
  int largest = 0;

  std::uint32_t encode(float value) const {
    if (std::isnan(value)) return 0;
    int best = smallest;
    if (value >= static_cast<float>(largest)) best = largest;
    if (value > static_cast<float>(smallest) && value < static_cast<float>(largest)) {
      for (int candidate = smallest; candidate <= largest; ++candidate) {
        const double best_distance = std::fabs(static_cast<double>(value) - best);
        const double distance = std::fabs(static_cast<double>(value) - candidate);
        if (distance < best_distance || (distance == best_distance && candidate % 2 == 0)) best = candidate;
      }
    }
    return static_cast<std::uint8_t>(best);
  }
};

/// Expects agreement at every code and every rounding boundary of an integer format with one byte per code.
template <class Format>
void expect_conforms(const reference_integer& reference) {
  for (int value = reference.smallest; value <= reference.largest; ++value) {
    EXPECT_EQ(Format::decode(static_cast<std::uint8_t>(value)), static_cast<float>(value));
    EXPECT_TRUE(Format::is_finite(static_cast<std::uint8_t>(value)));
  }
  for (int half = 2 * reference.smallest - 3; half <= 2 * reference.largest + 3; ++half) {
    expect_same_around<Format>(reference, static_cast<float>(half) / 2);
  }
  expect_same_everywhere<Format>(reference);
}

}  // namespace ecq_test
