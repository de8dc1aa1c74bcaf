#pragma once
/// \file
/// Definition of text put together from parts.

#include "ecq/base/text.hpp"
#include "ecq/base/utf8.hpp"

namespace ecq::detail {

ECQ_COLD ECQ_INLINE void text_part::append_to(std::string& text) const {
  switch (kind_) {
    case kind::text: text.append(text_, size_); break;
    case kind::natural: text += std::to_string(natural_); break;
    case kind::integer: text += std::to_string(integer_); break;
    case kind::real: text += std::to_string(real_); break;
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
