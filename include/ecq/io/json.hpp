#pragma once
/// \file
/// A strict reader of JSON (RFC 8259) in other people's files. It builds no document tree: of a hostile text, a caller
/// keeps only what its schema has room for.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ecq/base/config.hpp"
#include "ecq/base/result.hpp"
#include "ecq/base/utf8.hpp"

namespace ecq {

/// Appends `text` to `out` as a JSON string; precondition: is_utf8(text).
inline void append_json_string(std::string& out, std::string_view text) {
  constexpr std::string_view digits = "0123456789abcdef";
  out += '"';
  for (const char character : text) {
    const auto value = static_cast<unsigned char>(character);
    if (character == '"' || character == '\\') {
      out += '\\';
      out += character;
    } else if (value < 0x20) {
      out += "\\u00";
      out += digits[value >> 4];
      out += digits[value & 15U];
    } else {
      out += character;
    }
  }
  out += '"';
}

/// Reads one JSON text from front to back: each call takes the next value and fails if it is of another kind. Duplicate
/// keys in an object are errors, and so is text that is not UTF-8. Errors are errc::corrupt and name the byte.
class json_reader {
 public:
  /// skip() refuses deeper nesting; all other calls go as deep as their caller's schema.
  static constexpr int deepest_nesting = 32;

  /// `text` must outlive the reader.
  explicit json_reader(std::string_view text) noexcept : text_(text) {}

  /// Calls `member(key)` for each member of the next object; it must read the value and return result<void>.
  template <class Member>
  result<void> object(Member&& member) {
    const std::size_t start = at_;
    ECQ_CHECK(expect('{', "an object"));
    std::vector<std::string> keys;
    if (!accept('}')) {
      do {
        ECQ_TRY(key, string());
        ECQ_CHECK(expect(':', "':'"));
        ECQ_CHECK(member(std::as_const(key)));
        keys.push_back(std::move(key));
      } while (accept(','));
      ECQ_CHECK(expect('}', "',' or '}'"));
    }
    std::sort(keys.begin(), keys.end());
    const auto twice = std::adjacent_find(keys.begin(), keys.end());
    if (twice != keys.end()) return fail_at(start, "the object has the key '" + *twice + "' twice");
    return {};
  }

  /// Calls `element()` for each element of the next array; it must read the element and return result<void>.
  template <class Element>
  result<void> array(Element&& element) {
    ECQ_CHECK(expect('[', "an array"));
    if (accept(']')) return {};
    do {
      ECQ_CHECK(element());
    } while (accept(','));
    return expect(']', "',' or ']'");
  }

  result<std::string> string() {
    ECQ_CHECK(expect('"', "a string"));
    std::string value;
    for (;;) {
      const std::string_view rest = text_.substr(at_);
      const std::size_t length = utf8_sequence(rest);
      if (length == 0) return fail(rest.empty() ? "the text ends within a string" : "not UTF-8");
      if (static_cast<unsigned char>(rest[0]) < 0x20) return fail("control character within a string");
      at_ += length;
      if (rest[0] == '"') return value;
      if (rest[0] != '\\') {
        value.append(rest.substr(0, length));
      } else {
        ECQ_CHECK(escape(value));
      }
    }
  }

  /// Reads a number without sign, fraction and exponent that fits in 64 bits.
  result<std::uint64_t> integer() {
    skip_space();
    const std::size_t start = at_;
    std::uint64_t value = 0;
    for (; at_ < text_.size() && is_digit(text_[at_]); ++at_) {
      const auto digit = static_cast<std::uint64_t>(text_[at_] - '0');
      constexpr std::uint64_t largest = (std::numeric_limits<std::uint64_t>::max)();
      if (value > (largest - digit) / 10) return fail_at(start, "integer exceeds 64 bits");
      value = value * 10 + digit;
    }
    const bool fraction = at_ < text_.size() && (text_[at_] == '.' || text_[at_] == 'e' || text_[at_] == 'E');
    if (at_ == start || fraction || (text_[start] == '0' && at_ > start + 1)) {
      return fail_at(start, "expected a non-negative integer");
    }
    return value;
  }

  /// Reads a number and returns its text, which may stand for one that no type holds.
  result<std::string_view> number_text() {
    skip_space();
    const std::size_t start = at_;
    ECQ_CHECK(number());
    return text_.substr(start, at_ - start);
  }

