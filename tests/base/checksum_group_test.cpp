#include "ecq/base/checksum_group.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "ecq/base/checksum.hpp"
#include "ecq/base/host_group.hpp"
#include "support/codes.hpp"

namespace {

// Whatever is loaded ahead, and whatever is left of it at the end.
TEST(ChecksumGroup, IsThatOfABufferOfAnySize) {
  constexpr std::size_t most = 3000;
  const auto random = ecq_test::code_source(1).uniform(most + 16);
  std::vector<std::uint64_t> aligned((random.size() + 7) / 8);
  auto* const bytes = reinterpret_cast<std::byte*>(aligned.data());
  std::memcpy(bytes, random.data(), random.size());
  const ecq::host_group group;
  for (std::size_t size = 0; size <= most; ++size) {
    const std::uint64_t expected = ecq::xxh64({bytes, size}, size);
    ASSERT_EQ(ecq::xxh64_by_group<false>(group, bytes, size, size), expected) << size;
    const std::size_t shift = 2 * (size % 4);
    ASSERT_EQ(ecq::xxh64_by_group<true>(group, bytes + shift, size, 7), ecq::xxh64({bytes + shift, size}, 7)) << size;
  }
}

}  // namespace
