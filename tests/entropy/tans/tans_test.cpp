#include "ecq/entropy/tans/tans.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "ecq/analysis/code_statistics.hpp"
#include "support/coded_chunk.hpp"
#include "support/codes.hpp"

namespace {

using ecq_test::code_source;
using table = ecq::tans::table;

table table_for(std::span<const std::uint8_t> codes, unsigned bits, unsigned raw_bits = 0) {
  ecq::histogram coded;
  for (const std::uint8_t code : codes) ++coded.counts[code >> raw_bits];
  return {ecq::normalize_frequencies(coded, bits)};
}

using coded_chunk = ecq_test::coded_chunk<ecq::tans>;

struct table_case {
  std::string name;
  table with;
  ecq::split_map map;
  std::vector<std::uint8_t> codes;
};

std::vector<table_case> all_cases() {
  std::vector<table_case> cases;
  const auto add = [&](const char* name, std::vector<std::uint8_t> codes, unsigned bits, unsigned raw_bits) {
    cases.push_back({name, table_for(codes, bits, raw_bits), {raw_bits}, codes});
  };
  code_source source(3);
  add("one symbol", std::vector<std::uint8_t>(700, 255), 11, 0);
  add("one symbol, 4 raw bits", source.below(700, 16), 9, 4);
  add("two symbols", source.below(700, 2), 9, 0);
  std::vector<std::uint8_t> rare(5000, 0);
  rare[100] = rare[4000] = 255;
  add("one rare symbol", rare, 12, 0);
  add("bell", source.bell(5000, 5), 11, 0);
  add("bell, 3 raw bits", source.bell(5000, 31), 10, 3);
  add("256 symbols in 2^9", source.uniform(9000), 9, 0);
  add("256 symbols in 2^12", source.uniform(9000), 12, 0);
  return cases;
}

TEST(Tans, DecodesWhatItEncodedAtEveryLength) {
  for (const table_case& with : all_cases()) {
    const auto expect_round_trip = [&](std::span<const std::uint8_t> codes) {
      const auto [verdict, decoded] = coded_chunk(with.with, with.map, codes).decode(with.with, with.map);
      ASSERT_EQ(verdict, ecq::errc::ok) << with.name << ' ' << codes.size();
      for (std::size_t i = 0; i < codes.size(); ++i) {
        ASSERT_EQ(decoded[i], codes[i] >> with.map.bits << with.map.bits) << with.name << ' ' << codes.size();
      }
    };
    for (std::size_t size = 1; size <= 300; ++size) expect_round_trip(std::span(with.codes).subspan(size, size));
    expect_round_trip(with.codes);
  }
}

TEST(Tans, StaysWithinOnePercentOfTheEntropy) {
  constexpr std::size_t size = std::size_t{1} << 18;
  for (const unsigned spread : {0U, 1U, 2U, 5U, 14U, 31U}) {
    auto codes = code_source(spread).bell(size, spread);
    for (std::size_t i = 0; i < size; i += 100) codes[i] = 7;  // less than half a bit where nothing else varies
    const ecq::histogram counted = ecq::count_codes(ecq::cpu{}, codes).operator*();
    const auto plan = ecq::tans::plan(std::span(&counted, 1));
    const coded_chunk chunk(plan.tables[0], plan.map, codes);
    const double bits = plan.map.bits + 8.0 * static_cast<double>(chunk.words.size()) / static_cast<double>(size);
    EXPECT_LE(bits, 1.01 * ecq::analyse_codes(codes).entropy + 0.001) << spread;
  }
}

TEST(Tans, DamagedChunksAreRefusedOrDecoded) {
  for (const table_case& with : all_cases()) {
    const coded_chunk good(with.with, with.map, std::span(with.codes).first(333));
    const auto verdict = [&](const coded_chunk& chunk) { return chunk.decode(with.with, with.map).verdict; };
    for (auto part : {&coded_chunk::states, &coded_chunk::words}) {
      for (std::size_t bit = 0; bit < 8 * (good.*part).size(); ++bit) {
        coded_chunk bad = good;
        (bad.*part)[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
        verdict(bad);  // any verdict, but no access out of bounds
      }
    }
    for (std::size_t kept = 0; kept < good.words.size(); kept += 2) {
      coded_chunk bad = good;
      bad.words.resize(kept);
      ASSERT_EQ(verdict(bad), ecq::errc::corrupt) << with.name;
    }
    coded_chunk longer = good;
    longer.words.resize(longer.words.size() + 2);
    EXPECT_EQ(verdict(longer), ecq::errc::corrupt) << with.name;
    coded_chunk low = good;
    low.states[2] = low.states[3] = std::byte{0};
    EXPECT_EQ(verdict(low), ecq::errc::corrupt) << with.name;
    coded_chunk beyond = good;
    ecq::store_le(&beyond.states[128], static_cast<std::uint16_t>(with.with.states()));
    EXPECT_EQ(verdict(beyond), ecq::errc::corrupt) << with.name;
  }
}

TEST(TansTable, SpreadsEverySymbolOverItsStates) {
  for (const table_case& with : all_cases()) {
    std::vector<std::uint32_t> found(256);
    for (const std::uint8_t symbol : ecq::spread_symbols(with.with)) ++found[symbol];
    for (std::size_t i = 0; i < 256; ++i) EXPECT_EQ(found[i], with.with.frequencies.frequencies[i]) << with.name;
  }
}

TEST(TansTable, RecordsOfOtherMappingsAndSizesAreRefused) {
  for (const table_case& with : all_cases()) {
    std::vector<std::byte> good;
    with.with.append_to(good);
    const auto verdict = [&](std::size_t at, unsigned value) {
      std::vector<std::byte> record = good;
      record[at] = static_cast<std::byte>(value);
      std::size_t position = 0;
      const auto read = table::read(record, position, with.map);
      return read ? ecq::errc::ok : read.error().code();
    };
    EXPECT_EQ(verdict(0, 3), ecq::errc::ok);
    for (const unsigned mapping : {0U, 1U, 2U, 4U, 255U}) EXPECT_EQ(verdict(0, mapping), ecq::errc::unsupported);
    for (unsigned bits = 0; bits < 256; ++bits) {
      EXPECT_EQ(verdict(1, bits), bits == with.with.bits() ? ecq::errc::ok : ecq::errc::corrupt) << bits;
    }
    std::size_t position = 0;
    EXPECT_FALSE(ecq::rans_table::read(good, position, with.map));
  }
}

}  // namespace
