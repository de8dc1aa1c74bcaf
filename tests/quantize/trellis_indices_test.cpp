#include "ecq/quantize/trellis_indices.hpp"

#include <gtest/gtest.h>

#include <cstdint>

#include "support/trellis_path.hpp"

namespace {

TEST(TrellisIndices, FollowFromCodesAlone) {
  const ecq::trellis walk{};
  const auto path = ecq_test::random_path(walk, 5000, 30);
  ecq::histogram codes, indices;
  for (std::size_t at = 0; at < path.codes.size(); ++at) {
    ASSERT_EQ(ecq::trellis::index(path.codes[at]), path.indices[at]) << unsigned{path.codes[at]};
    ++codes.counts[path.codes[at]];
    ++indices.counts[path.indices[at]];
  }
  EXPECT_EQ(ecq::counts_of_indices(codes).counts, indices.counts);
}

}  // namespace
