#pragma once
/// \file
/// Unsigned integers of 4 or 8 bits whose real value is code * scale + zero point.

#include <cstdint>
#include <limits>
#include <string_view>

#include "ecq/base/config.hpp"
#include "ecq/format/bf16.hpp"
#include "ecq/format/number_format.hpp"

namespace ecq {

/// Integers 0 ... 2^Bits - 1, one byte each. The format knows only the integers; scale and zero point belong to the
/// quantised matrix: real value = code * scale + zero (EntroLLM section 3.1: asymmetric; zero = 0: symmetric unsigned).
template <int Bits>
  requires(Bits == 4 || Bits == 8)
struct affine_uint {
  using code_type = std::uint8_t;

  static constexpr std::string_view name = Bits == 4 ? "uint4" : "uint8";
  static constexpr int bits_per_code = Bits;
  static constexpr bool affine = true;
  static constexpr float largest = static_cast<float>((1 << Bits) - 1);

  code_type bits = 0;

  constexpr affine_uint() noexcept = default;
  ECQ_HOST_DEVICE constexpr explicit affine_uint(float value) noexcept : bits(encode(value)) {}
  ECQ_HOST_DEVICE constexpr operator float() const noexcept { return decode(bits); }

  /// Returns the nearest integer, ties to even, clamped; NaN gives 0.
  ECQ_HOST_DEVICE static constexpr code_type encode(float value) noexcept {
    if (!(value > 0.0F)) return 0;
    if (value >= largest) return static_cast<code_type>((1 << Bits) - 1);
    const int below = static_cast<int>(value);
    const float rest = value - static_cast<float>(below);
    const bool up = rest > 0.5F || (rest == 0.5F && (below & 1) != 0);
    return static_cast<code_type>(below + (up ? 1 : 0));
  }
  ECQ_HOST_DEVICE static constexpr float decode(code_type code) noexcept { return static_cast<float>(code); }
  ECQ_HOST_DEVICE static constexpr bool is_finite(code_type code) noexcept { return code < (1 << Bits); }
};

struct uint8 : affine_uint<8> {
  using affine_uint::affine_uint;
};
struct uint4 : affine_uint<4> {
  using affine_uint::affine_uint;
};

/// A format that declares `static constexpr bool affine = true`: its codes are the integers from 0 on, and a zero point
/// comes with the scale.
template <class Format>
concept affine_format = code_format<Format> && requires { requires Format::affine; };

/// The meaning of an affine format's codes: real value = code * scale + zero.
struct affine_grid {
  bf16 scale = bf16(1.0F);
  float zero = 0;

  /// Whether the values of all codes up to `largest`, and their products code * scale, are finite. A fused multiply-add
  /// then equals separate operations.
  constexpr bool representable(float largest) const noexcept {
    const auto finite = [](float value) {
      return value >= std::numeric_limits<float>::lowest() && value <= (std::numeric_limits<float>::max)();
    };
    const float product = scale * largest;
    return finite(zero) && finite(product) && finite(product + zero);
  }
};

static_assert(affine_format<uint8> && affine_format<uint4>);

}  // namespace ecq
