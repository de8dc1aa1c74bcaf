#include "ecq/quantize/granularity.hpp"

#include <gtest/gtest.h>

namespace {

TEST(GroupLayout, KeepsItsGroupsWithOtherRows) {
  using layout = ecq::group_layout;
  EXPECT_EQ((layout{24, 256, 1, 256}).with_rows(3), (layout{3, 2048, 1, 256}));
  EXPECT_EQ((layout{3, 2048, 1, 256}).with_rows(24), (layout{24, 256, 1, 256}));
  EXPECT_EQ((layout{24, 256, 1, 64}).with_rows(48), (layout{48, 128, 1, 64}));
  EXPECT_EQ((layout{24, 256, 24, 256}).with_rows(3), (layout{3, 2048, 3, 2048}));
  EXPECT_EQ((layout{24, 256, 24, 256}).with_rows(1), (layout{1, 6144, 1, 6144}));
  EXPECT_EQ((layout{3, 2048, 1, 2048}).with_rows(24), (layout{24, 256, 8, 256}));
  EXPECT_EQ((layout{24, 256, 8, 256}).with_rows(3), (layout{3, 2048, 1, 2048}));
  EXPECT_EQ((layout{24, 256, 2, 256}).with_rows(3), (layout{3, 2048, 1, 512}));
  EXPECT_EQ((layout{24, 256, 0, 0}).with_rows(3), (layout{3, 2048, 0, 0}));
  EXPECT_EQ((layout{0, 256, 1, 256}).with_rows(0), (layout{0, 256, 1, 256}));
  for (const layout groups : {layout{24, 256, 1, 100}, layout{24, 256, 5, 256}, layout{24, 256, 8, 128}}) {
    EXPECT_FALSE(groups.with_rows(3)) << groups.columns_per_group;
    EXPECT_EQ(groups.with_rows(24), groups);
  }
  EXPECT_FALSE((layout{24, 256, 1, 256}).with_rows(5));
  EXPECT_FALSE((layout{24, 256, 1, 256}).with_rows(0));
  EXPECT_FALSE((layout{24, 256, 1, 256}).with_rows(16));  // 384 weights each
}

}  // namespace
