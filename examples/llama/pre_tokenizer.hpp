#pragma once
/// \file
/// Splits text into pieces, across which byte-pair encoding does not merge.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "unicode_classes.hpp"

namespace llama {

/// Patterns by which tokenizers split text.
enum class split_pattern : std::uint8_t {
  none,     ///< text stays whole
  gpt2,     ///< that of GPT-2, which `ByteLevel` applies with `use_regex`
  llama3,   ///< that of Llama 3
  qwen2,    ///< that of Qwen2: Llama 3's, but with single digits
  numbers,  ///< runs of numbers, and the text between them: `Digits`
  digits    ///< each number, and the text between numbers: `Digits` with `individual_digits`
};

/// The regular expressions of split_pattern::llama3 and qwen2, as tokenizer.json spells them.
inline constexpr std::string_view llama3_expression =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|"
    "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
inline constexpr std::string_view qwen2_expression =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|"
    "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

namespace detail {

/// A character of text, with its first byte, code point and class. Bytes that are not UTF-8 are characters of the class
/// other.
struct character {
  std::size_t begin = 0;
  std::uint32_t point = 0;
  character_class kind = character_class::other;

  bool is_line_end() const noexcept { return point == '\r' || point == '\n'; }
};

std::vector<character> characters_of(std::string_view text);

}  // namespace detail

/// Calls `use(piece)` for all pieces of `text` in order. Together, the pieces are the text.
void split(std::string_view text, split_pattern pattern, const std::function<void(std::string_view piece)>& use);

}  // namespace llama
