#include "ecq/format/packed_scales.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace {

using ecq::bf16, ecq::errc, ecq::scale_packing, ecq::unpack_scales;

std::vector<bf16> scales_above(std::uint16_t least, unsigned spread, std::size_t count) {
  std::vector<bf16> scales;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t above = i == 0 ? spread : i * 37 % (spread + 1);
    scales.push_back(bf16::from_bits(static_cast<std::uint16_t>(i == 1 ? least : least + above)));
  }
  return scales;
}

TEST(PackedScales, ComeBack) {
  for (unsigned bits = 0; bits <= 16; ++bits) {
    for (const std::size_t count : {0U, 1U, 2U, 3U, 7U, 8U, 9U, 1000U}) {
      const auto least = static_cast<std::uint16_t>(bits == 16 ? 0 : 0x1234);
      const auto scales = scales_above(least, (1U << bits) - 1, count);
      const auto packed = ecq::pack_scales(scales);
      EXPECT_EQ(packed.size(), ecq::packed_scale_bytes(scales));
      if (count > 1 && bits > 0) {
        EXPECT_EQ(packed.size(), 4 + (count * bits + 7) / 8);
      }
      const auto unpacked = unpack_scales(packed, count);
      ASSERT_TRUE(unpacked) << unpacked.error().to_string();
      ASSERT_EQ(unpacked->size(), count);
      for (std::size_t i = 0; i < count; ++i) EXPECT_EQ((*unpacked)[i].bits, scales[i].bits);
    }
  }
}

// The bytes of docs/format.md: 3e80, 3e82 and 3e81 are 3e80 plus 0, 2 and 1, in two bits each.
TEST(PackedScales, AreLaidOutAsTheFormatSays) {
  const std::vector<bf16> scales = {bf16::from_bits(0x3e80), bf16::from_bits(0x3e82), bf16::from_bits(0x3e81)};
  const std::vector<std::byte> expected = {std::byte{0x80}, std::byte{0x3e}, std::byte{2}, std::byte{0},
                                           std::byte{0b01'10'00}};
  EXPECT_EQ(ecq::pack_scales(scales), expected);
}

TEST(PackedScales, RefusesWhatIsNotPacked) {
  const auto good = ecq::pack_scales(scales_above(0x3e80, 5, 10));
  ASSERT_EQ(good.size(), 8U);
  const auto verdict = [](const std::vector<std::byte>& packed, std::uint64_t count) {
    const auto unpacked = unpack_scales(packed, count);
    return unpacked ? errc::ok : unpacked.error().code();
  };
  const auto changed = [&](std::size_t at, std::byte value) {
    auto packed = good;
    packed[at] = value;
    return packed;
  };
  EXPECT_EQ(verdict(good, 10), errc::ok);
  for (const std::uint64_t count : {std::uint64_t{0}, std::uint64_t{7}, std::uint64_t{11}, std::uint64_t{1} << 43,
                                    std::numeric_limits<std::uint64_t>::max()}) {
    EXPECT_EQ(verdict(good, count), errc::corrupt) << count;
  }
  for (std::size_t size = 0; size < good.size(); ++size) {
    EXPECT_EQ(verdict({good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size)}, 10), errc::corrupt) << size;
  }
  EXPECT_EQ(verdict(changed(2, std::byte{0}), 10), errc::corrupt);
  EXPECT_EQ(verdict(changed(2, std::byte{17}), 10), errc::corrupt);
  EXPECT_EQ(verdict(changed(3, std::byte{1}), 10), errc::corrupt);
  EXPECT_EQ(verdict(changed(7, good[7] | std::byte{0x40}), 10), errc::corrupt) << "bits after the last scale";
  EXPECT_EQ(verdict({std::byte{0xff}, std::byte{0xff}, std::byte{1}, std::byte{0}, std::byte{1}}, 1), errc::corrupt);
}

}  // namespace
