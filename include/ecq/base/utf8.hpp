#pragma once
/// \file
/// Checks of UTF-8 and escapes for names from other people's files.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "ecq/base/config.hpp"

namespace ecq {

/// Returns the number of bytes (1 to 4) of the UTF-8 sequence that `text` begins with, or 0 if that is invalid:
/// overlong, a surrogate, beyond U+10FFFF or cut off.
constexpr std::size_t utf8_sequence(std::string_view text) noexcept {
  const auto byte = [&](std::size_t index) { return static_cast<unsigned>(static_cast<unsigned char>(text[index])); };
  if (text.empty()) return 0;
  const unsigned lead = byte(0);
  if (lead < 0x80) return 1;
  const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < length) return 0;
  for (std::size_t index = 1; index < length; ++index) {
    if ((byte(index) & 0xC0U) != 0x80U) return 0;
  }
  if (lead == 0xE0 && byte(1) < 0xA0) return 0;
  if (lead == 0xED && byte(1) > 0x9F) return 0;
  if (lead == 0xF0 && byte(1) < 0x90) return 0;
  if (lead == 0xF4 && byte(1) > 0x8F) return 0;
  return length;
}

/// Whether all of `text` is UTF-8.
constexpr bool is_utf8(std::string_view text) noexcept {
  while (!text.empty()) {
    const std::size_t length = utf8_sequence(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

namespace detail {

/// Code points `first` to `last`.
struct code_points {
  std::uint32_t first, last;
};

/// Code points that are invisible, or change the display of the text around them, and so could make one name look like
/// another or control a terminal: controls (Unicode's Cc), line and paragraph separators, marks that direct
/// bidirectional text, characters that programs should not display (Default_Ignorable_Code_Point) and controls of
/// annotations and hieroglyphs.
inline constexpr std::array<code_points, 20> unprintable{
    {{0x0, 0x1F},      {0x7F, 0x9F},       {0xAD, 0xAD},       {0x34F, 0x34F},     {0x61C, 0x61C},
     {0x115F, 0x1160}, {0x17B4, 0x17B5},   {0x180B, 0x180F},   {0x200B, 0x200F},   {0x2028, 0x202E},
     {0x2060, 0x206F}, {0x3164, 0x3164},   {0xFE00, 0xFE0F},   {0xFEFF, 0xFEFF},   {0xFFA0, 0xFFA0},
     {0xFFF0, 0xFFFB}, {0x13430, 0x1343F}, {0x1BCA0, 0x1BCA3}, {0x1D173, 0x1D17A}, {0xE0000, 0xE0FFF}}};

}  // namespace detail

/// Returns `text` as one line in which everything is visible: controls, marks of text direction, invisible characters
/// and bytes that are not UTF-8 become escapes (`\x1b`, `\u202e`, `\U000e0041`). Other text, backslashes included,
/// stays as it is.
inline std::string printable(std::string_view text) {
  std::string line;
  line.reserve(text.size());
  const auto escape = [&](std::string_view introduction, unsigned digits, std::uint32_t value) {
    line += introduction;
    while (digits-- != 0) line += "0123456789abcdef"[value >> (4 * digits) & 15U];
  };
  while (!text.empty()) {
    const std::size_t length = utf8_sequence(text);
    const auto lead = static_cast<unsigned char>(text[0]);
    // The lead byte of a sequence of n > 1 bytes has n high bits set, then a zero, then bits of the code point.
    std::uint32_t point = length < 2 ? lead : lead & (0x7FU >> length);
    for (std::size_t index = 1; index < length; ++index) {
      point = point << 6 | (static_cast<unsigned char>(text[index]) & 0x3FU);
    }
    const bool hidden = std::any_of(detail::unprintable.begin(), detail::unprintable.end(),
                                    [&](const auto& range) { return point >= range.first && point <= range.last; });
    if (length == 0 || (hidden && point < 0x80)) {
      escape("\\x", 2, point);
    } else if (hidden) {
      point < 0x10000 ? escape("\\u", 4, point) : escape("\\U", 8, point);
    } else {
      line.append(text.substr(0, length));
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return line;
}

}  // namespace ecq
