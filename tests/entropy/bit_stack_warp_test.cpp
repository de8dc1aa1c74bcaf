#include "ecq/entropy/bit_stack_warp.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "ecq/entropy/huffman.hpp"
#include "ecq/stream/bit_io.hpp"
#include "ecq/stream/host_warp.hpp"
#include "support/codes.hpp"

namespace {

using ecq_test::code_source;
using outcome = std::pair<ecq::errc, std::vector<std::uint8_t>>;

outcome by_warp(ecq::huffman, const ecq::huffman::table& code, ecq::split_map, const ecq::warp_chunk& chunk) {
  std::vector<std::uint8_t> out(chunk.symbols);
  const ecq::huffman_cascade cascade(code);
  const ecq::errc verdict = ecq::huffman_decode_by_warp<ecq::host_warp>(
      {cascade.view(), code.longest > 8}, chunk,
      ecq::warp_code_sink<ecq::host_warp>{chunk.raw, chunk.raw_bits, out.data()});
  return {verdict, out};
}

outcome by_warp(ecq::tans, const ecq::tans::table& frequencies, ecq::split_map map, const ecq::warp_chunk& chunk) {
  std::vector<std::uint8_t> out(chunk.symbols);
  const auto entries = ecq::tans_warp_entries(ecq::tans::decoder(frequencies, map));
  const ecq::errc verdict = ecq::tans_decode_by_warp<ecq::host_warp>(
      {entries.data(), frequencies.states()}, chunk,
      ecq::warp_code_sink<ecq::host_warp>{chunk.raw, chunk.raw_bits, out.data()});
  return {verdict, out};
}

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
    const outcome warp =
        by_warp(Coder{}, table, map, {states.data(), words.data(), raw.data(), word_count, symbols, map.bits});
    EXPECT_EQ(verdict, warp.first);
    if (verdict == ecq::errc::ok) {
      EXPECT_EQ(out, warp.second);
    }
    return {verdict, out};
  }
};

template <class Coder>
void expect_that_warp_and_scalar_agree() {
  for (const unsigned spread : {1U, 5U, 31U}) {
    const auto all = code_source(spread).bell(70001, spread);
    ecq::histogram counted;
    counted.add(all);
    const auto plan = Coder::plan(std::span(&counted, 1));
    const auto& table = plan.tables[0];
    for (const std::size_t size : {1U, 2U, 3U, 4U, 5U, 31U, 127U, 128U, 129U, 255U, 300U, 70001U}) {
      const auto codes = std::span(all).first(size);
      const outcome got = coded_chunk<Coder>(table, plan.map, codes).decode(table, plan.map);
      ASSERT_EQ(got.first, ecq::errc::ok);
      ASSERT_TRUE(std::equal(codes.begin(), codes.end(), got.second.begin()));
    }
    const coded_chunk<Coder> good(table, plan.map, std::span(all).first(333));
    for (std::size_t bit = 0; bit < 8 * Coder::state_bytes; ++bit) {
      coded_chunk<Coder> bad = good;
      bad.states[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
      bad.decode(table, plan.map);
    }
    for (std::size_t bit = 0; bit < std::size_t{16} * good.word_count; ++bit) {
      coded_chunk<Coder> bad = good;
      bad.words[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
      bad.decode(table, plan.map);
    }
    for (std::uint32_t kept = 0; kept < good.word_count; ++kept) {
      coded_chunk<Coder> bad = good;
      bad.word_count = kept;
      EXPECT_EQ(bad.decode(table, plan.map).first, ecq::errc::corrupt);
    }
  }
}

TEST(HuffmanWarp, AgreesWithTheScalarDefinition) { expect_that_warp_and_scalar_agree<ecq::huffman>(); }

TEST(TansWarp, AgreesWithTheScalarDefinition) { expect_that_warp_and_scalar_agree<ecq::tans>(); }

}  // namespace
