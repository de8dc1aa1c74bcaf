#pragma once
/// \file
/// Output of text as it comes, token by token.

#include <iosfwd>
#include <string>
#include <string_view>

namespace llama {

/// Returns text made printable, so that it cannot control a terminal, but with its line breaks and tabs.
std::string printable_lines(std::string_view text);

/// Shows text in pieces. A token may end within a character, which is held back until it is complete.
class text_stream {
 public:
  explicit text_stream(std::ostream& out) : out_(out) {}

  void add(std::string_view piece);

  /// Shows the bytes that are held back, and ends the line.
  void end();

 private:
  std::ostream& out_;
  std::string held_;
};

}  // namespace llama
