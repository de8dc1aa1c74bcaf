#pragma once
/// \file
/// Definition of the values of codes.

#include <array>
#include <span>

#include "ecq/format/code_values.hpp"

namespace ecq {

ECQ_INLINE std::span<const float, 256> values_of_codes(dtype format) {
  return visit_code_format(format, [&]<class Format>() -> std::span<const float, 256> {
    static const std::array<float, 256> values = values_of_codes<Format>();
    return values;
  });
}

}  // namespace ecq
