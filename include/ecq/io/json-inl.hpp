#pragma once
/// \file
/// Definition of the reader of JSON.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "ecq/base/config.hpp"
#include "ecq/base/result.hpp"
#include "ecq/base/utf8.hpp"
#include "ecq/io/json.hpp"

namespace ecq {

ECQ_INLINE void append_json_string(std::string& out, std::string_view text) {
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

ECQ_INLINE result<std::string> json_reader::string() {
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

ECQ_INLINE result<std::uint64_t> json_reader::integer() {
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

ECQ_INLINE result<std::string_view> json_reader::number_text() {
  skip_space();
  const std::size_t start = at_;
  ECQ_CHECK(number());
  return text_.substr(start, at_ - start);
}

ECQ_INLINE result<void> json_reader::skip(int depth) {
  skip_space();
  if (depth == deepest_nesting) return fail("nested more than ", deepest_nesting, " levels deep");
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

ECQ_INLINE bool json_reader::next_is(char character) noexcept {
  skip_space();
  return at_ < text_.size() && text_[at_] == character;
}

ECQ_INLINE result<void> json_reader::finish() {
  skip_space();
  if (at_ != text_.size()) return fail("more text after the end");
  return {};
}

ECQ_INLINE result<void> json_reader::check_keys(std::size_t start, std::vector<std::string> keys) const {
  std::sort(keys.begin(), keys.end());
  const auto twice = std::adjacent_find(keys.begin(), keys.end());
  if (twice != keys.end()) return fail_at(start, "the object has the key '" + *twice + "' twice");
  return {};
}

ECQ_INLINE void json_reader::skip_space() noexcept {
  while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\r' || text_[at_] == '\t')) {
    ++at_;
  }
}

ECQ_INLINE bool json_reader::accept(char character) noexcept {
  skip_space();
  if (at_ == text_.size() || text_[at_] != character) return false;
  ++at_;
  return true;
}

ECQ_INLINE result<void> json_reader::expect(char character, std::string_view name) {
  if (!accept(character)) return fail("expected ", name);
  return {};
}

ECQ_INLINE result<void> json_reader::number() {
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
  if (dialect_ == json_dialect::python) {
    for (const std::string_view word : {"NaN", "Infinity", "-Infinity"}) {
      if (!text_.substr(at_).starts_with(word)) continue;
      at_ += word.size();
      return {};
    }
  }
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

ECQ_INLINE result<std::uint32_t> json_reader::four_digits() {
  std::uint32_t value = 0;
  for (int count = 0; count < 4; ++count, ++at_) {
    const char digit = at_ < text_.size() ? text_[at_] : '\0';
    const char lower = static_cast<char>(digit | 0x20);
    if (!is_digit(digit) && !(lower >= 'a' && lower <= 'f')) return fail("expected four hexadecimal digits");
    value = value * 16 + static_cast<std::uint32_t>(is_digit(digit) ? digit - '0' : lower - 'a' + 10);
  }
  return value;
}

/// Reads the code point that follows `\u`; a pair of surrogates is one code point.
ECQ_INLINE result<std::uint32_t> json_reader::code_point() {
  ECQ_TRY(unit, four_digits());
  if (unit < 0xD800 || unit > 0xDFFF) return unit;
  const std::size_t behind = at_;
  if (unit < 0xDC00 && text_.substr(at_).starts_with("\\u")) {
    at_ += 2;
    ECQ_TRY(low, four_digits());
    if (low >= 0xDC00 && low <= 0xDFFF) return 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
  }
  if (dialect_ == json_dialect::standard) return fail("surrogate without its other half");
  at_ = behind;
  return 0xFFFD;
}

ECQ_INLINE result<void> json_reader::escape(std::string& value) {
  constexpr std::string_view names = "\"\\/bfnrt", meanings = "\"\\/\b\f\n\r\t";
  const char name = at_ < text_.size() ? text_[at_] : '\0';
  if (const std::size_t index = names.find(name); index != std::string_view::npos) {
    ++at_;
    value += meanings[index];
    return {};
  }
  if (name != 'u') return fail("unknown escape sequence");
  ++at_;
  ECQ_TRY(point, code_point());
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

}  // namespace ecq
