#include "ecq/entropy/rans/rans_table.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace {

ecq::rans_table example_table() {
  ecq::histogram codes;
  codes.counts[3] = 50;
  codes.counts[100] = 7;
  codes.counts[200] = 1;
  return {.mapping = ecq::slot_mapping::alias, .bucket_bits = 5, .frequencies = ecq::normalize_frequencies(codes, 16)};
}

std::vector<std::byte> record_of(const ecq::rans_table& table) {
  std::vector<std::byte> record;
  table.append_to(record);
  return record;
}

ecq::errc verdict(std::span<const std::byte> record, unsigned raw_bits = 0) {
  std::size_t position = 0;
  const auto table = ecq::rans_table::read(record, position, {raw_bits});
  return table ? ecq::errc::ok : table.error().code();
}

TEST(RansTable, ReadsWhatItWrote) {
  std::vector<std::byte> section;
  const ecq::rans_table first = example_table();
  ecq::rans_table second = first;
  second.mapping = ecq::slot_mapping::direct;
  second.bucket_bits = 0;
  second.frequencies.scale_bits = 12;
  second.frequencies.frequencies = {4000, 95, 1};
  first.append_to(section);
  second.append_to(section);
  std::size_t position = 0;
  for (const ecq::rans_table& expected : {first, second}) {
    const auto read = ecq::rans_table::read(section, position, {0});
    ASSERT_TRUE(read) << read.error().to_string();
    EXPECT_EQ(read->mapping, expected.mapping);
    EXPECT_EQ(read->bucket_bits, expected.bucket_bits);
    EXPECT_EQ(read->frequencies, expected.frequencies);
  }
  EXPECT_EQ(position, section.size());
}

TEST(RansTable, RefusesEveryTruncation) {
  const auto record = record_of(example_table());
  for (std::size_t size = 0; size < record.size(); ++size) {
    EXPECT_EQ(verdict(std::span(record).first(size)), ecq::errc::truncated) << size;
  }
}

TEST(RansTable, RefusesRecordsThatLie) {
  const auto good = record_of(example_table());
  ASSERT_EQ(verdict(good), ecq::errc::ok);
  const auto with = [&](std::size_t at, int value) {
    auto bad = good;
    bad[at] = static_cast<std::byte>(value);
    return verdict(bad);
  };
  EXPECT_EQ(with(0, 2), ecq::errc::unsupported);  // slot mapping
  EXPECT_EQ(with(1, 4), ecq::errc::corrupt);      // bucket bits
  EXPECT_EQ(with(1, 7), ecq::errc::corrupt);
  EXPECT_EQ(with(2, 0), ecq::errc::corrupt);        // no symbols
  EXPECT_EQ(with(2, 33), ecq::errc::corrupt);       // more symbols than buckets
  EXPECT_EQ(with(5, 3), ecq::errc::corrupt);        // symbols do not ascend
  EXPECT_EQ(with(7, 1), ecq::errc::corrupt);        // padding
  EXPECT_EQ(with(12, 9), ecq::errc::corrupt);       // wrong sum of frequencies
  EXPECT_EQ(verdict(good, 1), ecq::errc::corrupt);  // symbol 200 with a raw bit
  auto direct = good;
  direct[0] = std::byte{1};
  for (const int bits : {7, 15, 16, 255}) {
    direct[1] = static_cast<std::byte>(bits);
    EXPECT_EQ(verdict(direct), ecq::errc::corrupt) << bits;
  }
}

}  // namespace
