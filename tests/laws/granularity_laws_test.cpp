// Laws of every granularity (quantize/granularity.hpp).

#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

#include "ecq/concepts.hpp"
#include "support/policies.hpp"

namespace {

template <class Granularity>
class GranularityLaws : public testing::Test {
  static_assert(ecq::granularity<Granularity>);
};

TYPED_TEST_SUITE(GranularityLaws, ecq_test::all_granularities, ecq_test::policy_names);

TYPED_TEST(GranularityLaws, EveryWeightHasAGroupAndEveryGroupAWeight) {
  for (const std::size_t rows : {1U, 2U, 5U, 17U}) {
    for (const std::size_t columns : {1U, 64U, 128U, 129U, 300U}) {
      const ecq::group_layout layout = TypeParam{}.layout(rows, columns);
      EXPECT_EQ(layout.rows, rows);
      EXPECT_EQ(layout.columns, columns);
      std::vector<std::size_t> weights(layout.count());
      for (std::size_t row = 0; row < rows; ++row) {
        for (std::size_t column = 0; column < columns; ++column) {
          const std::size_t down = row / layout.rows_per_group;
          const std::size_t across = column / layout.columns_per_group;
          ++weights.at(down * layout.groups_across() + across);
        }
      }
      for (const std::size_t count : weights) EXPECT_GT(count, 0U);
    }
  }
}

TYPED_TEST(GranularityLaws, EmptyMatricesHaveNoGroups) {
  EXPECT_EQ(TypeParam{}.layout(0, 5).count(), 0U);
  EXPECT_EQ(TypeParam{}.layout(5, 0).count(), 0U);
  EXPECT_EQ(TypeParam{}.layout(0, 0).count(), 0U);
}

TEST(Granularities, ShareScalesAsTheirNamesSay) {
  EXPECT_EQ(ecq::per_tensor{}.layout(5, 300), (ecq::group_layout{5, 300, 5, 300}));
  EXPECT_EQ(ecq::per_channel{}.layout(5, 300), (ecq::group_layout{5, 300, 1, 300}));
  EXPECT_EQ(ecq::per_group{64}.layout(5, 300), (ecq::group_layout{5, 300, 1, 64}));
  EXPECT_EQ(ecq::per_tensor{}.layout(5, 300).count(), 1U);
  EXPECT_EQ(ecq::per_channel{}.layout(5, 300).count(), 5U);
  EXPECT_EQ(ecq::per_group{64}.layout(5, 300).count(), 5U * 5U) << "the last group of a row has 44 weights";
}

}  // namespace
