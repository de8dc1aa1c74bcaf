#pragma once
/// \file
/// Definition of text composed of parts.

#include <cstddef>
#include <cstdio>
#include <initializer_list>
#include <string>

#include "ecq/base/config.hpp"
#include "ecq/base/text.hpp"
#include "ecq/base/utf8.hpp"

namespace ecq::detail {

ECQ_COLD ECQ_INLINE void text_part::append_to(std::string& text) const {
  switch (kind_) {
    case kind::text: text.append(text_, size_); break;
    case kind::natural: text += std::to_string(natural_); break;
    case kind::integer: text += std::to_string(integer_); break;
    case kind::real: {
      const double magnitude = real_ < 0 ? -real_ : real_;
      if (magnitude == 0 || (magnitude >= 1e-3 && magnitude < 1e9)) {
        text += std::to_string(real_);
        break;
      }
      char digits[32];
      text.append(digits, static_cast<std::size_t>(std::snprintf(digits, sizeof digits, "%g", real_)));
      break;
    }
  }
}

ECQ_COLD ECQ_INLINE std::string joined_text(std::initializer_list<text_part> parts) {
  std::string text;
  for (const text_part& part : parts) part.append_to(text);
  return text;
}

ECQ_COLD ECQ_INLINE std::string joined_line(std::initializer_list<text_part> parts) {
  return printable(joined_text(parts));
}

}  // namespace ecq::detail
