// The table of docs/format.md against which others check their readers: the elements of the golden streams.

#include <gtest/gtest.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ecq/base/checksum.hpp"
#include "ecq/container/description.hpp"
#include "ecq/container/reader.hpp"
#include "ecq/decompress.hpp"
#include "support/files.hpp"
#include "support/places.hpp"

namespace {

/// Cells of a stream's row, by the stream's name: "6000", "bytes", "`0123456789abcdef`".
using rows = std::map<std::string, std::vector<std::string>>;

std::vector<std::string> row_of(const ecq::encoded_stream& stream) {
  std::vector<std::byte> elements(static_cast<std::size_t>(stream.size()) * stream.element_bytes());
  const auto done = ecq::decode_elements(ecq::cpu{}, stream, 0, elements);
  EXPECT_TRUE(done) << done.error().to_string();
  const auto format = stream.format();
  return {std::to_string(stream.size()), format ? std::string(to_string(*format)) : "bytes",
          "`" + ecq::detail::hex64(ecq::xxh64(elements)) + "`"};
}

rows of_all_streams() {
  rows all;
  for (const auto& entry : std::filesystem::directory_iterator(ecq_test::golden("stream"))) {
    const std::string file = ecq_test::read_file(entry.path());
    const auto stream = ecq::encoded_stream::parse(ecq_test::as_bytes(file), ecq::every_coder());
    EXPECT_TRUE(stream) << entry.path();
    all["`stream/" + entry.path().filename().string() + "`"] = row_of(*stream);
  }
  const std::string file = "container/coded.safetensors";
  const auto container = ecq::container_reader::open(ecq_test::golden(file));
  EXPECT_TRUE(container);
  for (std::size_t index = 0; index < container->blocks().size(); ++index) {
    const auto block = container->load(index);
    EXPECT_TRUE(block);
    const auto stream = ecq::encoded_stream::parse(block->stream, ecq::every_coder());
    EXPECT_TRUE(stream);
    all["`" + file + "`, `" + ecq::stream_tensor_name(container->blocks()[index].name) + "`"] = row_of(*stream);
  }
  return all;
}

/// Returns the lines "| name | n | numbers | hash |" below the heading.
rows of_the_document() {
  std::ifstream document(ecq_test::source_folder() / "docs" / "format.md");
  EXPECT_TRUE(document);
  rows all;
  std::string line;
  while (std::getline(document, line) && line != "### Golden streams") {
  }
  while (std::getline(document, line) && !line.starts_with("#")) {
    if (!line.starts_with("| `")) continue;
    std::vector<std::string> cells;
    for (std::size_t at = 2; at < line.size();) {
      const std::size_t end = line.find(" |", at);
      if (end == std::string::npos) break;
      cells.push_back(line.substr(at, end - at));
      at = end + 3;
    }
    EXPECT_EQ(cells.size(), 4U) << line;
    const std::string name = cells.front();
    cells.erase(cells.begin());
    EXPECT_TRUE(all.emplace(name, std::move(cells)).second) << name << " is there twice";
  }
  return all;
}

TEST(GoldenHashes, AreThoseOfTheDocument) {
  const rows expected = of_all_streams();
  const rows found = of_the_document();
  EXPECT_GT(expected.size(), 30U);
  for (const auto& [name, cells] : expected) {
    std::string line = "| " + name;
    for (const std::string& cell : cells) line += " | " + cell;
    const auto row = found.find(name);
    EXPECT_TRUE(row != found.end() && row->second == cells) << "docs/format.md needs:\n" << line << " |";
  }
  EXPECT_EQ(found.size(), expected.size());
}

}  // namespace
