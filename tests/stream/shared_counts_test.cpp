// Streams that share one code: their tables are made for given counts.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ecq/stream/encoded_stream.hpp"
#include "support/codes.hpp"
#include "support/policies.hpp"

namespace {

using ecq::cpu;
using ecq::errc;
using ecq::histogram;
using ecq_test::code_source;

histogram counts_of(const std::vector<std::uint8_t>& codes) {
  histogram counts;
  counts.add(codes);
  return counts;
}

std::vector<std::byte> tables_of(const ecq::encoded_stream& stream) {
  const auto section = stream.header().bytes_of(stream.bytes(), ecq::section_kind::tables);
  return {section.begin(), section.end()};
}

template <class Coder>
class SharedCounts : public testing::Test {};
TYPED_TEST_SUITE(SharedCounts, ecq_test::all_coders, ecq_test::policy_names);

TYPED_TEST(SharedCounts, GiveAllStreamsTheSameTable) {
  // The parts differ much in spread; the joint counts, and so the table, hold all of them.
  std::vector<std::vector<std::uint8_t>> parts = {code_source(1).bell(40'000, 9), code_source(2).bell(3000, 2),
                                                  code_source(3).bell(1, 9), std::vector<std::uint8_t>(20'000, 130)};
  histogram joint;
  for (const auto& part : parts) joint += counts_of(part);
  std::vector<std::byte> tables;
  for (const auto& part : parts) {
    const auto blob = ecq::encode_stream<TypeParam>(cpu{.threads = 2}, part, {.shared_counts = &joint});
    ASSERT_TRUE(blob) << blob.error().to_string();
    EXPECT_LT(blob->capacity(), 2 * blob->size() + 4096);  // memory of the one stream, not of all that share
    const auto stream = ecq::encoded_stream::parse(*blob);
    ASSERT_TRUE(stream);
    std::vector<std::uint8_t> decoded(part.size());
    ASSERT_TRUE(ecq::decode_stream(cpu{}, *stream, 0, decoded));
    EXPECT_EQ(decoded, part);
    if (stream->coder() == ecq::coder_id::raw) continue;  // too few codes for a table
    if (tables.empty()) tables = tables_of(*stream);
    EXPECT_EQ(tables_of(*stream), tables);
  }
  EXPECT_EQ(tables.empty(), TypeParam::id == ecq::coder_id::raw);
}

// In pairs, the list has the symbols that the counts make likely, and streams may have all that they make possible.
TYPED_TEST(SharedCounts, GivePairsTheSameTableAndList) {
  for (const unsigned spread : {2U, 9U}) {  // 9 values, or 37 with some that are escaped
    std::vector<std::vector<std::uint8_t>> parts = {code_source(1).bell(40'001, spread), code_source(2).bell(6000, 1),
                                                    std::vector<std::uint8_t>(20'001, 127)};
    histogram joint;
    for (const auto& part : parts) joint += counts_of(part);
    std::vector<std::byte> tables;
    ecq::nibble_list list;
    for (const auto& part : parts) {
      const auto blob =
          ecq::encode_stream<TypeParam>(cpu{.threads = 2}, part, {.shared_counts = &joint, .pairs = true});
      ASSERT_TRUE(blob) << blob.error().to_string();
      const auto stream = ecq::encoded_stream::parse(*blob);
      ASSERT_TRUE(stream);
      EXPECT_EQ(stream->pairs(), TypeParam::id != ecq::coder_id::raw);
      std::vector<std::uint8_t> decoded(part.size());
      ASSERT_TRUE(ecq::decode_stream(cpu{}, *stream, 0, decoded));
      EXPECT_EQ(decoded, part);
      if (tables.empty()) tables = tables_of(*stream), list = stream->nibbles();
      EXPECT_EQ(tables_of(*stream), tables);
      EXPECT_EQ(stream->nibbles(), list);
    }
    histogram lacking = joint;
    lacking.counts[127] = 0;
    EXPECT_FALSE(ecq::encode_stream<TypeParam>(cpu{}, parts[0], {.shared_counts = &lacking, .pairs = true}));
  }
}

TYPED_TEST(SharedCounts, OfTheCodesThemselvesChangeNothing) {
  for (const auto& codes : {code_source(4).bell(70'000, 11), std::vector<std::uint8_t>(500, 7)}) {
    const histogram own = counts_of(codes);
    const auto plain = ecq::encode_stream<TypeParam>(cpu{}, codes);
    const auto shared = ecq::encode_stream<TypeParam>(cpu{}, codes, {.shared_counts = &own});
    ASSERT_TRUE(plain && shared);
    EXPECT_EQ(*plain, *shared);
  }
  EXPECT_TRUE(ecq::encode_stream<TypeParam>(cpu{}, {}, {.shared_counts = nullptr}));
  const histogram none;
  EXPECT_TRUE(ecq::encode_stream<TypeParam>(cpu{}, {}, {.shared_counts = &none}));
}

TYPED_TEST(SharedCounts, ThatLackACodeAreRefused) {
  const auto codes = code_source(5).bell(5000, 6);
  histogram lacking = counts_of(codes);
  lacking.counts[131] = 0;
  const auto blob = ecq::encode_stream<TypeParam>(cpu{}, codes, {.shared_counts = &lacking});
  ASSERT_FALSE(blob);
  EXPECT_EQ(blob.error().code(), errc::invalid_argument);
  EXPECT_NE(blob.error().message().find("code 131"), std::string::npos);
}

TEST(SharedCountsOptions, AreChecked) {
  const auto codes = code_source(6).bell(5000, 6);
  histogram counts = counts_of(codes);
  const std::vector<std::uint16_t> classes = {0, 1, 0, 1, 0};
  EXPECT_EQ(ecq::encode_stream(cpu{}, codes, {.chunk_bits = 10, .class_of_chunk = classes, .shared_counts = &counts})
                .error()
                .code(),
            errc::invalid_argument);
  counts.counts[3] = ~std::uint64_t{0};
  EXPECT_EQ(ecq::encode_stream(cpu{}, codes, {.shared_counts = &counts}).error().code(), errc::limit_exceeded);
  counts.counts.fill(std::uint64_t{1} << 43);
  EXPECT_EQ(ecq::encode_stream(cpu{}, codes, {.shared_counts = &counts}).error().code(), errc::limit_exceeded);
  counts = counts_of(codes);
  const auto smallest = ecq::encode_stream<ecq::smallest_any>(cpu{}, codes, {.shared_counts = &counts});
  ASSERT_TRUE(smallest);
  EXPECT_LE(smallest->size(), ecq::encode_stream<ecq::huffman>(cpu{}, codes, {.shared_counts = &counts})->size());
}

TEST(SharedCountsOptions, CountExponentsOfWeights) {
  const auto bytes = code_source(7).bell(8000, 3);
  const auto elements = std::as_bytes(std::span(bytes));
  const auto counts = ecq::count_exponents(cpu{}, ecq::dtype::bf16, elements);
  ASSERT_TRUE(counts);
  EXPECT_EQ(*ecq::encode_exponents<ecq::huffman>(cpu{}, ecq::dtype::bf16, elements, {.shared_counts = &*counts}),
            *ecq::encode_exponents<ecq::huffman>(cpu{}, ecq::dtype::bf16, elements));
  const histogram none;
  EXPECT_FALSE(ecq::encode_exponents<ecq::huffman>(cpu{}, ecq::dtype::bf16, elements, {.shared_counts = &none}));
}

}  // namespace
