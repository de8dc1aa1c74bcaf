// Names of tokens and the text that they stand for, in both spellings.

#include "spelling.hpp"

#include <array>
#include <unordered_map>

#include "pre_tokenizer.hpp"

namespace llama {

namespace {

/// Returns the code point that stands for each byte in the tokens of files. Printable bytes stand for themselves; for
/// the others, code points begin at U+0100.
std::array<std::uint32_t, 256> alphabet() {
  std::array<std::uint32_t, 256> points{};
  std::uint32_t next = 256;
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    const bool printable = (byte > 32 && byte < 127) || (byte > 160 && byte != 173);
    points[byte] = printable ? byte : next++;
  }
  return points;
}

std::string name_of_bytes(std::string_view bytes) {
  static const auto points = alphabet();
  std::string name;
  for (const char byte : bytes) {
    const std::uint32_t point = points[static_cast<unsigned char>(byte)];
    if (point < 0x80) {
      name += static_cast<char>(point);
      continue;
    }
    name += static_cast<char>(0xC0U | point >> 6U);
    name += static_cast<char>(0x80U | (point & 0x3FU));
  }
  return name;
}

std::string bytes_of(const std::string& name) {
  static const auto bytes = [] {
    std::unordered_map<std::uint32_t, char> map;
    const auto points = alphabet();
    for (std::uint32_t byte = 0; byte < 256; ++byte) map.emplace(points[byte], static_cast<char>(byte));
    return map;
  }();
  std::string text;
  for (const detail::character& each : detail::characters_of(name)) {
    const auto found = bytes.find(each.point);
    if (found == bytes.end()) return name;
    text += found->second;
  }
  return text;
}

std::string with_all(std::string text, std::string_view old, std::string_view now) {
  for (std::size_t at = 0; (at = text.find(old, at)) != std::string::npos; at += now.size()) {
    text.replace(at, old.size(), now);
  }
  return text;
}

constexpr std::string_view digits = "0123456789ABCDEF";

}  // namespace

std::string name_of(spelling how, std::string_view text) {
  return how == spelling::bytes ? name_of_bytes(text) : with_all(std::string(text), " ", space_mark);
}

std::string name_of_byte(spelling how, unsigned char byte) {
  if (how == spelling::bytes) return name_of_bytes(std::string(1, static_cast<char>(byte)));
  return {'<', '0', 'x', digits[byte >> 4U], digits[byte & 15U], '>'};
}

std::string text_of(spelling how, const std::string& name) {
  if (how == spelling::bytes) return bytes_of(name);
  if (name.size() == 6 && name.starts_with("<0x") && name.ends_with('>')) {
    const std::size_t high = digits.find(name[3]), low = digits.find(name[4]);
    if (high < 16 && low < 16) return std::string(1, static_cast<char>(high << 4U | low));
  }
  return with_all(name, space_mark, " ");
}

}  // namespace llama
