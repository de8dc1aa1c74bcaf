#pragma once
/// \file
/// How the names that a tokenizer.json has for tokens spell text.

#include <cstdint>
#include <string>
#include <string_view>

namespace llama {

enum class spelling : std::uint8_t {
  bytes,      ///< a character for each byte, as GPT-2 has them
  characters  ///< characters, a mark (U+2581) for a space, and <0x00> to <0xFF> for bytes, as SentencePiece has them
};

/// What stands for a space in names of the spelling `characters`.
inline constexpr std::string_view space_mark = "\u2581";

/// The name of a piece of text.
std::string name_of(spelling how, std::string_view text);

/// The name of a byte: in the spelling `characters`, of one that is no character of its own.
std::string name_of_byte(spelling how, unsigned char byte);

/// The text that a name stands for; in the spelling `bytes`, the name itself if it has characters that stand for none.
std::string text_of(spelling how, const std::string& name);

}  // namespace llama
