#include "ecq/stream/stream_goal.hpp"

#include <gtest/gtest.h>

#include <cstdint>

namespace {

using ecq::default_chunk_bits;
using ecq::stream_goal;

TEST(StreamGoal, ChunksGrowWithTheStream) {
  for (const stream_goal goal : {stream_goal::size, stream_goal::cpu}) {
    EXPECT_EQ(default_chunk_bits(0, goal), 15U);
    EXPECT_EQ(default_chunk_bits((1U << 22) - 1, goal), 15U);
    EXPECT_EQ(default_chunk_bits(1U << 22, goal), 16U);
    EXPECT_EQ(default_chunk_bits(~std::uint64_t{0}, goal), 16U);
  }
}

TEST(StreamGoal, DevicesHaveManyChunks) {
  EXPECT_EQ(default_chunk_bits(0, stream_goal::gpu), 13U);
  EXPECT_EQ(default_chunk_bits((1U << 28) - 1, stream_goal::gpu), 13U);
  EXPECT_EQ(default_chunk_bits(1U << 28, stream_goal::gpu), 14U);
  EXPECT_EQ(default_chunk_bits(~std::uint64_t{0}, stream_goal::gpu), 16U);
}

}  // namespace
