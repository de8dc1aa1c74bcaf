#include "ecq/quantize/row_group.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "ecq/format/fp8_e5m2.hpp"
#include "ecq/quantize/entquant.hpp"
#include "support/host_row_group.hpp"
#include "support/quantized_by_rows.hpp"
#include "support/weights.hpp"

namespace {

using ecq::bf16;
using ecq::cpu;
using ecq::errc;
using ecq::fp16;
using ecq_test::quantized_by_rows;

/// Expects the scaled_quantizer and a group of threads to give the same codes and scales.
template <class Format, class Element>
void expect_the_same(const std::vector<float>& weights, std::size_t rows, std::size_t padding, double lambda,
                     std::uint64_t capacity = 1 << 20) {
  const std::size_t columns = weights.size() / rows;
  const std::size_t stride = columns + padding;
  std::vector<Element> elements(rows * stride, Element(1e4F));
  for (std::size_t i = 0; i < weights.size(); ++i) elements[i / columns * stride + i % columns] = Element(weights[i]);
  const ecq::weights_view view(ecq::dtype_of<Element>, elements.data(), rows, columns,
                               static_cast<std::ptrdiff_t>(stride));
  std::vector<std::uint8_t> codes(weights.size());
  std::vector<bf16> scales(rows);
  ASSERT_TRUE(ecq::entquant{.lambda = lambda}.quantize<Format>(cpu{}, view, codes, scales));
  const auto got = quantized_by_rows<Format>(view, lambda, capacity);
  EXPECT_EQ(got.reported, errc::ok);
  for (std::size_t row = 0; row < rows; ++row) ASSERT_EQ(got.scales[row], scales[row].bits) << row;
  ASSERT_EQ(got.codes, codes) << Format::name << ' ' << rows << " x " << columns << ", lambda " << lambda;
}

template <class Format>
void expect_the_same(const std::vector<float>& weights, std::size_t rows, double lambda) {
  expect_the_same<Format, float>(weights, rows, 0, lambda);
  expect_the_same<Format, bf16>(weights, rows, 3, lambda);
  expect_the_same<Format, fp16>(weights, rows, 8, lambda);
}

template <class Format>
class RowGroup : public testing::Test {};
using formats = testing::Types<ecq::fp8_e4m3, ecq::fp8_e5m2, ecq::int8>;
TYPED_TEST_SUITE(RowGroup, formats);

TYPED_TEST(RowGroup, GivesTheCodesOfTheProcessor) {
  for (const double lambda : {0.0, 0.05, 3.9, 14.5, 90.0, 700.0, 1e20}) {
    expect_the_same<TypeParam>(ecq_test::row_varying(6, 333), 6, lambda);
    expect_the_same<TypeParam>(ecq_test::student_t4(2, 5000), 2, lambda);
  }
}

TYPED_TEST(RowGroup, OfRowsOfAnyLength) {
  for (const std::size_t columns : {1U, 2U, 15U, 16U, 17U, 255U, 256U, 257U, 4095U, 4096U, 4097U, 9000U}) {
    expect_the_same<TypeParam>(ecq_test::gaussian(2, columns), 2, 14.5);
  }
}

TYPED_TEST(RowGroup, OfRowsThatAreReadAnew) {
  for (const std::size_t columns : {4097U, 8192U, 8193U, 20000U}) {
    const auto weights = ecq_test::student_t4(1, columns);
    expect_the_same<TypeParam, float>(weights, 1, 0, 7.0, 4096);
    expect_the_same<TypeParam, bf16>(weights, 1, 0, 58.0, ecq::staged_segment);
  }
}

TYPED_TEST(RowGroup, OfOutliersAndOfNumbersAtTheEdges) {
  auto weights = ecq_test::gaussian(12, 300);
  for (std::size_t i = 0; i < 300; ++i) {
    weights[i] = 0.0F;
    weights[300 + i] = -0.0F;
    weights[600 + i] *= 0x1p-140F;  // all subnormal
    weights[900 + i] *= i == 7 ? 0x1p120F : 0x1p-135F;
    weights[1200 + i] *= 0x1p125F;
    weights[1500 + i] *= 0x1p-120F;
    weights[1800 + i] *= i == 299 ? 5000.0F : 1.0F;
  }
  weights[2100] = std::numeric_limits<float>::denorm_min();
  weights[2400] = -(std::numeric_limits<float>::max)();
  for (const double lambda : {0.0, 0.3, 14.5, 256.0}) {
    expect_the_same<TypeParam, float>(weights, 12, 0, lambda);
    std::vector<float> less = weights;
    for (float& weight : less) weight = std::abs(weight) < 0x1p127F ? weight : 1.0F;  // which BF16 can hold
    expect_the_same<TypeParam, bf16>(less, 12, 1, lambda);
  }
}

// Rows that stand out count for less in the matrix's norm, however many they are: none, one, an eighth, a half, all.
TYPED_TEST(RowGroup, OfMatricesWithRowsThatStandOut) {
  for (const std::size_t rows : {1U, 2U, 3U, 8U, 300U}) {
    for (const std::size_t huge : {std::size_t{0}, std::size_t{1}, rows / 8, rows / 2, rows}) {
      auto weights = ecq_test::row_varying(rows, 40);
      for (std::size_t row = 0; row < (std::min)(huge, rows); ++row) {
        weights[row * 40 + 3] = row % 2 == 0 ? 1e30F : -1e16F;
      }
      for (const double lambda : {0x1p-100, 14.5}) expect_the_same<TypeParam, float>(weights, rows, 0, lambda);
    }
  }
  expect_the_same<TypeParam, float>(std::vector<float>(300 * 40), 300, 0, 14.5);
}

/// Expects equality to the last bit, on which codes and scales seldom depend.
template <unsigned Threads>
void expect_the_sums_of_the_processor(std::size_t columns) {
  using group_of_row = ecq::host_row_group<Threads>;
  const auto weights = ecq_test::student_t4(1, columns);
  const ecq::weights_view view = ecq::matrix_view<const float>(weights.data(), 1, columns);
  const cpu one;
  ecq::detail::group_weights group(one, view);
  ASSERT_TRUE(group.select({0, 1, 0, columns}));
  std::vector<float> staging((columns + 255) / 256 * 256);
  group_of_row threads;
  const ecq::kernel_weights row = {
      .data = view.data(), .rows = 1, .columns = columns, .row_stride = columns, .numbers_per_row = columns};
  const ecq::row_summary summary = ecq::summarize_row(threads, row, 0, staging.data(), staging.size());
  EXPECT_EQ(summary.magnitudes, *group.total<ecq::relative_l1>());
  EXPECT_EQ(summary.largest, group.largest());
  EXPECT_EQ(summary.exponent, group.exponent());
  const float scale = ecq::detail::with_short_significand(group.largest() / 20.0F);
  ecq::detail::staged_row<group_of_row> staged(threads, row, 0, staging.data(), staging.size());
  typename group_of_row::template own<ecq::detail::group_sums> sums{};
  const auto step = ecq::detail::step_at<group_of_row>(scale, false);
  staged.sum(sums, [&](float weight, float& distortion, float& kept) {
    ecq::detail::add_at_scale<group_of_row, ecq::fp8_e4m3>(weight, ecq::detail::power_of_two(-summary.exponent), step,
                                                           distortion, kept);
  });
  const auto got = threads.decide(sums, [](const ecq::detail::group_sums& all) { return all; });
  const auto expected = *group.at<ecq::fp8_e4m3, ecq::relative_l1>(scale);
  EXPECT_EQ(got.distortion, expected.distortion);
  EXPECT_EQ(got.kept, expected.kept);
}

TEST(RowGroupSums, AreThoseOfTheProcessor) {
  for (const std::size_t columns : {7U, 256U, 700U, 4096U}) expect_the_sums_of_the_processor<32>(columns);
  for (const std::size_t columns : {4097U, 10001U, 30000U}) expect_the_sums_of_the_processor<256>(columns);
}

TEST(RowGroupReports, TheFirstWeightThatIsNotFinite) {
  for (const std::size_t columns : {300U, 5000U}) {
    auto weights = ecq_test::gaussian(4, columns);
    weights[2 * columns + 70] = std::numeric_limits<float>::infinity();
    weights[2 * columns + 69] = -std::numeric_limits<float>::quiet_NaN();
    weights[3 * columns] = std::numeric_limits<float>::infinity();
    const ecq::weights_view view = ecq::matrix_view<const float>(weights.data(), 4, columns);
    const auto got = quantized_by_rows<ecq::fp8_e4m3>(view, 14.5, 4096);
    EXPECT_EQ(got.reported, errc::non_finite);
    EXPECT_EQ(got.number, 2 * columns + 69);
  }
}

}  // namespace
