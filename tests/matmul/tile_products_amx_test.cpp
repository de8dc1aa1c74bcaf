// Products of tiles against plain sums. All numbers are small integers and scales powers of two, so sums are exact in
// FP32 whatever their order.

#include "ecq/matmul/tile_products_amx.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "ecq/base/amx.hpp"
#include "ecq/base/line_vector.hpp"
#include "ecq/format/bf16.hpp"
#include "ecq/matmul/activation_tiles.hpp"
#include "ecq/matmul/weight_tile.hpp"

#if ECQ_X86

namespace {

using ecq::bf16;
using ecq::detail::activation_tiles;
using ecq::detail::block_of_scale;
using ecq::detail::line_vector;

// A tile has the words of 16 rows, or zeros in place of missing rows.
TEST(ActivationTiles, HaveWordsOfRowsSideBySide) {
  constexpr std::size_t sets = 2, rows = 19, row_words = 32;
  std::vector<std::uint32_t> words(sets * rows * row_words);
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = static_cast<std::uint32_t>(i + 1);
  activation_tiles tiles;
  EXPECT_TRUE(tiles.empty());
  tiles.resize(sets, rows, row_words);
  EXPECT_FALSE(tiles.empty());
  for (std::size_t set = 0; set < sets; ++set) {
    for (std::size_t row = 0; row < rows; row += 16) {
      tiles.set_rows(set, row, 0, (std::min)(rows - row, std::size_t{16}), &words[(set * rows + row) * row_words],
                     row_words * sizeof words[0]);
    }
  }
  for (std::size_t set = 0; set < sets; ++set) {
    for (std::size_t row = 0; row < 32; ++row) {
      for (std::size_t word = 0; word < row_words; ++word) {
        const std::uint32_t found = tiles.at(set, row / 16 * 16, word / 16)[word % 16 * 16 + row % 16];
        EXPECT_EQ(found, row < rows ? words[(set * rows + row) * row_words + word] : 0) << row << ", " << word;
      }
    }
  }
}

/// Rows of weights and of activations, whose elements are integers with magnitudes below 4.
template <class Element>
struct factors {
  factors(std::size_t rows_, std::size_t batch_, std::size_t columns_)
      : rows(rows_), batch(batch_), columns(columns_), weights(rows * columns), x(batch * columns) {
    std::mt19937 random(static_cast<std::uint32_t>(rows + 100 * batch + columns));
    for (Element& each : weights) each = element(static_cast<int>(random() % 7) - 3);
    for (Element& each : x) each = element(static_cast<int>(random() % 7) - 3);
    tiles.resize(1, batch, columns * sizeof(Element) / sizeof(std::uint32_t));
    for (std::size_t b = 0; b < batch; b += 16) {
      tiles.set_rows(0, b, 0, (std::min)(batch - b, std::size_t{16}), &x[b * columns], columns * sizeof(Element));
    }
  }

  static Element element(int number) {
    if constexpr (std::is_same_v<Element, bf16>) {
      return bf16(static_cast<float>(number));
    } else {
      return static_cast<Element>(number);
    }
  }

  template <class Number>
  Number product(std::size_t row, std::size_t b, std::size_t column) const {
    return static_cast<Number>(weights[row * columns + column]) * static_cast<Number>(x[b * columns + column]);
  }

  ecq::detail::amx::tile_operands operands(std::size_t step) const {
    return ecq::detail::amx::tile_operands{reinterpret_cast<const std::byte*>(weights.data()),
                                           columns * sizeof(Element), tiles.at(0, 0, 0), tiles.stride(), tiles.parts()}
        .behind(0, 0, step);
  }

