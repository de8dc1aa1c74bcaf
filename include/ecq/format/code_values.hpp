#pragma once
/// \file
/// The values of all codes of a format, for code that knows the format at run time.

#include <array>
#include <cstdint>
#include <limits>
#include <span>

#include "ecq/format/dtype.hpp"

namespace ecq {

/// decode(code) for each code of a format of one byte a code, infinity for codes that are no finite number.
/// Precondition: `format` is one of them.
inline std::span<const float, 256> code_values(dtype format) {
  return visit_code_format(format, [&]<class Format>() -> std::span<const float, 256> {
    static const std::array<float, 256> values = [] {
      std::array<float, 256> table{};
      for (unsigned code = 0; code < 256; ++code) {
        const auto byte = static_cast<std::uint8_t>(code);
        table[code] = Format::is_finite(byte) ? Format::decode(byte) : std::numeric_limits<float>::infinity();
      }
      return table;
    }();
    return values;
  });
}

}  // namespace ecq
