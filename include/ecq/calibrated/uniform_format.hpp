#pragma once
/// \file
/// Number formats with evenly spaced values, which error feedback supports.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "ecq/format/affine_uint.hpp"
#include "ecq/format/int8.hpp"
#include "ecq/format/number_format.hpp"
#include "ecq/quantize/regularizer.hpp"

namespace ecq {

/// An evenly spaced grid around 0: level k stands for k * step * scale, and has code codes[k - lowest].
struct uniform_grid {
  int lowest = 0;
  int highest = 0;
  float step = 0;    ///< between the values of neighbouring codes; 0: there is no such grid
  float middle = 0;  ///< value of the code of level 0; other than 0 only for affine formats
  std::array<std::uint8_t, 256> codes{};
};

namespace detail {

template <code_format Format>
consteval uniform_grid find_uniform_grid() {
  std::array<float, 256> values{};
  std::size_t count = 0;
  for (unsigned code = 0; code < 256; ++code) {
    const auto byte = static_cast<std::uint8_t>(code);
    if (Format::is_finite(byte)) values[count++] = Format::decode(byte);
  }
  const auto end = values.begin() + static_cast<std::ptrdiff_t>(count);
  std::sort(values.begin(), end);
  count = static_cast<std::size_t>(std::unique(values.begin(), end) - values.begin());
  if (count < 3) return {};
  const float step = values[1] - values[0];
  std::size_t zero = count;
  if constexpr (affine_format<Format>) zero = count / 2;
  uniform_grid grid;
  for (std::size_t at = 0; at < count; ++at) {
    if (at != 0 && values[at] - values[at - 1] != step) return {};
    if (!affine_format<Format> && values[at] == 0.0F) zero = at;
    grid.codes[at] = Format::encode(values[at]);
  }
  if (zero == 0 || zero + 1 >= count) return {};
  grid.lowest = -static_cast<int>(zero);
  grid.highest = static_cast<int>(count - zero) - 1;
  grid.step = step;
  grid.middle = affine_format<Format> ? values[zero] : 0.0F;
  return grid;
}

}  // namespace detail

/// A code format whose finite values are evenly spaced, at least one of them on either side of 0 or, if the format is
/// affine, of the middle.
template <class Format>
concept uniform_format =
    code_format<Format> && detail::constant_format<Format> && (detail::find_uniform_grid<Format>().step > 0.0F);

/// Grid of a format.
template <uniform_format Format>
inline constexpr uniform_grid uniform_grid_of = detail::find_uniform_grid<Format>();

static_assert(uniform_format<int8> && uniform_format<uint8> && uniform_format<uint4>);

}  // namespace ecq
