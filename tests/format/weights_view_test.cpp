#include "ecq/format/weights_view.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

namespace {

using ecq::dtype;
using ecq::matrix_view;
using ecq::weights_view;

template <class Format>
class WeightsView : public testing::Test {
 public:
  static constexpr std::size_t rows = 5;
  static constexpr std::size_t columns = 9;

  /// Returns distinct finite weights, row-major.
  static std::vector<Format> weights() {
    std::vector<Format> values;
    for (std::size_t index = 0; index < rows * columns; ++index) {
      const float value = static_cast<float>(index + 1) * (index % 2 == 0 ? 0.0625F : -0.0625F);
      values.push_back(Format(value));
    }
    return values;
  }

  static float expected(std::size_t row, std::size_t column) {
    return static_cast<float>(weights()[row * columns + column]);
  }
};

using formats = testing::Types<float, ecq::fp32, ecq::fp16, ecq::bf16, ecq::fp8_e4m3, ecq::fp8_e5m2>;
TYPED_TEST_SUITE(WeightsView, formats);

TYPED_TEST(WeightsView, LoadsRowsAndPartsOfRows) {
  const auto values = TestFixture::weights();
  const weights_view view = matrix_view<const TypeParam>(values.data(), TestFixture::rows, TestFixture::columns);
  EXPECT_EQ(view.type(), ecq::dtype_of<TypeParam>);
  EXPECT_EQ(view.size(), values.size());
  EXPECT_FALSE(view.empty());
  for (std::size_t row = 0; row < TestFixture::rows; ++row) {
    for (std::size_t first = 0; first <= TestFixture::columns; ++first) {
      std::vector<float> out(TestFixture::columns - first);
      view.load(row, first, out);
      for (std::size_t index = 0; index < out.size(); ++index) {
        EXPECT_EQ(out[index], TestFixture::expected(row, first + index));
      }
    }
  }
}

TYPED_TEST(WeightsView, LoadsUnaligned) {
  const auto values = TestFixture::weights();
  for (std::size_t offset = 0; offset < sizeof(TypeParam); ++offset) {
    std::vector<std::byte> bytes(offset + values.size() * sizeof(TypeParam));
    std::memcpy(bytes.data() + offset, values.data(), values.size() * sizeof(TypeParam));
    const weights_view view(ecq::dtype_of<TypeParam>, bytes.data() + offset, TestFixture::rows, TestFixture::columns,
                            static_cast<std::ptrdiff_t>(TestFixture::columns));
    std::vector<float> out(TestFixture::columns);
    view.load(TestFixture::rows - 1, 0, out);
    for (std::size_t column = 0; column < out.size(); ++column) {
      EXPECT_EQ(out[column], TestFixture::expected(TestFixture::rows - 1, column));
    }
  }
}

TYPED_TEST(WeightsView, LoadsTransposedAndReversed) {
  const auto values = TestFixture::weights();
  const auto row_stride = static_cast<std::ptrdiff_t>(TestFixture::columns);
  const weights_view transposed =
      matrix_view<const TypeParam>(values.data(), TestFixture::columns, TestFixture::rows, 1, row_stride);
  const weights_view reversed = matrix_view<const TypeParam>(values.data() + values.size() - 1, TestFixture::rows,
                                                             TestFixture::columns, -row_stride, -1);
  std::vector<float> out(TestFixture::rows - 1);
  transposed.load(3, 1, out);
  for (std::size_t index = 0; index < out.size(); ++index) EXPECT_EQ(out[index], TestFixture::expected(index + 1, 3));
  std::vector<float> backwards(TestFixture::columns);
  reversed.load(1, 0, backwards);
  for (std::size_t index = 0; index < backwards.size(); ++index) {
    EXPECT_EQ(backwards[index], TestFixture::expected(TestFixture::rows - 2, TestFixture::columns - 1 - index));
  }
}

// Covers rows, parts of rows, and selections of rows.
TYPED_TEST(WeightsView, LeavesExactWeightsOut) {
  const auto values = TestFixture::weights();
  constexpr std::size_t count = TestFixture::rows, width = TestFixture::columns;
  const std::vector<std::uint64_t> positions = {0, 8, 9, 2 * width + 3, count * width - 1};
  const weights_view plain = matrix_view<const TypeParam>(values.data(), count, width);
  const weights_view view = plain.with_exact(positions);
  EXPECT_TRUE(plain.exact().empty());
  EXPECT_EQ(view.exact().size(), positions.size());
  const auto expect = [&](const weights_view& part, std::size_t row, std::size_t row_of_all) {
    for (std::size_t first = 0; first <= width; ++first) {
      std::vector<float> out(width - first);
      part.load(row, first, out);
      for (std::size_t i = 0; i < out.size(); ++i) {
        const std::size_t position = row_of_all * width + first + i;
        const bool left_out = std::find(positions.begin(), positions.end(), position) != positions.end();
        EXPECT_EQ(out[i], left_out ? 0.0F : TestFixture::expected(row_of_all, first + i)) << position;
      }
    }
  };
  for (std::size_t row = 0; row < count; ++row) {
    expect(view, row, row);
    expect(view.row_range(row, count - row), 0, row);
  }
  expect(view.every_row(2), 1, 2);
  expect(view.row_range(1, 4).every_row(3).row_range(1, 1), 0, 4);
}

// Packing such weights is an error; until then, nothing outside of `out` may be written.
TEST(WeightsViewOfUnsortedPositions, StaysInside) {
  const std::vector<float> weights = {1, 2, 3, 4, 5, 6, 7, 8};
  const std::vector<std::uint64_t> positions = {2, 7, 0, 1};
  const weights_view view = weights_view(matrix_view<const float>(weights.data(), 2, 4)).with_exact(positions);
  std::vector<float> room(16, -1);
  for (std::size_t row = 0; row < 2; ++row) view.load(row, 1, std::span(room).subspan(8, 3));
  for (std::size_t i = 0; i < room.size(); ++i) {
    if (i < 8 || i >= 11) {
      EXPECT_EQ(room[i], -1) << i;
    }
  }
}

TEST(WeightsViewOfSpecialValues, ComeThroughUnchanged) {
  const std::vector<std::uint16_t> codes = {0x7f80, 0xff80, 0x7fc0, 0x8000, 0x0001};
  const weights_view view(dtype::bf16, codes.data(), 1, codes.size(), static_cast<std::ptrdiff_t>(codes.size()));
  std::vector<float> out(codes.size());
  view.load(0, 0, out);
  for (std::size_t index = 0; index < codes.size(); ++index) {
    EXPECT_EQ(std::bit_cast<std::uint32_t>(out[index]), std::uint32_t{codes[index]} << 16);
  }
}

TEST(WeightsViewConversions, TakesFloatingPointMatricesAlone) {
  static_assert(std::is_convertible_v<matrix_view<float>, weights_view>);
  static_assert(std::is_convertible_v<matrix_view<const ecq::bf16>, weights_view>);
  static_assert(!std::is_convertible_v<matrix_view<double>, weights_view>);
  static_assert(!std::is_convertible_v<matrix_view<int>, weights_view>);
  static_assert(!std::is_convertible_v<matrix_view<ecq::int8>, weights_view>);
  static_assert(!std::is_convertible_v<matrix_view<ecq::uint4>, weights_view>);
  EXPECT_TRUE(weights_view().empty());
}

// Blocks of 2 x 4 elements; the last ones in each direction are smaller.
TEST(ScaledWeights, AreProductsOfElementsAndScales) {
  std::vector<std::int8_t> codes;
  for (int i = 0; i < 5 * 9; ++i) codes.push_back(static_cast<std::int8_t>(3 * i - 60));
  const std::vector<ecq::bf16> scales{ecq::bf16(0.5F),  ecq::bf16(-2.0F), ecq::bf16(3.0F),
                                      ecq::bf16(0.25F), ecq::bf16(1.5F),  ecq::bf16(0.125F),
                                      ecq::bf16(7.0F),  ecq::bf16(0.0F),  ecq::bf16(10.0F)};
  const ecq::weight_scales by{.data = reinterpret_cast<const std::byte*>(scales.data()),
                              .type = ecq::scale_type::bf16,
                              .rows_per_scale = 2,
                              .columns_per_scale = 4,
                              .across = 3};
  const weights_view elements(dtype::int8, codes.data(), 5, 9, 9);
  const weights_view all = elements.scaled_by(by);
  EXPECT_TRUE(all.is_scaled());
  EXPECT_FALSE(elements.is_scaled());
  EXPECT_EQ(all.type(), dtype::int8);
  EXPECT_EQ(all.unpacked_type(), dtype::bf16);
  EXPECT_EQ(elements.unpacked_type(), dtype::int8);
  for (std::size_t first_row = 0; first_row < 5; ++first_row) {
    const weights_view part = all.row_range(first_row, 5 - first_row).row_range(0, 5 - first_row);
    for (std::size_t row = 0; row < part.rows(); ++row) {
      for (std::size_t first = 0; first <= 9; ++first) {
        std::vector<float> out(9 - first);
        part.load(row, first, out);
        for (std::size_t i = 0; i < out.size(); ++i) {
          const std::size_t at = first_row + row, column = first + i;
          EXPECT_EQ(out[i], static_cast<float>(codes[at * 9 + column]) * float(scales[at / 2 * 3 + column / 4]));
        }
      }
    }
  }
}

TEST(ScaledWeights, KeepTheirScalesWhereRowsAreLeftOut) {
  const std::vector<ecq::fp8_e4m3> ones(7, ecq::fp8_e4m3(1.0F));
  const std::vector<float> scales{1, 2, 3, 4, 5, 6, 7};
  const weights_view all = weights_view(dtype::fp8_e4m3, ones.data(), 7, 1, 1)
                               .scaled_by({.data = reinterpret_cast<const std::byte*>(scales.data())});
  const weights_view part = all.row_range(1, 6).every_row(2).row_range(1, 2);
  ASSERT_EQ(part.rows(), 2U);
  for (const std::size_t row : {0U, 1U}) {
    float out = 0;
    part.load(row, 0, std::span(&out, 1));
    EXPECT_EQ(out, row == 0 ? 4.0F : 6.0F);
  }
  EXPECT_EQ(all.every_row(3).rows(), 3U);
  EXPECT_EQ(weights_view().every_row(3).rows(), 0U);
}

TEST(ScaledWeights, ReadScalesOfEveryType) {
  const auto scale = [](ecq::scale_type type, std::vector<unsigned char> bytes) {
    return ecq::weight_scales{.data = reinterpret_cast<const std::byte*>(bytes.data()), .type = type}.of(0, 0);
  };
  EXPECT_EQ(scale(ecq::scale_type::fp32, {0, 0, 0xc0, 0x3f}), 1.5F);
  EXPECT_EQ(scale(ecq::scale_type::fp16, {0, 0x3e}), 1.5F);
  EXPECT_EQ(scale(ecq::scale_type::bf16, {0xc0, 0x3f}), 1.5F);
  EXPECT_EQ(scale(ecq::scale_type::fp8_e4m3, {0x3c}), 1.5F);
  EXPECT_EQ(scale(ecq::scale_type::e8m0, {127}), 1.0F);
  EXPECT_EQ(scale(ecq::scale_type::e8m0, {120}), 0x1p-7F);
  EXPECT_EQ(scale(ecq::scale_type::e8m0, {254}), 0x1p127F);
  EXPECT_EQ(scale(ecq::scale_type::e8m0, {0}), 0x1p-127F);
  EXPECT_TRUE(std::isnan(scale(ecq::scale_type::e8m0, {255})));
}

}  // namespace
