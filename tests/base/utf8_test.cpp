#include "ecq/base/utf8.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace {

using ecq::printable;

std::string utf8(std::uint32_t point) {
  const auto byte = [](std::uint32_t value) { return static_cast<char>(static_cast<unsigned char>(value)); };
  if (point < 0x80) return {byte(point)};
  if (point < 0x800) return {byte(0xC0U | (point >> 6)), byte(0x80U | (point & 0x3FU))};
  if (point < 0x10000) {
    return {byte(0xE0U | (point >> 12)), byte(0x80U | ((point >> 6) & 0x3FU)), byte(0x80U | (point & 0x3FU))};
  }
  return {byte(0xF0U | (point >> 18)), byte(0x80U | ((point >> 12) & 0x3FU)), byte(0x80U | ((point >> 6) & 0x3FU)),
          byte(0x80U | (point & 0x3FU))};
}

TEST(Printable, LeavesTextAsItIs) {
  for (const std::string text : {"", "model.layers.0.weight", R"(a\b 'c' "d")", "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80",
                                 "\xd7\xa9\xd7\x9c\xd7\x95\xd7\x9d"}) {
    EXPECT_EQ(printable(text), text);
    EXPECT_EQ(printable(printable(text + "\n")), text + "\\x0a") << "escapes are text";
  }
}

TEST(Printable, EscapesControlsMarksOfDirectionAndInvisibleCharacters) {
  EXPECT_EQ(printable(std::string_view("a\0b\n\x1b[2J\x7f", 8)), R"(a\x00b\x0a\x1b[2J)");
  EXPECT_EQ(printable("\x7f"), R"(\x7f)");
  EXPECT_EQ(printable("a" + utf8(0x9B) + "2J" + utf8(0x202E) + "b"), R"(a\u009b2J\u202eb)");
  EXPECT_EQ(printable(utf8(0xE0041)), R"(\U000e0041)");
  for (std::uint32_t point = 0; point < 0x110000; ++point) {
    const bool control = point < 0x20 || (point >= 0x7F && point < 0xA0);
    const bool direction = point == 0x61C || point == 0x200E || point == 0x200F ||
                           (point >= 0x202A && point <= 0x202E) || (point >= 0x2066 && point <= 0x2069);
    const bool invisible = point == 0xAD || (point >= 0x200B && point <= 0x200D) || point == 0x2028 ||
                           point == 0x2029 || point == 0x2060 || point == 0xFEFF || (point >> 8) == 0xE00;
    if (!control && !direction && !invisible) continue;
    EXPECT_EQ(printable(utf8(point))[0], '\\') << std::hex << point;
  }
  for (const std::uint32_t point : {0x20U, 0x7EU, 0xA0U, 0xACU, 0xAEU, 0x3B1U, 0x200AU, 0x2010U, 0x2030U, 0x10FFFDU}) {
    EXPECT_EQ(printable(utf8(point)), utf8(point)) << std::hex << point;
  }
}

TEST(Printable, EscapesBytesThatAreNotUtf8) {
  EXPECT_EQ(printable("a\xff\xc3"), R"(a\xff\xc3)");
  EXPECT_EQ(printable("\x9b\x32J"), R"(\x9b2J)") << "a control of terminals in an 8-bit code";
  EXPECT_EQ(printable("\xed\xa0\x80\xc0\x80"), R"(\xed\xa0\x80\xc0\x80)");
}

}  // namespace
