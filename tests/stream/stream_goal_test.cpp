#include "ecq/stream/stream_goal.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "ecq/stream/encoded_stream.hpp"
#include "support/codes.hpp"
#include "support/policies.hpp"

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

template <class Coder>
class StreamGoalOf : public testing::Test {};
using coders = testing::Types<ecq::rans, ecq::rans_direct, ecq::tans, ecq::huffman>;
TYPED_TEST_SUITE(StreamGoalOf, coders, ecq_test::policy_names);

// Raw bits would save wide alphabets a little.
TYPED_TEST(StreamGoalOf, DevicesHaveNoRawBitsOfCodes) {
  bool saves = false;
  for (const unsigned spread : {5U, 9U, 15U, 22U, 31U, 50U}) {
    const auto codes = ecq_test::code_source(spread).bell(1U << 19, spread);
    const auto smallest = ecq::encode_stream<TypeParam>(ecq::cpu{}, codes, {.chunk_bits = 16});
    const auto quick = ecq::encode_stream<TypeParam>(ecq::cpu{}, codes, {.chunk_bits = 16, .goal = stream_goal::gpu});
    ASSERT_TRUE(smallest && quick);
    const auto stream = ecq::encoded_stream::parse(*quick);
    ASSERT_TRUE(stream) << stream.error().to_string();
    EXPECT_EQ(stream->header().raw_bits(), 0U);
    EXPECT_LE(8.0 * static_cast<double>(quick->size() - smallest->size()), 0.02 * static_cast<double>(codes.size()));
    std::vector<std::uint8_t> decoded(codes.size());
    ASSERT_TRUE(ecq::decode_stream(ecq::cpu{}, *stream, 0, decoded));
    EXPECT_EQ(decoded, codes);
    saves = saves || quick->size() > smallest->size();
  }
  EXPECT_TRUE(saves);
}

TEST(StreamGoal, GapArraysKeepTheirRawBits) {
  const auto codes = ecq_test::code_source(31).bell(1U << 17, 31);
  EXPECT_EQ(*ecq::encode_stream<ecq::huffman_gaps>(ecq::cpu{}, codes, {.chunk_bits = 13, .goal = stream_goal::gpu}),
            *ecq::encode_stream<ecq::huffman_gaps>(ecq::cpu{}, codes, {.chunk_bits = 13}));
}

}  // namespace
