// The chart is well-formed XML, whatever the names and numbers are, and shows the data that it is given.

#include "../../examples/ecq/plot_svg.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace {

/// Whether every tag is closed in order, every attribute is quoted, and text holds no bare '<' or '&'.
testing::AssertionResult well_formed(const std::string& xml) {
  std::vector<std::string> open;
  for (std::size_t at = 0; at < xml.size(); ++at) {
    if (xml[at] == '&') {
      const std::string name = xml.substr(at + 1, xml.find(';', at) - at - 1);
      if (name != "amp" && name != "lt" && name != "gt" && name != "quot") {
        return testing::AssertionFailure() << "entity " << name;
      }
    }
    if (static_cast<unsigned char>(xml[at]) < 0x20 && xml[at] != '\n') return testing::AssertionFailure() << "control";
    if (xml[at] != '<') continue;
    std::size_t end = at + 1;
    for (bool quoted = false; end < xml.size() && (quoted || xml[end] != '>'); ++end) {
      if (xml[end] == '"') quoted = !quoted;
      if (xml[end] == '<') return testing::AssertionFailure() << "'<' in a tag";
    }
    const std::string tag = xml.substr(at + 1, end - at - 1);
    const std::string name = tag.substr(0, tag.find(' '));
    if (tag[0] == '/') {
      if (open.empty() || open.back() != tag.substr(1)) return testing::AssertionFailure() << "closes " << tag;
      open.pop_back();
    } else if (tag[0] != '?' && tag.back() != '/') {
      open.push_back(name);
    }
    at = end;
  }
  return open.empty() ? testing::AssertionSuccess() : testing::AssertionFailure() << "open: " << open.back();
}

std::size_t occurrences(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(PlotSvg, ShowsEveryPointSeriesAndLabel) {
  const std::string svg = tool::to_svg({"A title",
                                        "and more",
                                        "bits per weight",
                                        "SQNR (dB)",
                                        {{"first", {{4, 22}, {2, 10}, {3, 16}}}, {"second", {{4.5, 20.7}}}}});
  EXPECT_TRUE(well_formed(svg)) << svg;
  for (const char* words : {"A title", "and more", "bits per weight", "SQNR (dB)", "first", "second"}) {
    EXPECT_NE(svg.find(words), std::string::npos) << words;
  }
  EXPECT_EQ(occurrences(svg, "<polyline"), 1U) << "one point makes no line";
  EXPECT_EQ(occurrences(svg, "<circle"), 3U + 1U) << "three points and their legend";
  EXPECT_EQ(occurrences(svg, "<polygon"), 1U + 1U);
}

// Orders of magnitude are equally far apart, and 0 is at the bottom.
TEST(PlotSvg, ShowsOrdersOfMagnitude) {
  const std::string svg =
      tool::to_svg({"t", "s", "x", "y", {{"n", {{11, 0}, {12, 0.25}, {13, 2.5}, {14, 25}}}}, /*log_y=*/true});
  EXPECT_TRUE(well_formed(svg)) << svg;
  for (const char* words : {">0.2<", ">0.5<", ">1<", ">2<", ">5<", ">10<", ">20<", ">50<"}) {
    EXPECT_EQ(occurrences(svg, words), 1U) << words << svg;
  }
  std::vector<double> heights;
  std::size_t at = svg.find("<circle");
  for (int point = 0; point < 4; ++point, at = svg.find("<circle", at + 1)) {
    heights.push_back(std::stod(svg.substr(svg.find("cy=\"", at) + 4)));
  }
  EXPECT_EQ(heights[0], 470);
  EXPECT_NEAR(heights[1] - heights[2], heights[2] - heights[3], 0.02);
  EXPECT_GT(heights[1] - heights[2], 100);
}

TEST(PlotSvg, EscapesNames) {
  const std::string svg =
      tool::to_svg({"<a> & \"b\"", "\xff\xc0\x80 \x01\n \xed\xa0\x80", "\xe2\x82\xac", "'", {{"]]>", {{1, 1}}}}});
  EXPECT_TRUE(well_formed(svg)) << svg;
  EXPECT_NE(svg.find("&lt;a&gt; &amp; &quot;b&quot;"), std::string::npos);
  EXPECT_NE(svg.find("??? ?? ???"), std::string::npos) << svg;
  EXPECT_NE(svg.find("\xe2\x82\xac"), std::string::npos);
}

TEST(PlotSvg, StandsAnyNumbers) {
  const double inf = std::numeric_limits<double>::infinity();
  for (const auto& points : std::vector<std::vector<tool::plot_point>>{{},
                                                                       {{0, 0}},
                                                                       {{1, inf}, {2, 3}},
                                                                       {{1, 1e-300}, {2, 1e300}},
                                                                       {{std::nan(""), 1}},
                                                                       {{1e-9, 1e9}, {2e-9, -1e9}},
                                                                       {{3, 5}, {3, 5}}}) {
    for (const bool log_y : {false, true}) {
      const std::string svg = tool::to_svg({"t", "s", "x", "y", {{"n", points}}, log_y});
      EXPECT_TRUE(well_formed(svg)) << svg;
      EXPECT_EQ(svg.find("nan"), std::string::npos);
      EXPECT_EQ(svg.find("inf"), std::string::npos);
      EXPECT_LT(svg.size(), 20000U);
    }
  }
}

TEST(Text, PrintsForPeople) {
  EXPECT_EQ(tool::grouped(0), "0");
  EXPECT_EQ(tool::grouped(999), "999");
  EXPECT_EQ(tool::grouped(1234567), "1,234,567");
  EXPECT_EQ(tool::bytes(0), "0 B");
  EXPECT_EQ(tool::bytes(999), "999 B");
  EXPECT_EQ(tool::bytes(1000), "1.00 kB");
  EXPECT_EQ(tool::bytes(999'499), "999 kB");
  EXPECT_EQ(tool::bytes(999'999), "1.00 MB");
  EXPECT_EQ(tool::duration(3.14), "3.1 s");
  EXPECT_EQ(tool::duration(187), "3:07");
  EXPECT_EQ(tool::decimal(std::numeric_limits<double>::infinity(), 2), "inf");
  EXPECT_EQ(tool::printable("a\nb\x1b[31m"), "a\\x0ab\\x1b[31m");
  EXPECT_EQ(tool::short_name("folder/model\xe2\x80\x8b"), "model\\u200b");
  std::string umlauts;
  for (int count = 0; count < 41; ++count) umlauts += "\xc3\xa4";
  EXPECT_EQ(tool::short_name(umlauts), umlauts.substr(0, 36) + "...");
}

}  // namespace