  /// Reads any value and discards it.
  result<void> skip(int depth = 0) {
    skip_space();
    if (depth == deepest_nesting) return fail("nested more than ", deepest_nesting, " deep");
    const char first = at_ < text_.size() ? text_[at_] : '\0';
    if (first == '{') {
      return object([&](const std::string&) { return skip(depth + 1); });
    }
    if (first == '[') {
      return array([&] { return skip(depth + 1); });
    }
    if (first == '"') {
      ECQ_CHECK(string());
      return {};
    }
    for (const std::string_view word : {"true", "false", "null"}) {
      if (text_.substr(at_, word.size()) == word) {
        at_ += word.size();
        return {};
      }
    }
    return number();
  }

  /// Whether the next value begins with `character`: '{' an object, '[' an array, '"' a string.
  bool next_is(char character) noexcept {
    skip_space();
    return at_ < text_.size() && text_[at_] == character;
  }

  /// The number of bytes read so far.
  std::size_t position() const noexcept { return at_; }

  /// Fails if anything but white space is left.
  result<void> finish() {
    skip_space();
    if (at_ != text_.size()) return fail("more text after the end");
    return {};
  }

  /// An error at the next byte.
  template <class... Parts>
  error fail(const Parts&... parts) const {
    return fail_at(at_, parts...);
  }

 private:
  static constexpr bool is_digit(char character) noexcept { return character >= '0' && character <= '9'; }

  template <class... Parts>
  error fail_at(std::size_t position, const Parts&... parts) const {
    return error(errc::corrupt, "JSON at byte ", position, ": ", parts...);
  }

  void skip_space() noexcept {
    while (at_ < text_.size() &&
           (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\r' || text_[at_] == '\t')) {
      ++at_;
    }
  }

  bool accept(char character) noexcept {
    skip_space();
    if (at_ == text_.size() || text_[at_] != character) return false;
    ++at_;
    return true;
  }

  result<void> expect(char character, std::string_view name) {
    if (!accept(character)) return fail("expected ", name);
    return {};
  }

  result<void> number() {
    const std::size_t start = at_;
    const auto digits = [&] {
      const std::size_t first = at_;
      while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
      return at_ - first;
    };
    const auto take = [&](std::string_view any) {
      const bool found = at_ < text_.size() && any.find(text_[at_]) != std::string_view::npos;
      if (found) ++at_;
      return found;
    };
    take("-");
    const std::size_t whole = at_;
    bool good = digits() > 0 && (text_[whole] != '0' || at_ == whole + 1);
    if (good && take(".")) good = digits() > 0;
    if (good && take("eE")) {
      take("+-");
      good = digits() > 0;
    }
    if (!good) return fail_at(start, "expected a value");
    return {};
  }

  result<std::uint32_t> four_digits() {
    std::uint32_t value = 0;
    for (int count = 0; count < 4; ++count, ++at_) {
      const char digit = at_ < text_.size() ? text_[at_] : '\0';
      const char lower = static_cast<char>(digit | 0x20);
      if (!is_digit(digit) && !(lower >= 'a' && lower <= 'f')) return fail("expected four hexadecimal digits");
      value = value * 16 + static_cast<std::uint32_t>(is_digit(digit) ? digit - '0' : lower - 'a' + 10);
    }
    return value;
  }

  result<void> escape(std::string& value) {
    constexpr std::string_view names = "\"\\/bfnrt", meanings = "\"\\/\b\f\n\r\t";
    const char name = at_ < text_.size() ? text_[at_] : '\0';
    if (const std::size_t index = names.find(name); index != std::string_view::npos) {
      ++at_;
      value += meanings[index];
      return {};
    }
    if (name != 'u') return fail("unknown escape sequence");
    ++at_;
    ECQ_TRY(unit, four_digits());
    std::uint32_t point = unit;
    if (unit >= 0xD800 && unit < 0xDC00) {
      if (text_.substr(at_, 2) != "\\u") return fail("surrogate without its other half");
      at_ += 2;
      ECQ_TRY(low, four_digits());
      if (low < 0xDC00 || low > 0xDFFF) return fail("surrogate without its other half");
      point = 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
    } else if (unit >= 0xDC00 && unit <= 0xDFFF) {
      return fail("surrogate without its other half");
    }
    const auto append = [&](std::uint32_t byte) { value += static_cast<char>(static_cast<unsigned char>(byte)); };
    if (point < 0x80) {
      append(point);
    } else if (point < 0x800) {
      append(0xC0U | (point >> 6));
      append(0x80U | (point & 0x3FU));
    } else if (point < 0x10000) {
      append(0xE0U | (point >> 12));
      append(0x80U | ((point >> 6) & 0x3FU));
      append(0x80U | (point & 0x3FU));
    } else {
      append(0xF0U | (point >> 18));
      append(0x80U | ((point >> 12) & 0x3FU));
      append(0x80U | ((point >> 6) & 0x3FU));
      append(0x80U | (point & 0x3FU));
    }
    return {};
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace ecq
