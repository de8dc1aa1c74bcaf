#include "ecq/cuda/tuning.cuh"

#include <gtest/gtest.h>

#include <cstdint>

#include "cuda/device_memory.cuh"

namespace {

using ecq::detail::deal_of;
using ecq::detail::tuning_of;

TEST(Tuning, HasARowForEachSupportedDeviceAndForNewerOnes) {
  for (const unsigned capability : {80U, 90U, 100U, 120U}) EXPECT_EQ(tuning_of(capability).capability, capability);
  EXPECT_EQ(tuning_of(89).capability, 80U);
  EXPECT_EQ(tuning_of(103).capability, 100U);
  EXPECT_EQ(tuning_of(999).capability, 120U);
}

// Every chunk has a warp, whatever their number: grids have fewer than 2^31 blocks, so blocks take chunks in turn.
TEST(Tuning, DealsEveryChunk) {
  const auto& row = tuning_of(90);
  for (const std::uint64_t chunks : {1ULL, 63ULL, 64ULL, 132ULL, 1000ULL, 1056ULL, 16895ULL, 16896ULL, 1ULL << 33}) {
    for (const unsigned resident : {0U, 4U}) {
      for (const unsigned bits : {10U, 13U, 18U}) {
        const auto deal = deal_of(row, 132, resident, chunks, bits);
        EXPECT_GE(deal.blocks, 1U);
        EXPECT_LT(deal.blocks, std::uint64_t{1} << 31);
        EXPECT_GE(deal.warps, 1U);
        EXPECT_LE(deal.warps, row.warps);
        EXPECT_LT((deal.blocks - 1) * deal.warps, chunks) << "a block has no chunk";
      }
    }
  }
}

TEST(Tuning, SpreadsFewChunksOverAllMultiprocessors) {
  const auto& row = tuning_of(90);
  const auto warps_of = [&](std::uint64_t chunks) { return deal_of(row, 132, 6, chunks, 14).warps; };
  const auto fullest = [&](std::uint64_t chunks) {
    const auto deal = deal_of(row, 132, 6, chunks, 14);
    return (deal.blocks + 131) / 132 * deal.warps;
  };
  EXPECT_EQ(warps_of(64), 1U);
  EXPECT_EQ(warps_of(1024), 8U);  // 128 blocks; with 7 warps per block, some multiprocessors would have two blocks
  EXPECT_EQ(fullest(1024), 8U);
  EXPECT_EQ(fullest(3328), 28U);  // it would be 32 with 8 warps per block
  EXPECT_EQ(warps_of(1U << 20), 8U);
}

TEST(Tuning, LetsBlocksTakeSeveralSmallChunks) {
  const auto& row = tuning_of(90);
  constexpr std::uint64_t many = 1U << 20;
  EXPECT_EQ(deal_of(row, 132, 6, many, 13).blocks, many / 8);
  EXPECT_EQ(deal_of(row, 132, 6, many, 10).blocks, many / 64);
  EXPECT_EQ(deal_of(row, 132, 6, 132 * 6 * 16, 10).blocks, 132U * 6);  // no fewer blocks than are resident at once
}

class TuningOnDevice : public ecq_test::device_test {};

TEST_F(TuningOnDevice, KnowsTheCurrentDevice) {
  const auto first = ecq::detail::current_device();
  ASSERT_TRUE(first) << first.error().to_string();
  EXPECT_GE(first->capability, 80U);
  EXPECT_GE(first->multiprocessors, 1U);
  const auto again = ecq::detail::current_device();
  ASSERT_TRUE(again);
  EXPECT_EQ(again->capability, first->capability);
  EXPECT_EQ(again->multiprocessors, first->multiprocessors);
}

TEST(Tuning, NamesTheDeviceThatMemoryLiesOn) {
  const auto got = ecq::detail::check_device({.number = 1}, 0, "the stream");
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code(), ecq::errc::invalid_argument);
  EXPECT_EQ(got.error().message(), "the stream is on device 0, but the current device is 1");
}

}  // namespace
