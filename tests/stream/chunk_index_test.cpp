#include "ecq/stream/chunk_index.hpp"

#include <gtest/gtest.h>

namespace {

TEST(ChunkIndex, ReadsWhatItWrote) {
  std::byte bytes[ecq::chunk_record::bytes];
  ecq::chunk_record{0x1122334455667788, 0xAABBCCDD, 0xEEFF, 0x0102}.write(bytes);
  EXPECT_EQ(bytes[0], std::byte{0x88});
  EXPECT_EQ(bytes[8], std::byte{0xDD});
  EXPECT_EQ(bytes[12], std::byte{0xFF});
  const auto read = ecq::chunk_record::read(bytes);
  EXPECT_EQ(read.first_word, 0x1122334455667788U);
  EXPECT_EQ(read.checksum, 0xAABBCCDDU);
  EXPECT_EQ(read.table, 0xEEFFU);
  EXPECT_EQ(read.flags, 0x0102U);
}

TEST(ChunkIndex, TheLastChunkMayBeShorter) {
  EXPECT_EQ(ecq::chunks_of(0, 10), 0U);
  EXPECT_EQ(ecq::chunks_of(1, 10), 1U);
  EXPECT_EQ(ecq::chunks_of(1024, 10), 1U);
  EXPECT_EQ(ecq::chunks_of(1025, 10), 2U);
  EXPECT_EQ(ecq::chunks_of(~std::uint64_t{0}, 10), std::uint64_t{1} << 54);
}

}  // namespace
