#include "ecq/entropy/rans/rans.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ecq/entropy/raw.hpp"
#include "support/coded_chunk.hpp"
#include "support/codes.hpp"
#include "support/decode_both_ways.hpp"

namespace {

using ecq_test::code_source;

using coded_chunk = ecq_test::coded_chunk<ecq::rans>;
using ecq_test::decode_both_ways;

struct table_case {
  std::string name;
  ecq::rans_table table;
  ecq::split_map map;
  unsigned spread;
};

ecq::rans_table table_for(std::span<const std::uint8_t> codes, ecq::slot_mapping mapping, unsigned bits,
                          unsigned raw_bits) {
  ecq::histogram coded;
  for (const std::uint8_t code : codes) ++coded.counts[code >> raw_bits];
  const bool alias = mapping == ecq::slot_mapping::alias;
  return {.mapping = mapping,
          .bucket_bits = alias ? bits : 0,
          .frequencies = ecq::normalize_frequencies(coded, alias ? 16 : bits)};
}

std::vector<table_case> all_cases() {
  std::vector<table_case> cases;
  const auto add = [&](const char* name, ecq::slot_mapping mapping, unsigned bits, unsigned raw_bits, unsigned spread) {
    auto codes = code_source(9).bell(100000, spread);
    for (unsigned code = 128 - 2 * spread; code <= 128 + 2 * spread; ++code) {
      codes.push_back(static_cast<std::uint8_t>(code));  // the rarest too
    }
    cases.push_back({name, table_for(codes, mapping, bits, raw_bits), {raw_bits}, spread});
  };
  add("alias32", ecq::slot_mapping::alias, 5, 0, 5);
  add("alias64", ecq::slot_mapping::alias, 6, 0, 14);
  add("alias64 of few", ecq::slot_mapping::alias, 6, 0, 1);
  add("alias32, 1 raw bit", ecq::slot_mapping::alias, 5, 1, 12);
  add("alias64, 3 raw bits", ecq::slot_mapping::alias, 6, 3, 30);
  add("alias32, 7 raw bits", ecq::slot_mapping::alias, 5, 7, 30);
  add("direct 8", ecq::slot_mapping::direct, 8, 0, 30);
  add("direct 12", ecq::slot_mapping::direct, 12, 0, 31);
  add("direct 14", ecq::slot_mapping::direct, 14, 0, 31);
  add("direct 12, 2 raw bits", ecq::slot_mapping::direct, 12, 2, 31);
  cases.push_back({"constant", table_for(std::vector<std::uint8_t>{128}, ecq::slot_mapping::alias, 5, 0), {0}, 0});
  cases.push_back(
      {"constant, 4 raw bits", table_for(std::vector<std::uint8_t>{128}, ecq::slot_mapping::direct, 8, 4), {4}, 0});
  return cases;
}

TEST(Rans, DecodesWhatItEncodedAtEveryLength) {
  for (const table_case& with : all_cases()) {
    for (std::size_t size = 1; size <= 300; ++size) {
      const auto codes = code_source(size).bell(size, with.spread);
      const auto got = decode_both_ways(coded_chunk(with.table, with.map, codes), with.table, with.map);
      ASSERT_EQ(got.verdict, ecq::errc::ok) << with.name << ' ' << size;
      ASSERT_EQ(got.codes, codes) << with.name << ' ' << size;
    }
    const auto codes = code_source(77).bell(70001, with.spread);
    EXPECT_EQ(decode_both_ways(coded_chunk(with.table, with.map, codes), with.table, with.map).codes, codes)
        << with.name;
  }
}

// At frequencies of 65535 : 1, reciprocals and limits are at their bounds.
TEST(Rans, TakesExtremeFrequencies) {
  for (const bool rare_first : {false, true}) {
    ecq::rans_table table{.mapping = ecq::slot_mapping::alias, .bucket_bits = 5, .frequencies = {}};
    table.frequencies.scale_bits = 16;
    table.frequencies.count = 2;
    table.frequencies.symbols = {0, 255};
    table.frequencies.frequencies = {rare_first ? 1U : 65535U, rare_first ? 65535U : 1U};
    for (const unsigned rare_each : {1U, 2U, 1000U}) {
      std::vector<std::uint8_t> codes(20000);
      for (std::size_t i = 0; i < codes.size(); ++i) {
        codes[i] = (i % rare_each == 0) == rare_first ? std::uint8_t{0} : std::uint8_t{255};
      }
      EXPECT_EQ(decode_both_ways(coded_chunk(table, {0}, codes), table, {0}).codes, codes);
    }
  }
}

// Both decoders or neither refuse a damaged chunk; where both accept it, they agree on its codes.
TEST(Rans, WarpAndScalarAgreeOnDamagedChunks) {
  for (const table_case& with : all_cases()) {
    const auto codes = code_source(5).bell(333, with.spread);
    const coded_chunk good(with.table, with.map, codes);
    const auto decode = [&](const coded_chunk& bad) { return decode_both_ways(bad, with.table, with.map); };
    const auto flip_all = [&](std::vector<std::byte> coded_chunk::*part) {
      for (std::size_t bit = 0; bit < 8 * (good.*part).size(); ++bit) {
        coded_chunk bad = good;
        (bad.*part)[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
        decode(bad);
      }
    };
    flip_all(&coded_chunk::states);
    flip_all(&coded_chunk::words);
    for (std::size_t kept = 0; kept < good.words.size(); kept += 2) {
      coded_chunk bad = good;
      bad.words.resize(kept);
      EXPECT_EQ(decode(bad).verdict, ecq::errc::corrupt) << with.name;
    }
    coded_chunk longer = good;
    longer.words.resize(longer.words.size() + 2);
    EXPECT_EQ(decode(longer).verdict, ecq::errc::corrupt) << with.name;
    code_source random(3);
    for (int round = 0; round < 200; ++round) {
      coded_chunk noise = good;
      for (std::byte& byte : noise.words) byte = static_cast<std::byte>(random.next());
      for (std::byte& byte : noise.states) byte = static_cast<std::byte>(random.next());
      decode(noise);
    }
  }
}

TEST(RansPlan, CodesNarrowAlphabetsByAliasTables) {
  const auto plan_of = [](const std::vector<std::uint8_t>& codes) {
    ecq::histogram counted;
    counted.add(codes);
    return ecq::rans::plan(std::span(&counted, 1));
  };
  code_source source(1);
  const auto narrow = plan_of(source.bell(1 << 20, 3));
  EXPECT_EQ(narrow.map.bits, 0U);
  EXPECT_EQ(narrow.tables[0].mapping, ecq::slot_mapping::alias);
  EXPECT_EQ(narrow.tables[0].bucket_bits, 5U);
  const auto middle = plan_of(source.bell(1 << 20, 12));
  EXPECT_EQ(middle.tables[0].mapping, ecq::slot_mapping::alias);
  // A flat distribution: splitting costs nothing, so the wide alphabet is halved repeatedly.
  const auto flat = plan_of(source.below(1 << 20, 128));
  EXPECT_EQ(flat.tables[0].mapping, ecq::slot_mapping::alias);
  EXPECT_GE(flat.map.bits, 1U);
  // Every second code is 0; a split would lose most of what that saves.
  auto sparse = source.below(1 << 20, 256);
  for (std::size_t i = 0; i < sparse.size(); i += 2) sparse[i] = 0;
  const auto wide = plan_of(sparse);
  EXPECT_EQ(wide.map.bits, 0U);
  EXPECT_EQ(wide.tables[0].mapping, ecq::slot_mapping::direct);
}

}  // namespace
