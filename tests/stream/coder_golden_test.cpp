// Committed streams of the coders other than rANS (see golden_test.cpp): this version writes them byte for byte, and
// every later version must read them. With ECQ_UPDATE_GOLDEN=1 in the environment, the tests write them anew, for a new
// format version.

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "ecq/stream/encoded_stream.hpp"
#include "stream/format_decoder.hpp"
#include "support/codes.hpp"
#include "support/files.hpp"

namespace {

using ecq_test::code_source;

struct golden {
  std::string name;
  std::vector<std::uint8_t> codes;
  ecq::stream_options options = {};
};

const std::vector<std::uint16_t> classes = {7, 2, 7};

std::vector<golden> all_golden() {
  std::vector<golden> all;
  std::vector<std::uint8_t> two_tables = code_source(11).bell(1024, 1);
  for (const std::uint8_t code : code_source(12).bell(1024, 8)) two_tables.push_back(code);
  for (const std::uint8_t code : code_source(13).bell(300, 1)) two_tables.push_back(code);
  all.push_back({"two_tables", two_tables, {.chunk_bits = 10, .class_of_chunk = classes}});
  all.push_back({"split", code_source(14).bell(9000, 30), {.chunk_bits = 14}});
  // Shares halve from symbol to symbol, which gives the longest code words and the rarest states.
  std::vector<std::uint8_t> halving;
  for (unsigned symbol = 0; symbol < 11; ++symbol)
    halving.insert(halving.end(), 2048U >> symbol, static_cast<std::uint8_t>(symbol * 21));
  code_source random(15);
  for (std::size_t i = halving.size() - 1; i > 0; --i) std::swap(halving[i], halving[random.next() % (i + 1)]);
  all.push_back({"halving", halving, {.chunk_bits = 12}});
  all.push_back({"constant", std::vector<std::uint8_t>(1500, 77), {.chunk_bits = 10}});
  // Fibonacci shares give code words of 16 bits, and gap arrays of two stretches.
  std::vector<std::uint8_t> deep;
  for (std::size_t symbol = 0, count = 1, next = 1; symbol < 19; ++symbol) {
    deep.insert(deep.end(), count, static_cast<std::uint8_t>(symbol * 13));
    next += std::exchange(count, next);
  }
  for (std::size_t i = deep.size() - 1; i > 0; --i) std::swap(deep[i], deep[random.next() % (i + 1)]);
  all.push_back({"deep", deep, {.chunk_bits = 14}});
  return all;
}

ecq::result<std::vector<std::byte>> encode(ecq::coder_id id, const golden& example) {
  std::vector<std::byte> blob;
  ECQ_CHECK(ecq::with_coder(id, [&]<class Coder>(Coder) -> ecq::result<void> {
    ECQ_TRY(encoded, ecq::encode_stream<Coder>(ecq::cpu{}, example.codes, example.options));
    blob = encoded;
    return {};
  }));
  return blob;
}

class CoderGolden : public testing::TestWithParam<std::pair<ecq::coder_id, const char*>> {};

TEST_P(CoderGolden, StreamsAreWrittenByteForByteAndReadByBothDecoders) {
  const auto [id, name] = GetParam();
  for (const golden& example : all_golden()) {
    const auto path = ecq_test::golden("stream/" + std::string(name) + "_" + example.name + ".ecqs");
    const auto blob = encode(id, example);
    ASSERT_TRUE(blob) << blob.error().to_string();
    if (std::getenv("ECQ_UPDATE_GOLDEN") != nullptr) {
      std::ofstream(path, std::ios::binary)
          .write(reinterpret_cast<const char*>(blob->data()), static_cast<std::streamsize>(blob->size()));
    }
    std::ifstream file(path, std::ios::binary);
    ASSERT_TRUE(file) << path;
    const std::vector<char> chars{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    const auto bytes = std::as_bytes(std::span(chars));
    ASSERT_EQ(*blob, std::vector<std::byte>(bytes.begin(), bytes.end())) << path;
    const auto stream = ecq::encoded_stream::parse(bytes);
    ASSERT_TRUE(stream) << path << ": " << stream.error().to_string();
    EXPECT_EQ(stream->coder(), id) << path;
    std::vector<std::uint8_t> codes(static_cast<std::size_t>(stream->size()));
    const auto done = ecq::decode_stream(ecq::cpu{}, *stream, 0, codes);
    ASSERT_TRUE(done) << path << ": " << done.error().to_string();
    EXPECT_EQ(codes, example.codes) << path;
    EXPECT_EQ(ecq_test::format_decoder(bytes).decode(), example.codes) << path;
  }
}

INSTANTIATE_TEST_SUITE_P(All, CoderGolden,
                         testing::Values(std::pair{ecq::coder_id::huffman_gaps, "gaps"},
                                         std::pair{ecq::coder_id::tans, "tans"},
                                         std::pair{ecq::coder_id::huffman, "huffman"}),
                         [](const auto& of) { return std::string(of.param.second); });

}  // namespace
