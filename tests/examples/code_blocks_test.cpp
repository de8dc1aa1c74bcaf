// Code in the documentation compiles: each block that names an example consists of its lines.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "support/places.hpp"

namespace {

namespace fs = std::filesystem;

std::vector<std::string> lines_of(const fs::path& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

/// Consecutive lines, none of them empty.
using paragraph = std::vector<std::string>;

struct code_block {
  std::string language;
  std::string example;  ///< path from the root, from the comment `<!-- examples/... -->` before the block; empty
                        ///< without one
  std::size_t line = 0;
  std::vector<paragraph> paragraphs;
};

std::vector<code_block> blocks_of(const fs::path& document) {
  constexpr std::string_view comment = "<!-- examples/", end = " -->";
  std::vector<code_block> blocks;
  std::string example;
  bool inside = false;
  std::size_t number = 0;
  for (const std::string& line : lines_of(document)) {
    ++number;
    if (line.starts_with("```")) {
      inside = !inside;
      if (inside) blocks.push_back({line.substr(3), example, number, {{}}});
      if (!inside) example.clear();
    } else if (!inside) {
      if (line.starts_with(comment) && line.ends_with(end)) example = line.substr(5, line.size() - 5 - end.size());
    } else if (line.empty()) {
      blocks.back().paragraphs.emplace_back();
    } else {
      blocks.back().paragraphs.back().push_back(line);
    }
  }
  return blocks;
}

/// Whether `lines` from `at` on are the paragraph, all of them indented alike.
bool is_at(const std::vector<std::string>& lines, std::size_t at, const paragraph& text) {
  if (at + text.size() > lines.size() || !lines[at].ends_with(text.front())) return false;
  const std::string indent = lines[at].substr(0, lines[at].size() - text.front().size());
  if (indent.find_first_not_of(' ') != std::string::npos) return false;
  for (std::size_t line = 0; line < text.size(); ++line) {
    if (lines[at + line] != indent + text[line]) return false;
  }
  return true;
}

/// Returns the first line, from `from` on, at which the paragraph stands; lines.size() if there is none.
std::size_t find(const std::vector<std::string>& lines, std::size_t from, const paragraph& text) {
  while (from < lines.size() && !is_at(lines, from, text)) ++from;
  return from;
}

std::vector<fs::path> documents() {
  const fs::path root = ecq_test::source_folder();
  std::vector<fs::path> found{root / "README.md"};
  for (const auto& entry : fs::directory_iterator(root / "docs")) {
    if (entry.path().extension() == ".md") found.push_back(entry.path());
  }
  return found;
}

TEST(CodeBlocks, ConsistOfLinesOfTheirExample) {
  const fs::path root = ecq_test::source_folder();
  for (const fs::path& document : documents()) {
    for (const code_block& block : blocks_of(document)) {
      if (block.example.empty()) continue;
      const std::vector<std::string> example = lines_of(root / block.example);
      ASSERT_FALSE(example.empty()) << document << ": no " << block.example;
      std::size_t at = 0;
      for (const paragraph& text : block.paragraphs) {
        ASSERT_FALSE(text.empty()) << document << ':' << block.line << ": an empty paragraph";
        at = find(example, at, text);
        ASSERT_LT(at, example.size()) << document << ':' << block.line << ": " << block.example
                                      << " has no such lines, or has them earlier: " << text.front();
        at += text.size();
      }
    }
  }
}

// Blocks that need CUDA are compiled elsewhere.
TEST(CodeBlocks, NameAnExampleIfTheyAreCpp) {
  for (const fs::path& document : documents()) {
    for (const code_block& block : blocks_of(document)) {
      const bool device = block.paragraphs.front().front().starts_with("#include <ecq/ecq.cuh>");
      EXPECT_TRUE(block.language != "cpp" || !block.example.empty() || device) << document << ':' << block.line;
    }
  }
}

TEST(CodeBlocks, ShowEveryExample) {
  std::set<std::string> shown, examples;
  for (const fs::path& document : documents()) {
    for (const code_block& block : blocks_of(document)) shown.insert(block.example);
  }
  for (const auto& entry : fs::directory_iterator(ecq_test::source_folder() / "examples")) {
    if (entry.path().extension() == ".cpp") examples.insert("examples/" + entry.path().filename().string());
  }
  EXPECT_GE(examples.size(), 6U);
  EXPECT_TRUE(std::includes(shown.begin(), shown.end(), examples.begin(), examples.end()));
}

TEST(CodeBlocks, AreComparedWhateverTheirIndent) {
  const std::vector<std::string> lines{"int main() {", "  one();", "    two();", "  three();", "}"};
  EXPECT_EQ(find(lines, 0, {"one();", "  two();"}), 1U);
  EXPECT_EQ(find(lines, 0, {"three();"}), 3U);
  EXPECT_EQ(find(lines, 2, {"one();"}), lines.size());
  EXPECT_EQ(find(lines, 0, {"one();", "two();"}), lines.size());
  EXPECT_EQ(find(lines, 0, {"ne();"}), lines.size());
  EXPECT_EQ(find(lines, 4, {"}", "more"}), lines.size());
}

}  // namespace
