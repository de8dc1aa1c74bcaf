#pragma once
/// \file
/// Text composed of parts, which are strings and numbers, for messages. A caller stores a few words per part, and one
/// function formats them all. Concatenated in place, messages would be a tenth of a program's code.

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>

#include "ecq/base/config.hpp"

namespace ecq::detail {

/// A string, or a number in decimal. A `float` or `double` has six decimal places, or an exponent if its magnitude is
/// below 0.001 (but not 0), or 10^9 or more.
class text_part {
 public:
  template <class Text>
    requires std::is_convertible_v<const Text&, std::string_view>
  text_part(const Text& text) noexcept : text_part(std::string_view(text)) {}
  text_part(std::string_view text) noexcept : size_(text.size()), text_(text.data()) {}

  template <class Number>
    requires(std::is_arithmetic_v<Number> && !std::is_same_v<Number, char>)
  text_part(Number number) noexcept {
    if constexpr (std::is_floating_point_v<Number>) {
      kind_ = kind::real;
      real_ = static_cast<double>(number);
    } else if constexpr (std::is_signed_v<Number>) {
      kind_ = kind::integer;
      integer_ = number;
    } else {
      kind_ = kind::natural;
      natural_ = number;
    }
  }

  void append_to(std::string& text) const;

 private:
  enum class kind : std::uint8_t { text, natural, integer, real };

  kind kind_ = kind::text;
  std::size_t size_ = 0;
  union {
    const char* text_;
    std::uint64_t natural_;
    std::int64_t integer_;
    double real_;
  };
};

std::string joined_text(std::initializer_list<text_part> parts);

/// Like joined_text(), on one line (printable()): names in messages come from files that may be hostile.
std::string joined_line(std::initializer_list<text_part> parts);

template <class... Parts>
std::string text_of(const Parts&... parts) {
  return joined_text({text_part(parts)...});
}

template <class... Parts>
std::string line_of(const Parts&... parts) {
  return joined_line({text_part(parts)...});
}

}  // namespace ecq::detail

#if ECQ_HEADER_ONLY
#include "ecq/base/text-inl.hpp"
#endif
