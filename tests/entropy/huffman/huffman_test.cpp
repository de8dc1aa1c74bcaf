#include "ecq/entropy/huffman/huffman.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "support/coded_chunk.hpp"
#include "support/codes.hpp"

namespace {

using ecq_test::code_source;
using table = ecq::huffman::table;

ecq::histogram count(std::span<const std::uint8_t> codes, unsigned raw_bits = 0) {
  ecq::histogram coded;
  for (const std::uint8_t code : codes) ++coded.counts[code >> raw_bits];
  return coded;
}

table table_for(const ecq::histogram& coded, unsigned limit = table::limit) {
  return table::of(coded, ecq::limited_code_lengths(coded, limit));
}

using coded_chunk = ecq_test::coded_chunk<ecq::huffman>;

// Decodes by both kinds of look-up tables, which must agree.
ecq_test::decoded_chunk decode(const coded_chunk& chunk, const table& code, ecq::split_map map) {
  auto wide = chunk.decode(ecq::huffman::lut_decoder<ecq::huffman_wide>(code, map));
  const auto cascade = chunk.decode(ecq::huffman::lut_decoder<ecq::huffman_cascade>(code, map));
  EXPECT_EQ(wide.verdict, cascade.verdict);
  if (wide.verdict == ecq::errc::ok) {
    EXPECT_EQ(wide.codes, cascade.codes);
  }
  return wide;
}

struct table_case {
  std::string name;
  table code;
  ecq::split_map map;
  std::vector<std::uint8_t> codes;  ///< contain each symbol of the table
};

// Fibonacci counts give the longest code words. Symbols ascend from `first`, or descend from it if `down`.
table_case fibonacci(const char* name, unsigned symbols, unsigned limit, unsigned first, bool down) {
  ecq::histogram coded;
  std::vector<std::uint8_t> codes;
  std::uint64_t a = 1;
  std::uint64_t b = 1;
  for (unsigned i = 0; i < symbols; ++i) {
    const auto symbol = static_cast<std::uint8_t>(down ? first - i : first + i);
    coded.counts[symbol] = a;
    codes.insert(codes.end(), static_cast<std::size_t>((std::min)(a, std::uint64_t{3000})), symbol);
    b += a;
    std::swap(a, b);
  }
  code_source random(symbols);
  for (std::size_t i = codes.size() - 1; i > 0; --i) std::swap(codes[i], codes[random.next() % (i + 1)]);
  return {name, table_for(coded, limit), {0}, codes};
}

std::vector<table_case> all_cases() {
  std::vector<table_case> cases;
  const auto add = [&](const char* name, std::vector<std::uint8_t> codes, unsigned raw_bits) {
    cases.push_back({name, table_for(count(codes, raw_bits)), {raw_bits}, codes});
  };
  code_source source(3);
  add("one symbol", std::vector<std::uint8_t>(700, 255), 0);
  add("one symbol, 4 raw bits", source.below(700, 16), 4);
  add("two symbols", source.below(700, 2), 0);
  add("bell", source.bell(5000, 12), 0);
  add("bell, 3 raw bits", source.bell(5000, 31), 3);
  add("256 symbols", source.uniform(9000), 0);
  cases.push_back(fibonacci("17 symbols, 16 bits", 17, 16, 0, false));
  cases.push_back(fibonacci("60 symbols cut to 16 bits", 60, 16, 100, false));
  cases.push_back(fibonacci("60 symbols cut to 9 bits", 60, 9, 255, true));
  // The papers' tables have their pointers in the place of the exponents from 240 on, which include infinity and NaN.
  cases.push_back(fibonacci("all exponents", 256, 16, 255, true));
  return cases;
}

TEST(Huffman, DecodesWhatItEncodedAtEveryLength) {
  for (const table_case& with : all_cases()) {
    for (std::size_t size = 1; size <= 300; ++size) {
      const std::span<const std::uint8_t> codes = std::span(with.codes).subspan(size, size);
      const auto [verdict, decoded] = decode({with.code, with.map, codes}, with.code, with.map);
      ASSERT_EQ(verdict, ecq::errc::ok) << with.name << ' ' << size;
      for (std::size_t i = 0; i < size; ++i) ASSERT_EQ(decoded[i], codes[i] >> with.map.bits << with.map.bits);
    }
    const auto [verdict, decoded] = decode({with.code, with.map, with.codes}, with.code, with.map);
    ASSERT_EQ(verdict, ecq::errc::ok) << with.name;
    for (std::size_t i = 0; i < with.codes.size(); ++i) {
      ASSERT_EQ(decoded[i], with.codes[i] >> with.map.bits << with.map.bits);
    }
  }
}

// Words hold the bits of all code words but those that stay in the states: 0 to 15 bits of each lane.
TEST(Huffman, TakesTheBitsOfItsCode) {
  for (const table_case& with : all_cases()) {
    std::uint64_t bits = 0;
    for (const std::uint8_t code : with.codes) {
      const auto* const end = with.code.symbols.data() + with.code.count;
      const auto* const at = std::find(with.code.symbols.data(), end, code >> with.map.bits);
      ASSERT_NE(at, end);
      bits += with.code.lengths[static_cast<std::size_t>(at - with.code.symbols.data())];
    }
    const std::uint64_t coded = 8 * coded_chunk(with.code, with.map, with.codes).words.size();
    EXPECT_LE(coded, bits) << with.name;
    EXPECT_LT(bits, coded + 16 * ecq::lane_count) << with.name;
  }
}

TEST(Huffman, DamagedChunksAreRefusedOrDecodedTheSameByBothTables) {
  for (const table_case& with : all_cases()) {
    const coded_chunk good(with.code, with.map, std::span(with.codes).first(333));
    for (auto part : {&coded_chunk::states, &coded_chunk::words}) {
      for (std::size_t bit = 0; bit < 8 * (good.*part).size(); ++bit) {
        coded_chunk bad = good;
        (bad.*part)[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
        decode(bad, with.code, with.map);
      }
    }
    for (std::size_t kept = 0; kept < good.words.size(); kept += 2) {
      coded_chunk bad = good;
      bad.words.resize(kept);
      ASSERT_EQ(decode(bad, with.code, with.map).verdict, ecq::errc::corrupt) << with.name;
    }
    coded_chunk longer = good;
    longer.words.resize(longer.words.size() + 2);
    EXPECT_EQ(decode(longer, with.code, with.map).verdict, ecq::errc::corrupt) << with.name;
    coded_chunk low = good;
    low.states[2] = low.states[3] = std::byte{0};
    EXPECT_EQ(decode(low, with.code, with.map).verdict, ecq::errc::corrupt) << with.name;
  }
}

TEST(HuffmanTable, RecordsThatLieAreRefused) {
  for (const table_case& with : all_cases()) {
    std::vector<std::byte> good;
    with.code.append_to(good);
    ASSERT_EQ(good.size(), table::record_bytes(with.code.count));
    for (std::size_t at = 0; at < good.size(); ++at) {
      for (const unsigned wrong : {0U, 1U, 2U, 3U, 8U, 15U, 16U, 17U, 64U, 255U}) {
        if (good[at] == static_cast<std::byte>(wrong)) continue;
        std::vector<std::byte> bad = good;
        bad[at] = static_cast<std::byte>(wrong);
        std::size_t position = 0;
        const auto read = table::read(bad, position, with.map);
        if (!read) continue;
        // Another symbol in ascending order, or a shorter table, is as valid as the original.
        ASSERT_TRUE((at >= 4 && at < 4 + with.code.count) || at == 2) << with.name << ' ' << at << ' ' << wrong;
      }
    }
    for (std::size_t length = 0; length < good.size(); ++length) {
      std::size_t position = 0;
      const auto read = table::read(std::span(good).first(length), position, with.map);
      ASSERT_FALSE(read);
      EXPECT_EQ(read.error().code(), ecq::errc::truncated);
    }
  }
}

TEST(HuffmanTable, LengthsMustFillTheCodeSpace) {
  const auto verdict = [](std::vector<std::uint8_t> record) {
    const auto bytes = std::as_bytes(std::span(record));
    std::size_t position = 0;
    const auto read = table::read(bytes, position, {0});
    return read ? ecq::errc::ok : read.error().code();
  };
  EXPECT_EQ(verdict({2, 1, 2, 0, 5, 9, 1, 1}), ecq::errc::ok);
  EXPECT_EQ(verdict({2, 2, 2, 0, 5, 9, 1, 2}), ecq::errc::corrupt);         // Kraft sum 3/4
  EXPECT_EQ(verdict({2, 1, 3, 0, 5, 9, 11, 1, 1, 1}), ecq::errc::corrupt);  // Kraft sum 3/2
  EXPECT_EQ(verdict({2, 0, 2, 0, 5, 9, 0, 0}), ecq::errc::corrupt);         // two symbols of no bits
  EXPECT_EQ(verdict({2, 1, 1, 0, 5, 1}), ecq::errc::corrupt);               // one symbol of one bit
  EXPECT_EQ(verdict({2, 17, 2, 0, 5, 9, 17, 17}), ecq::errc::corrupt);      // too long
  EXPECT_EQ(verdict({2, 255, 2, 0, 5, 9, 1, 255}), ecq::errc::corrupt);     // far too long
  EXPECT_EQ(verdict({2, 2, 2, 0, 5, 9, 1, 1}), ecq::errc::corrupt);         // wrong longest length
  EXPECT_EQ(verdict({2, 1, 2, 0, 9, 9, 1, 1}), ecq::errc::corrupt);         // symbols do not ascend
  EXPECT_EQ(verdict({2, 0, 0, 0}), ecq::errc::corrupt);                     // no symbols
  EXPECT_EQ(verdict({1, 1, 2, 0, 5, 9, 1, 1}), ecq::errc::unsupported);     // unknown mapping
}

TEST(HuffmanCascade, NeedsFewTables) {
  // 256 symbols of up to 32 bits: every chain of pointers ends at a symbol.
  ecq::histogram coded;
  std::uint64_t weight = 1;
  for (std::size_t symbol = 0; symbol < 256; ++symbol) {
    coded.counts[symbol] = weight;
    if (symbol % 8 == 7) weight *= 2;
  }
  const auto code = ecq::huffman_table<32>::of(coded, ecq::limited_code_lengths(coded, 32));
  EXPECT_GT(code.longest, 24U);
  const ecq::huffman_cascade cascade(code);
  const ecq::huffman_wide wide(code);
  EXPECT_LE(cascade.tables(), 385U);
  for (unsigned i = 0; i < code.count; ++i) {
    for (const std::uint32_t rest : {0U, ~0U}) {
      const std::uint32_t window = code.words[i] | (code.lengths[i] < 32 ? rest << code.lengths[i] : 0U);
      const unsigned entry = cascade.view().look_up(window);
      EXPECT_EQ(ecq::huffman_entry::value(entry), code.symbols[i]);
      EXPECT_EQ(ecq::huffman_entry::length(entry), code.lengths[i]);
      EXPECT_EQ(wide.view().look_up(window), entry);
    }
  }
}

}  // namespace
