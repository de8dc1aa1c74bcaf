#pragma once
/// \file
/// The values of all codes of a format, which are all that decoders need to know about it.

#include <array>
#include <cstdint>
#include <limits>
#include <span>

#include "ecq/base/config.hpp"
#include "ecq/format/dtype.hpp"
#include "ecq/format/number_format.hpp"

namespace ecq {

/// Returns Format::decode(code) for each code, or infinity for codes that are not finite numbers.
template <code_format Format>
constexpr std::array<float, 256> values_of_codes() {
  std::array<float, 256> values{};
  for (unsigned code = 0; code < 256; ++code) {
    const auto byte = static_cast<std::uint8_t>(code);
    values[code] = Format::is_finite(byte) ? Format::decode(byte) : std::numeric_limits<float>::infinity();
  }
  return values;
}

/// Returns the values of all codes of the format that `format` names; precondition: a format of one byte per code other
/// than dtype::table.
std::span<const float, 256> values_of_codes(dtype format);

}  // namespace ecq

#if ECQ_HEADER_ONLY
#include "ecq/format/code_values-inl.hpp"
#endif
