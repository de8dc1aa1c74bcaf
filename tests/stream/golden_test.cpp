// Committed streams: this version writes them byte for byte, and every later version must read them. With
// ECQ_UPDATE_GOLDEN=1 in the environment, the tests write them anew, for a new format version.

#include <gtest/gtest.h>

#include <bit>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "ecq/stream/encoded_stream.hpp"
#include "stream/format_decoder.hpp"
#include "support/codes.hpp"
#include "support/files.hpp"

namespace {

using ecq_test::code_source;

const std::filesystem::path tests_directory = ecq_test::golden("").parent_path().parent_path();

struct golden {
  std::string name;
  std::vector<std::uint8_t> codes;
  unsigned chunk_bits = 13;
  std::vector<std::uint16_t> classes = {};
  bool stored = false;
};

std::vector<golden> all_golden() {
  std::vector<golden> all;
  std::vector<std::uint8_t> zeros(600);
  for (std::size_t i = 0; i < zeros.size(); ++i) zeros[i] = static_cast<std::uint8_t>(100 + std::countr_zero(i + 1));
  all.push_back({.name = "trailing_zeros", .codes = zeros});
  all.push_back({.name = "empty", .codes = {}});
  all.push_back({.name = "constant", .codes = std::vector<std::uint8_t>(1500, 77), .chunk_bits = 10});
  auto fifty = code_source(1).below(6000, 50);
  for (std::size_t i = 0; i < fifty.size(); ++i) {
    fifty[i] = i % 4 == 0 ? static_cast<std::uint8_t>(5 * fifty[i]) : std::uint8_t{0};
  }
  all.push_back({.name = "alias64", .codes = fifty, .chunk_bits = 12});
  all.push_back({.name = "split", .codes = code_source(2).bell(3001, 30), .chunk_bits = 11});
  auto sparse = code_source(3).uniform(12'000);
  for (std::size_t i = 0; i < sparse.size(); ++i) sparse[i] = i % 4 == 0 ? sparse[i] : std::uint8_t{0};
  all.push_back({.name = "direct", .codes = sparse});
  all.push_back({.name = "stored", .codes = code_source(4).uniform(1111), .chunk_bits = 10, .stored = true});
  golden tables{.name = "two_tables", .codes = code_source(5).bell(2048, 1), .chunk_bits = 10, .classes = {9, 9, 4, 9}};
  for (const std::uint8_t code : code_source(5).bell(1024, 8)) tables.codes.push_back(code);
  for (const std::uint8_t code : code_source(6).bell(1000, 1)) tables.codes.push_back(code);
  all.push_back(tables);
  return all;
}

std::filesystem::path file_of(const golden& example) {
  return tests_directory / "golden" / "stream" / (example.name + ".ecqs");
}

std::vector<std::byte> read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path;
  const std::vector<char> chars{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const auto bytes = std::as_bytes(std::span(chars));
  return {bytes.begin(), bytes.end()};
}

TEST(Golden, StreamsAreWrittenByteForByte) {
  for (const golden& example : all_golden()) {
    const auto blob = ecq::encode_stream(ecq::cpu{}, example.codes,
                                         {.chunk_bits = example.chunk_bits, .class_of_chunk = example.classes});
    ASSERT_TRUE(blob) << blob.error().to_string();
    if (std::getenv("ECQ_UPDATE_GOLDEN") != nullptr) {
      std::ofstream(file_of(example), std::ios::binary)
          .write(reinterpret_cast<const char*>(blob->data()), static_cast<std::streamsize>(blob->size()));
    }
    EXPECT_EQ(*blob, read_file(file_of(example))) << example.name;
  }
}

TEST(Golden, StreamsAreReadByTheLibrary) {
  for (const golden& example : all_golden()) {
    const auto bytes = read_file(file_of(example));
    const auto stream = ecq::encoded_stream::parse(bytes);
    ASSERT_TRUE(stream) << example.name << ": " << stream.error().to_string();
    std::vector<std::uint8_t> codes(static_cast<std::size_t>(stream->size()));
    const auto done = ecq::decode_stream(ecq::cpu{}, *stream, 0, codes);
    ASSERT_TRUE(done) << example.name << ": " << done.error().to_string();
    EXPECT_EQ(codes, example.codes) << example.name;
    EXPECT_EQ(stream->coder() == ecq::coder_id::raw, example.stored || example.codes.empty()) << example.name;
  }
}

// Together the files hold every kind of table.
TEST(Golden, StreamsCoverTheFormat) {
  std::vector<std::string> kinds;
  for (const golden& example : all_golden()) {
    const auto bytes = read_file(file_of(example));
    const auto stream = ecq::encoded_stream::parse(bytes);
    ASSERT_TRUE(stream);
    std::string kind = "raw";
    if (stream->coder() == ecq::coder_id::rans) {
      const auto table = stream->table<ecq::rans>(0);
      kind = table.frequencies.count == 1                 ? "constant"
             : table.mapping == ecq::slot_mapping::direct ? "direct"
             : table.bucket_bits == 5                     ? "alias32"
                                                          : "alias64";
      kind += stream->map().bits != 0 ? " split" : "";
    }
    kinds.push_back(kind + (stream->table_count() > 1 ? ", tables" : ""));
  }
  EXPECT_EQ(kinds, (std::vector<std::string>{"alias32 split", "raw", "constant", "alias64", "alias32 split", "direct",
                                             "raw", "alias32, tables"}));
}

TEST(Golden, StreamsAreReadByTheDecoderOfTheDocument) {
  for (const golden& example : all_golden()) {
    EXPECT_EQ(ecq_test::format_decoder(read_file(file_of(example))).decode(), example.codes) << example.name;
  }
}

// Reads the lines "offset: 16 bytes in hex" below the heading; bytes that no line gives are zero.
TEST(Golden, TheDocumentShowsTheBytes) {
  const auto expected = read_file(tests_directory / "golden" / "stream" / "trailing_zeros.ecqs");
  std::ifstream document(tests_directory.parent_path() / "docs" / "format.md");
  ASSERT_TRUE(document);
  std::vector<std::byte> shown(expected.size());
  std::string line;
  while (std::getline(document, line) && line != "### Test vector") {
  }
  while (std::getline(document, line) && line.rfind("## ", 0) != 0) {
    if (line.size() < 10 || line.compare(0, 4, "    ") != 0 || line[8] != ':') continue;
    const std::size_t offset = std::stoul(line.substr(4, 4), nullptr, 16);
    for (std::size_t i = 0; 10 + 3 * i < line.size(); ++i) {
      ASSERT_LT(offset + i, shown.size());
      shown[offset + i] = static_cast<std::byte>(std::stoul(line.substr(10 + 3 * i, 2), nullptr, 16));
    }
  }
  EXPECT_EQ(shown, expected);
}

}  // namespace
