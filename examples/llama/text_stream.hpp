#pragma once
/// \file
/// Text that is shown as it comes, token by token.

#include <iosfwd>
#include <string>
#include <string_view>

namespace llama {

/// Text with its line breaks, which cannot steer a terminal.
std::string printable_lines(std::string_view text);

/// Shows text in pieces. A token may end within a character, which is held back until it is complete.
class text_stream {
 public:
  explicit text_stream(std::ostream& out) : out_(out) {}

  void add(std::string_view piece);

  /// Ends the text, whatever is held back, and the line.
  void end();

 private:
  std::ostream& out_;
  std::string held_;
};

}  // namespace llama