  std::size_t rows, batch, columns;
  line_vector<Element> weights, x;
  activation_tiles tiles;
};

struct number_of_rows {
  std::size_t weights, x;
};
constexpr number_of_rows every_number[] = {{1, 2},  {3, 16},  {15, 17}, {16, 1},  {17, 32},
                                           {32, 9}, {33, 33}, {50, 48}, {64, 64}, {70, 5}};

class TileProducts : public testing::Test {
 protected:
  void SetUp() override {
    if (!ecq::machine_has_amx()) GTEST_SKIP() << "a machine without AMX";
  }
};

TEST_F(TileProducts, OfBf16AreSums) {
  for (const auto& [rows, batch] : every_number) {
    SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(batch));
    const factors<bf16> of(rows, batch, 192);
    const std::size_t stride = batch + 3;
    std::vector<float> sums(rows * stride, -1.0F);
    ecq::detail::amx::set_half_products(of.operands(1), rows, batch, 5, sums.data(), stride);
    for (std::size_t row = 0; row < rows; ++row) {
      for (std::size_t b = 0; b < stride; ++b) {
        float expected = b < batch ? 0 : -1.0F;  // nothing else is touched
        for (std::size_t i = 32; i < 192 && b < batch; ++i) expected += of.product<float>(row, b, i);
        ASSERT_EQ(sums[row * stride + b], expected) << row << ", " << b;
      }
    }
  }
}

// Numbers of 18 bits are sums of three BF16 numbers, and all sums of products are below 2^24.
TEST_F(TileProducts, OfFp32AreThoseOfItsParts) {
  constexpr std::size_t columns = 64, parts = activation_tiles::parts_of_fp32;
  for (const auto& [rows, batch] : every_number) {
    SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(batch));
    factors<bf16> of(rows, batch, columns);
    for (bf16& weight : of.weights) weight = bf16(static_cast<float>(weight) > 0 ? 1.0F : -1.0F);
    std::mt19937 random(3);
    std::vector<float> x(batch * columns);
    for (float& each : x) each = static_cast<float>(static_cast<int>(random() % 0x40000) - 0x20000);
    of.tiles.resize(1, batch, columns / 2, parts);
    std::vector<float> rests = x;
    for (std::size_t part = 0; part < parts; ++part) {
      for (std::size_t i = 0; i < rests.size(); ++i) {
        of.x[i] = bf16(rests[i]);
        rests[i] -= static_cast<float>(of.x[i]);
      }
      for (std::size_t b = 0; b < batch; b += 16) {
        of.tiles.set_rows(0, b, part, (std::min)(batch - b, std::size_t{16}), &of.x[b * columns],
                          columns * sizeof(bf16));
      }
    }
    EXPECT_EQ(rests, std::vector<float>(rests.size()));
    std::vector<float> sums(rows * batch);
    ecq::detail::amx::set_half_products(of.operands(0), rows, batch, 2, sums.data(), batch);
    const ecq::bf16 one_scale(2.0F);
    std::vector<float> scaled(rows * batch);
    const std::vector<const bf16*> scales(ecq::detail::amx::rows_together, &one_scale);
    for (std::size_t row = 0; row < rows; row += scales.size()) {
      ecq::detail::amx::add_scaled_products(of.operands(0).behind(row, 0, 0), scales.data(),
                                            (std::min)(scales.size(), rows - row), batch, {0, columns, columns, false},
                                            &scaled[row * batch], batch);
    }
    for (std::size_t row = 0; row < rows; ++row) {
      for (std::size_t b = 0; b < batch; ++b) {
        float expected = 0;
        for (std::size_t i = 0; i < columns; ++i) {
          expected += static_cast<float>(of.weights[row * columns + i]) * x[b * columns + i];
        }
        ASSERT_EQ(sums[row * batch + b], expected) << row << ", " << b;
        ASSERT_EQ(scaled[row * batch + b], 2 * expected) << row << ", " << b;
      }
    }
  }
}

