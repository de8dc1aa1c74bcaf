// Text that arrives in pieces.

#include "../../examples/llama/text_stream.hpp"

#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <string_view>

namespace {

// Text comes out the same, however it is cut.
TEST(LlamaTextStream, DependsOnNoCut) {
  for (const std::string_view text : {"plain\n\ttext", "\u00e9\u20ac\U0001F600!", "\x1b[2J\u202e", "\xC3", "a\xE2\x82",
                                      "\xF0\x9F\x98x", "\x80\x80\x80\x80\xFF\xF8\xC0", ""}) {
    for (std::size_t step = 1; step < 6; ++step) {
      std::ostringstream out;
      llama::text_stream stream(out);
      for (std::size_t at = 0; at < text.size(); at += step) stream.add(text.substr(at, step));
      stream.end();
      EXPECT_EQ(out.str(), llama::printable_lines(text) + "\n") << step;
    }
  }
}

TEST(LlamaTextStream, HoldsNothingBackThatIsComplete) {
  std::ostringstream out;
  llama::text_stream stream(out);
  stream.add("ab\xE2\x82");
  EXPECT_EQ(out.str(), "ab");
  stream.add("\xAC");
  EXPECT_EQ(out.str(), "ab\u20ac");
}

}  // namespace
