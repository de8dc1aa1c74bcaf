#pragma once
/// \file
/// The concept that every number format models; concepts.hpp gathers it with the other policy concepts.

#include <concepts>
#include <string_view>
#include <type_traits>

namespace ecq {

/// A set of codes and their real values. A format is also a value type: one code (`bits`) that converts from and to
/// float, so `matrix_view<const bf16>` and `std::vector<fp8_e4m3>` mean what they say.
///
/// `encode` rounds to the nearest representable value, ties to even, and saturates where the format has no infinity;
/// `encode(decode(code)) == code` for every finite code.
template <class Format>
concept number_format = std::is_trivially_copyable_v<Format> && requires(float value, typename Format::code_type code) {
  requires std::unsigned_integral<typename Format::code_type>;
  { Format::name } -> std::convertible_to<std::string_view>;
  { Format::bits_per_code } -> std::convertible_to<int>;
  { Format::largest } -> std::convertible_to<float>;  ///< largest finite magnitude; AbsMax maps a row's maximum to it
  { Format::encode(value) } -> std::same_as<typename Format::code_type>;
  { Format::decode(code) } -> std::same_as<float>;
  { Format::is_finite(code) } -> std::same_as<bool>;
};

/// A number format of one byte per code. Quantisers produce its codes and entropy coders take them.
template <class Format>
concept code_format = number_format<Format> && sizeof(typename Format::code_type) == 1;

}  // namespace ecq