template <class Weight>
void expect_sums_of_bytes() {
  for (const auto& [rows, batch] : every_number) {
    SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(batch));
    factors<std::int8_t> of(rows, batch, 192);
    for (std::size_t i = 0; i < of.weights.size(); i += 5) of.weights[i] = static_cast<std::int8_t>(0x80 + i % 64);
    std::vector<std::int32_t> sums(rows * batch, 7);
    ecq::detail::amx::set_byte_products(std::is_signed_v<Weight>, of.operands(1), rows, batch, 2, sums.data(), batch);
    for (std::size_t row = 0; row < rows; ++row) {
      for (std::size_t b = 0; b < batch; ++b) {
        std::int32_t expected = 0;
        for (std::size_t i = 64; i < 192; ++i) {
          expected += static_cast<Weight>(of.weights[row * 192 + i]) * of.x[b * 192 + i];
        }
        ASSERT_EQ(sums[row * batch + b], expected) << row << ", " << b;
      }
    }
  }
}

TEST_F(TileProducts, OfBytesAreSums) {
  expect_sums_of_bytes<std::int8_t>();
  expect_sums_of_bytes<std::uint8_t>();
}

// Each block of columns is multiplied by its scale, also where halves of registers belong to two blocks.
TEST_F(TileProducts, TakeScalesOfColumns) {
  constexpr std::size_t columns = 1024, first = 256;
  for (const auto& [rows, batch] : every_number) {
    for (const std::size_t of_scale : {128U, 256U, 384U, 640U}) {
      for (const bool two_blocks : {false, true}) {
        SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(batch) + ", " + std::to_string(of_scale));
        const factors<bf16> of(rows, batch, columns);
        const std::size_t scales_across = (columns + of_scale - 1) / of_scale;
        std::vector<bf16> scales;
        for (std::size_t i = 0; i < rows * scales_across; ++i) {
          scales.emplace_back(i % 3 == 0 ? 0.5F : i % 3 == 1 ? 1.0F : 4.0F);
        }
        const auto scales_of = [&](std::size_t row) { return &scales[row * scales_across]; };
        std::vector<float> sums(rows * batch, 100.0F);
        constexpr std::size_t together = ecq::detail::amx::rows_together;
        for (std::size_t row = 0; row < rows; row += together) {
          std::vector<const bf16*> of_rows;
          for (std::size_t i = row; i < (std::min)(row + together, rows); ++i) of_rows.push_back(scales_of(i));
          ecq::detail::amx::add_scaled_products(of.operands(first / 32).behind(row, 0, 0), of_rows.data(),
                                                of_rows.size(), batch, {first, columns - first, of_scale, two_blocks},
                                                &sums[row * batch], batch);
        }
        for (std::size_t row = 0; row < rows; ++row) {
          for (std::size_t b = 0; b < batch; ++b) {
            float expected = 100.0F;
            for (std::size_t i = first; i < columns; ++i) {
              // In groups of two blocks, the upper half of each 32 columns belongs to the second one.
              const std::size_t met = two_blocks ? i / 256 * 256 + i % 32 / 16 * block_of_scale : i;
              expected += of.product<float>(row, b, i) * static_cast<float>(scales_of(row)[met / of_scale]);
            }
            ASSERT_EQ(sums[row * batch + b], expected) << row << ", " << b;
          }
        }
      }
    }
  }
}

// Infinity and NaN reach only their own sums.
TEST_F(TileProducts, KeepWhatIsNoNumber) {
  factors<bf16> of(18, 18, 64);
  of.weights[5 * 64 + 9] = bf16(std::numeric_limits<float>::infinity());
  std::vector<float> sums(18 * 18);
  ecq::detail::amx::set_half_products(of.operands(0), 18, 18, 2, sums.data(), 18);
  for (std::size_t row = 0; row < 18; ++row) {
    for (std::size_t b = 0; b < 18; ++b) {
      EXPECT_EQ(sums[row * 18 + b] - sums[row * 18 + b] == 0, row != 5) << row << ", " << b;
    }
  }
}

}  // namespace

#endif
