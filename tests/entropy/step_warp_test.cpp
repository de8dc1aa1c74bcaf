#include "ecq/entropy/step_warp.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "ecq/stream/bit_io.hpp"
#include "support/codes.hpp"
#include "support/decode_by_warp.hpp"

namespace {

using ecq_test::code_source;
using outcome = std::pair<ecq::errc, std::vector<std::uint8_t>>;

template <class Coder>
struct coded_chunk {
  std::vector<std::byte> states = std::vector<std::byte>(Coder::state_bytes + ecq::stream_tail_bytes);
  std::vector<std::byte> words;
  std::vector<std::byte> raw;
  std::uint32_t word_count = 0;
  std::uint32_t symbols = 0;

  coded_chunk(const typename Coder::table& table, ecq::split_map map, std::span<const std::uint8_t> codes)
      : symbols(static_cast<std::uint32_t>(codes.size())) {
    std::vector<std::uint16_t> buffer(codes.size());
    word_count = static_cast<std::uint32_t>(typename Coder::encoder(table, map).encode(codes, states.data(), buffer));
    words.resize(2 * word_count + ecq::stream_tail_bytes);
    for (std::size_t i = 0; i < word_count; ++i) {
      ecq::store_le(&words[2 * i], buffer[buffer.size() - word_count + i]);
    }
    raw.resize(static_cast<std::size_t>(ecq::raw_bytes(codes.size(), map.bits)) + ecq::stream_tail_bytes);
    ecq::pack_raw_bits(map, codes, raw.data());
  }

  // The codes of the scalar definition and of the warp; both verdicts, and where they are good all codes, agree.
  outcome decode(const typename Coder::table& table, ecq::split_map map) const {
    std::vector<std::uint8_t> out(symbols);
    const ecq::errc verdict =
        typename Coder::decoder(table, map).decode({states.data(), words.data(), word_count, symbols}, out.data());
    ecq::merge_raw_bits(map, raw.data(), out);
    std::vector<std::byte> by_warp(symbols);
    const auto warp_verdict = ecq_test::decode_by_warp<ecq::byte_split>(
        Coder{}, table, map, {states.data(), words.data(), word_count, symbols}, {raw.data(), map.bits},
        by_warp.data());
    EXPECT_EQ(verdict, warp_verdict);
    if (verdict == ecq::errc::ok) {
      EXPECT_TRUE(std::ranges::equal(std::as_bytes(std::span(out)), by_warp));
    }
    return {verdict, out};
  }
};

// Whole chunks and chunks with a rest, and every bit and length of the coded bytes changed.
template <class Coder>
void expect_that_warp_and_scalar_agree(const typename Coder::table& table, ecq::split_map map,
                                       std::span<const std::uint8_t> all) {
  for (const std::size_t size : {1U, 2U, 3U, 4U, 5U, 31U, 127U, 128U, 129U, 255U, 300U, 9001U}) {
    const auto codes = all.first((std::min)(size, all.size()));
    const outcome got = coded_chunk<Coder>(table, map, codes).decode(table, map);
    ASSERT_EQ(got.first, ecq::errc::ok);
    ASSERT_TRUE(std::ranges::equal(codes, got.second));
  }
  const coded_chunk<Coder> good(table, map, all.first((std::min)(std::size_t{333}, all.size())));
  for (std::size_t bit = 0; bit < 8 * Coder::state_bytes; ++bit) {
    coded_chunk<Coder> bad = good;
    bad.states[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    bad.decode(table, map);
  }
  for (std::size_t bit = 0; bit < std::size_t{16} * good.word_count; ++bit) {
    coded_chunk<Coder> bad = good;
    bad.words[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    bad.decode(table, map);
  }
  for (std::uint32_t kept = 0; kept < good.word_count; ++kept) {
    coded_chunk<Coder> bad = good;
    bad.word_count = kept;
    EXPECT_EQ(bad.decode(table, map).first, ecq::errc::corrupt);
  }
}

template <class Coder>
class step_warp : public testing::Test {};

using coders = testing::Types<ecq::rans, ecq::tans, ecq::huffman>;
TYPED_TEST_SUITE(step_warp, coders, );

TYPED_TEST(step_warp, agrees_with_the_scalar_definition) {
  for (const unsigned spread : {0U, 1U, 5U, 15U, 31U}) {
    const auto codes = code_source(spread).bell(9001, spread);
    ecq::histogram counted;
    counted.add(codes);
    const auto plan = TypeParam::plan(std::span(&counted, 1));
    expect_that_warp_and_scalar_agree<TypeParam>(plan.tables[0], plan.map, codes);
  }
}

TEST(step_warp, agrees_for_direct_tables_of_every_size) {
  const auto codes = code_source(7).bell(9001, 12);
  ecq::histogram counted;
  counted.add(codes);
  for (unsigned bits = ecq::rans_table::min_direct_bits; bits <= ecq::rans_table::max_direct_bits; ++bits) {
    const ecq::rans_table table{.frequencies = ecq::normalize_frequencies(counted, bits)};
    expect_that_warp_and_scalar_agree<ecq::rans>(table, {0}, codes);
  }
}

// Frequencies that double from symbol to symbol give code words of every length up to the longest.
TEST(step_warp, agrees_for_code_words_of_every_length) {
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
