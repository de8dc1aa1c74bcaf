#include "ecq/entropy/rans/rans_plan.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "ecq/base/host_group.hpp"
#include "ecq/entropy/rans/rans.hpp"
#include "ecq/entropy/rans/rans_direct.hpp"
#include "support/codes.hpp"

namespace {

struct planned {
  ecq::rans_split_work works[ecq::rans_splits];
  ecq::detail::alias_work aliases;
  ecq::rans_group_plan plan;
  std::uint16_t slots[ecq::alias_slot_count];
};

template <class Coder>
void expect_plan_of_the_cpu(const ecq::histogram& codes, planned& made, unsigned most_raw_bits) {
  constexpr bool direct = std::is_same_v<Coder, ecq::rans_direct>;
  ecq::choose_rans_split(ecq::host_group(), made.works, most_raw_bits, direct, made.aliases, made.plan, made.slots);
  const auto expected = Coder::plan({&codes, 1}, most_raw_bits);
  const ecq::rans_table& table = expected.tables.front();
  const ecq::rans_group_plan& plan = made.plan;
  EXPECT_EQ(plan.raw_bits, expected.map.bits);
  EXPECT_EQ(plan.shape.mapping, table.mapping);
  EXPECT_EQ(plan.shape.bucket_bits, table.bucket_bits);
  EXPECT_EQ(plan.shape.scale_bits, table.frequencies.scale_bits);
  EXPECT_EQ(plan.count, table.frequencies.count);
  const auto count = static_cast<std::ptrdiff_t>(plan.count);
  EXPECT_TRUE(std::equal(plan.symbols, plan.symbols + count, table.frequencies.symbols.begin()));
  EXPECT_TRUE(std::equal(plan.frequencies, plan.frequencies + count, table.frequencies.frequencies.begin()));
}

/// Expects the plan of the CPU. Returns whether two splits have the same cost and none costs less.
template <class Coder>
bool expect_plan_of_the_cpu(const ecq::histogram& codes) {
  constexpr bool direct = std::is_same_v<Coder, ecq::rans_direct>;
  const ecq::host_group group;
  const auto made = std::make_unique<planned>();
  std::vector<std::uint64_t> costs;
  for (unsigned raw_bits = 0; raw_bits < ecq::rans_splits; ++raw_bits) {
    ecq::weigh_rans_split(group, codes.counts.data(), raw_bits, direct, made->works[raw_bits]);
    costs.push_back(made->works[raw_bits].cost);
  }
  for (const unsigned most_raw_bits : {7U, 2U, 0U}) expect_plan_of_the_cpu<Coder>(codes, *made, most_raw_bits);
  return std::count(costs.begin(), costs.end(), *std::min_element(costs.begin(), costs.end())) > 1;
}

bool expect_plan_of_the_cpu(const ecq::histogram& codes) {
  expect_plan_of_the_cpu<ecq::rans_direct>(codes);
  return expect_plan_of_the_cpu<ecq::rans>(codes);
}

TEST(RansPlan, IsThePlanOfTheCpuForBellsOfAnyWidth) {
  for (double width = 0.5; width < 100; width *= 1.06) {
    ecq::histogram codes;
    for (std::size_t code = 0; code < 256; ++code) {
      const double x = (static_cast<double>(code) - 128) / width;
      codes.counts[code] = static_cast<std::uint64_t>(1e9 * std::exp(-0.5 * x * x));
    }
    expect_plan_of_the_cpu(codes);
  }
}

TEST(RansPlan, IsThePlanOfTheCpuForFewCodes) {
  ecq_test::code_source source(1);
  for (int round = 0; round < 1000; ++round) {
    ecq::histogram codes;
    codes.add(source.below(1 + source.next() % 200, 1U << (1 + source.next() % 8)));
    expect_plan_of_the_cpu(codes);
  }
}

// Of splits with the same cost, the one with the fewest raw bits is chosen.
TEST(RansPlan, IsThePlanOfTheCpuWhereTwoSplitsCostTheSame) {
  for (const auto& [first, second] : {std::pair(1U, 20U), std::pair(2U, 24U), std::pair(3U, 26U)}) {
    ecq::histogram codes;
    codes.counts[0] = first;
    codes.counts[1] = second;
    EXPECT_TRUE(expect_plan_of_the_cpu(codes));
  }
}

}  // namespace
