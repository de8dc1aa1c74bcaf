#pragma once
/// \file
/// Spellings of text in the names that a tokenizer.json has for tokens.

#include <cstdint>
#include <string>
#include <string_view>

namespace llama {

enum class spelling : std::uint8_t {
  bytes,      ///< a character for each byte, as in GPT-2
  characters  ///< characters, a mark (U+2581) for a space, and <0x00> to <0xFF> for bytes, as in SentencePiece
};

/// Mark for a space in names of the spelling `characters`.
inline constexpr std::string_view space_mark = "\u2581";

/// Returns the name of a piece of text.
std::string name_of(spelling how, std::string_view text);

/// Returns the name of a byte; in the spelling `characters`, of a byte that is not a character of its own.
std::string name_of_byte(spelling how, unsigned char byte);

/// Returns the text that a name stands for. In the spelling `bytes`, it is the name itself if some of its characters
/// stand for no byte.
std::string text_of(spelling how, const std::string& name);

}  // namespace llama
