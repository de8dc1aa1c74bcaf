#include "ecq/entropy/step_warp.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <span>
#include <type_traits>
#include <vector>

#include "support/coded_chunk.hpp"
#include "support/codes.hpp"
#include "support/decode_both_ways.hpp"
#include "support/recording_warp.hpp"
#include "support/word_ring.hpp"

namespace {

using ecq_test::code_source;
using ecq_test::coded_chunk;
using ecq_test::decode_both_ways;

// Decodes chunks of whole groups and chunks with a remainder, and chunks in which any bit of the states or words is
// changed or words are missing.
template <class Coder>
void expect_that_warp_and_scalar_agree(const typename Coder::table& table, ecq::split_map map,
                                       std::span<const std::uint8_t> all) {
  for (const std::size_t size : {1U, 2U, 3U, 4U, 5U, 31U, 127U, 128U, 129U, 255U, 300U, 9001U}) {
    const auto codes = all.first((std::min)(size, all.size()));
    const auto got = decode_both_ways(coded_chunk<Coder>(table, map, codes), table, map);
    ASSERT_EQ(got.verdict, ecq::errc::ok);
    ASSERT_TRUE(std::ranges::equal(codes, got.codes));
  }
  const coded_chunk<Coder> good(table, map, all.first((std::min)(std::size_t{333}, all.size())));
  for (std::size_t bit = 0; bit < 8 * Coder::state_bytes; ++bit) {
    coded_chunk<Coder> bad = good;
    bad.states[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    decode_both_ways(bad, table, map);
  }
  for (std::size_t bit = 0; bit < std::size_t{16} * good.word_count(); ++bit) {
    coded_chunk<Coder> bad = good;
    bad.words[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    decode_both_ways(bad, table, map);
  }
  for (std::size_t kept = 0; kept < good.word_count(); ++kept) {
    coded_chunk<Coder> bad = good;
    bad.words.resize(2 * kept);
    EXPECT_EQ(decode_both_ways(bad, table, map).verdict, ecq::errc::corrupt);
  }
}

template <class Coder>
class StepWarp : public testing::Test {};

using coders = testing::Types<ecq::rans, ecq::tans, ecq::huffman>;
TYPED_TEST_SUITE(StepWarp, coders, );

TYPED_TEST(StepWarp, AgreesWithTheScalarDefinition) {
  for (const unsigned spread : {0U, 1U, 5U, 15U, 31U}) {
    const auto codes = code_source(spread).bell(9001, spread);
    ecq::histogram counted;
    counted.add(codes);
    const auto plan = TypeParam::plan(std::span(&counted, 1));
    expect_that_warp_and_scalar_agree<TypeParam>(plan.tables[0], plan.map, codes);
  }
}

// The warp copies all words ahead, and nothing else but what shares 8 aligned bytes with them, even where there are
// fewer words than the states need.
TYPED_TEST(StepWarp, CopiesWordsOfTheChunkAlone) {
  using ecq_test::recording_warp;
  const auto codes = code_source(15).bell(9001, 15);
  ecq::histogram counted;
  counted.add(codes);
  const auto plan = TypeParam::plan(std::span(&counted, 1));
  std::vector<std::uint32_t> entries;
  const ecq::warp_table table = ecq::append_warp_table(plan.tables[0], plan.map, entries);
  for (const std::size_t size : {1U, 128U, 300U, 500U, 700U, 9001U}) {
    const coded_chunk<TypeParam> chunk(plan.tables[0], plan.map, std::span(codes).first(size));
    for (std::size_t place = 0; place < 8; place += 2) {
      std::vector<std::byte> words(place);
      words.insert(words.end(), chunk.words.begin(), chunk.words.end());
      words.resize(words.size() + ecq::stream_tail_bytes);
      for (const std::uint32_t count : {chunk.word_count(), chunk.word_count() / 2, 0U}) {
        recording_warp::copied.clear();
        const auto verdict = ecq::decode_chunk_by_warp<recording_warp>(
            table, entries.data(),
            ecq::warp_chunk{chunk.states.data(), words.data() + place, count, chunk.symbols, ecq_test::word_ring()},
            [](const ecq::host_lanes&, std::uint32_t, std::uint32_t) {});
        EXPECT_EQ(verdict == ecq::errc::ok, count == chunk.word_count());
        const std::size_t end = (place + std::size_t{2} * count + 7) / 8 * 8;
        std::set<const std::byte*> copied;
        for (const auto& each : recording_warp::copied) {
          ASSERT_TRUE(each.within(words.data(), words.data() + end)) << count << " words";
          copied.insert(each.first);
        }
        if (verdict == ecq::errc::ok) {
          EXPECT_EQ(8 * copied.size(), end);
        }
      }
    }
  }
}

// The rarest codes of the table: with rANS, every lane takes a word per step, 128 words per group.
TYPED_TEST(StepWarp, AgreesWhereGroupsTakeTheMostWords) {
  ecq::histogram counted;
  for (unsigned symbol = 0; symbol < 17; ++symbol) counted.counts[symbol] = std::uint64_t{1} << symbol;
  const auto plan = TypeParam::plan(std::span(&counted, 1));
  const std::vector<std::uint8_t> rarest(9001, 0);
  if constexpr (std::is_same_v<TypeParam, ecq::rans>) {
    const coded_chunk<TypeParam> chunk(plan.tables[0], plan.map, rarest);
    ASSERT_GE(chunk.word_count(), rarest.size() - 2 * ecq::lane_count);
  }
  expect_that_warp_and_scalar_agree<TypeParam>(plan.tables[0], plan.map, rarest);
}

TEST(StepWarp, AgreesForDirectTablesOfEverySize) {
  const auto codes = code_source(7).bell(9001, 12);
  ecq::histogram counted;
  counted.add(codes);
  for (unsigned bits = ecq::rans_table::min_direct_bits; bits <= ecq::rans_table::max_direct_bits; ++bits) {
    const ecq::rans_table table{.frequencies = ecq::normalize_frequencies(counted, bits)};
    expect_that_warp_and_scalar_agree<ecq::rans>(table, {0}, codes);
  }
}

// Frequencies that double from symbol to symbol give code words of every length up to the longest.
TEST(StepWarp, AgreesForCodeWordsOfEveryLength) {
  for (const unsigned symbols : {2U, 12U, 13U, 17U}) {
    std::vector<std::uint8_t> codes;
    for (unsigned symbol = 0; symbol < symbols; ++symbol) codes.push_back(static_cast<std::uint8_t>(symbol));
    for (std::size_t i = 0; i < 2000; ++i) codes.push_back(static_cast<std::uint8_t>(i * i % symbols));
    ecq::histogram counted;
    for (unsigned symbol = 0; symbol < symbols; ++symbol) counted.counts[symbol] = std::uint64_t{1} << symbol;
    const auto code = ecq::huffman::table::of(counted, ecq::limited_code_lengths(counted, ecq::huffman::table::limit));
    expect_that_warp_and_scalar_agree<ecq::huffman>(code, {0}, codes);
  }
}

}  // namespace
