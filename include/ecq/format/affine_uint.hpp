#pragma once
/// \file
/// Unsigned integers of 4 or 8 bits whose real value is code * scale + zero point.

#include <cstdint>
#include <string_view>

#include "ecq/config.hpp"
#include "ecq/format/number_format.hpp"

namespace ecq {

/// Integers 0 ... 2^Bits - 1 in a byte each. The format knows the integers alone; scale and zero point belong to the
/// quantised matrix, real value = code * scale + zero (EntroLLM section 3.1: asymmetric; zero = 0: symmetric
/// unsigned).
template <int Bits>
  requires(Bits == 4 || Bits == 8)
struct affine_uint {
  using code_type = std::uint8_t;

  static constexpr std::string_view name = Bits == 4 ? "uint4" : "uint8";
  static constexpr int bits_per_code = Bits;
  static constexpr float largest = static_cast<float>((1 << Bits) - 1);

  code_type bits = 0;

  constexpr affine_uint() noexcept = default;
  ECQ_HOST_DEVICE constexpr explicit affine_uint(float value) noexcept : bits(encode(value)) {}
  ECQ_HOST_DEVICE constexpr operator float() const noexcept { return decode(bits); }

  /// Nearest integer, ties to even, clamped; NaN gives 0.
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

static_assert(code_format<uint8> && code_format<uint4>);

}  // namespace ecq
