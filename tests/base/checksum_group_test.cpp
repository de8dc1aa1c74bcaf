#include "ecq/base/checksum_group.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "ecq/base/checksum.hpp"
#include "ecq/base/host_group.hpp"
#include "support/codes.hpp"

namespace {

// Covers all numbers of bytes that are loaded ahead, and all that are left over at the end.
TEST(ChecksumGroup, IsThatOfABufferOfAnySize) {
  constexpr std::size_t most = 3000;
  const auto random = ecq_test::code_source(1).uniform(most + 16);
  std::vector<std::uint64_t> aligned((random.size() + 7) / 8);
  auto* const bytes = reinterpret_cast<std::byte*>(aligned.data());
  std::memcpy(bytes, random.data(), random.size());
  const ecq::host_group group;
  for (std::size_t size = 0; size <= most; ++size) {
    const std::uint64_t expected = ecq::xxh64({bytes, size}, size);
    ASSERT_EQ(ecq::xxh64_by_group(group, bytes, size, size), expected) << size;
    if (size % 2 != 0) continue;
    const std::size_t shift = size % 8;
    std::vector<std::byte> copy(size + 2);
    const auto words = static_cast<std::uint32_t>(size / 2);
    ASSERT_EQ(ecq::xxh64_and_copy(group, bytes + shift, words, 7, copy.data()), ecq::xxh64({bytes + shift, size}, 7));
    ASSERT_TRUE(std::equal(copy.begin(), copy.end() - 2, bytes + shift)) << size;
    ASSERT_EQ(copy[size], std::byte{0});
  }
}

}  // namespace
