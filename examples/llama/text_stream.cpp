// Shows text as it comes: whole characters, made printable.

#include "text_stream.hpp"

#include <cstddef>
#include <ostream>

#include "ecq/base/utf8.hpp"

namespace llama {

namespace {

/// Returns the number of bytes at the end of `text`, at most 3, that begin a character of UTF-8 but do not complete it.
std::size_t begun_character(std::string_view text) noexcept {
  for (std::size_t bytes = 1; bytes <= 3 && bytes <= text.size(); ++bytes) {
    const auto byte = static_cast<unsigned char>(text[text.size() - bytes]);
    if (byte < 0x80) return 0;
    if (byte < 0xC0) continue;
    const std::size_t whole = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : 2;
    return bytes < whole ? bytes : 0;
  }
  return 0;
}

}  // namespace

std::string printable_lines(std::string_view text) {
  std::string lines;
  for (;;) {
    const std::size_t end = text.find_first_of("\n\t");
    lines += ecq::printable(text.substr(0, end));
    if (end == std::string_view::npos) return lines;
    lines += text[end];
    text.remove_prefix(end + 1);
  }
}

void text_stream::add(std::string_view piece) {
  held_ += piece;
  const std::size_t whole = held_.size() - begun_character(held_);
  out_ << printable_lines(std::string_view(held_).substr(0, whole)) << std::flush;
  held_.erase(0, whole);
}

void text_stream::end() {
  out_ << printable_lines(held_) << '\n';
  held_.clear();
}

}  // namespace llama
