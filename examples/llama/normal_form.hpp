#pragma once
/// \file
/// Checks whether text is in Unicode's normal form C, as far as that shows in single characters.

#include <cstdint>
#include <optional>
#include <string_view>

namespace llama {

/// Returns the first character of `text` that normal form C (UAX #15) may replace, join with those before it, or put
/// elsewhere; nothing if the text is certainly in that form. Text with two marks in a row is not certain. Bytes that
/// are not UTF-8 do not count. Based on Unicode 14.
std::optional<std::uint32_t> may_normalize(std::string_view text);

}  // namespace llama
