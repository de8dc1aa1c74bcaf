#include "ecq/lossless.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <vector>

#include "ecq/analysis/code_statistics.hpp"
#include "ecq/format/nearest_finite.hpp"
#include "support/weights.hpp"

namespace {

using ecq::bf16;
using ecq::cpu;
using ecq::errc;

std::vector<bf16> layer(std::size_t count, float sigma = 0.02F) {
  std::vector<bf16> weights;
  for (const float value : ecq_test::gaussian(1, count, 3, sigma)) weights.emplace_back(value);
  return weights;
}

template <class Element>
bool same_bits(std::span<const Element> left, std::span<const Element> right) {
  return left.size() == right.size() &&
         (left.empty() || std::memcmp(left.data(), right.data(), left.size_bytes()) == 0);
}

TEST(Lossless, SpansAndRangesComeBack) {
  const auto weights = layer(70'000);
  const ecq::lossless<bf16> codec;
  const auto packed = codec.compress(cpu{.threads = 2}, weights);
  ASSERT_TRUE(packed) << packed.error().to_string();
  for (const std::size_t first : {0U, 1U, 8191U, 60'000U, 70'000U}) {
    std::vector<bf16> out((weights.size() - first) / 2 + (weights.size() - first) % 2);
    const auto done = codec.decompress_elements(cpu{}, *packed, first, std::span(out));
    ASSERT_TRUE(done) << done.error().to_string();
    EXPECT_TRUE(same_bits<bf16>(out, std::span(weights).subspan(first, out.size())));
  }
  std::vector<bf16> beyond(2);
  EXPECT_EQ(codec.decompress_elements(cpu{}, *packed, 69'999, std::span(beyond)).error().code(),
            errc::invalid_argument);
  std::vector<ecq::fp16> other(2);
  EXPECT_EQ((ecq::lossless<ecq::fp16>{}.decompress(cpu{}, *packed, other).error().code()), errc::invalid_argument);
}

TEST(Lossless, FloatsThatAreNoNumbersComeBack) {
  std::vector<float> weights = {0.0F, -0.0F, std::numeric_limits<float>::infinity(),
                                -std::numeric_limits<float>::infinity(), std::numeric_limits<float>::denorm_min()};
  for (std::uint32_t payload = 1; payload < 1U << 23; payload = payload * 5 + 3) {
    weights.push_back(std::bit_cast<float>(0x7f800000U | (payload & 0x7fffffU)));
    weights.push_back(std::bit_cast<float>(0xff800000U | (payload & 0x7fffffU)));
  }
  const ecq::lossless<ecq::fp32> codec;
  const auto packed = codec.compress(cpu{}, weights);
  ASSERT_TRUE(packed);
  std::vector<float> out(weights.size());
  ASSERT_TRUE(codec.decompress(cpu{}, *packed, out));
  EXPECT_TRUE(same_bits<float>(out, weights));
}

TEST(Lossless, MatricesOfAnyStrideDecodeByRowsAndToOtherTypes) {
  constexpr std::size_t rows = 33, columns = 47;
  const auto weights = layer(rows * columns * 2);
  // Every other column of a matrix, transposed.
  const ecq::matrix_view<const bf16> view(weights.data(), rows, columns, 2, 2 * static_cast<std::ptrdiff_t>(rows));
  const auto packed = ecq::lossless<bf16>{}.compress(cpu{}, view);
  ASSERT_TRUE(packed) << packed.error().to_string();
  EXPECT_TRUE(packed->matrices[0].lossless());
  EXPECT_TRUE(packed->matrices[0].scales.empty());
  // The same bits at the same strides, and nothing between them.
  std::vector<bf16> restored(weights.size());
  const ecq::matrix_view<bf16> back(restored.data(), rows, columns, view.row_stride(), view.column_stride());
  ASSERT_TRUE(ecq::lossless<bf16>{}.decompress(cpu{}, *packed, 0, back));
  for (std::size_t at = 0; at < weights.size(); ++at) {
    EXPECT_EQ(restored[at].bits, at % 2 == 0 ? weights[at].bits : 0U);
  }
  EXPECT_EQ((ecq::lossless<bf16>{}.decompress(cpu{}, *packed, restored).error().code()), errc::invalid_argument);
  EXPECT_EQ((ecq::lossless<bf16>{}.decompress(cpu{}, *packed, 1, back).error().code()), errc::not_found);
  const auto decoder = ecq::block_decoder::open(*packed);
  ASSERT_TRUE(decoder) << decoder.error().to_string();
  std::vector<bf16> same(10 * columns);
  ASSERT_TRUE(decoder->decode(cpu{}, 0, 20, ecq::matrix_view<bf16>(same.data(), 10, columns)));
  std::vector<float> wide(rows * columns);
  ASSERT_TRUE(ecq::decompress(cpu{}, *packed, ecq::matrix_view<float>(wide.data(), rows, columns)));
  std::vector<std::uint8_t> codes(2 * columns);
  ASSERT_TRUE(decoder->decode_codes(cpu{}, 0, 32, 1, codes));
  EXPECT_FALSE(decoder->decode_codes(cpu{}, 0, 32, 1, std::span(codes).first(2 * columns - 1)));
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t column = 0; column < columns; ++column) {
      const bf16 expected = view(row, column);
      EXPECT_EQ(wide[row * columns + column], static_cast<float>(expected));
      if (row >= 20 && row < 30) {
        EXPECT_EQ(same[(row - 20) * columns + column].bits, expected.bits);
      }
    }
  }
  std::uint16_t last = 0;
  std::memcpy(&last, codes.data() + 2 * (columns - 1), 2);
  EXPECT_EQ(last, view(rows - 1, columns - 1).bits);
}

/// Expects lossless weights of `Format` to decode to `Element`, in rows of `columns`, with columns 1 and 2 elements
/// apart.
template <class Format, class Element, class Weight>
void expect_conversion(const std::vector<Weight>& weights, std::size_t columns) {
  const std::size_t rows = weights.size() / columns;
  const auto packed =
      ecq::lossless<Format>{}.compress(cpu{}, ecq::matrix_view<const Weight>(weights.data(), rows, columns));
  ASSERT_TRUE(packed);
  for (const std::size_t apart : {1U, 2U}) {
    std::vector<Element> out(weights.size() * apart);
    const ecq::matrix_view<Element> view(out.data(), rows, columns, static_cast<std::ptrdiff_t>(columns * apart),
                                         static_cast<std::ptrdiff_t>(apart));
    ASSERT_TRUE(ecq::decompress(cpu{}, *packed, view));
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const auto weight = static_cast<float>(weights[i]);
      const auto found = static_cast<float>(out[i * apart]);
      if (std::isnan(weight)) {
        ASSERT_TRUE(std::isnan(found)) << i;
      } else {
        const Element expected = std::isinf(weight) ? Element(weight) : ecq::nearest_finite<Element>(weight);
        ASSERT_EQ(found, static_cast<float>(expected)) << i;
        ASSERT_EQ(std::signbit(found), std::signbit(weight)) << i;
      }
    }
  }
}

TEST(Lossless, EveryWeightBecomesOneOfAnotherType) {
  std::vector<bf16> halves;
  std::vector<ecq::fp16> other_halves;
  std::vector<float> wide;
  for (std::uint32_t code = 0; code < 0x10000U; ++code) {
    halves.push_back(bf16::from_bits(static_cast<std::uint16_t>(code)));
    other_halves.push_back(ecq::fp16::from_bits(static_cast<std::uint16_t>(code)));
    // Between two numbers of BF16: just below the middle, the middle, and just above.
    for (const std::uint32_t low : {0x7FFFU, 0x8000U, 0x8001U}) wide.push_back(std::bit_cast<float>(code << 16 | low));
  }
  for (const std::size_t columns : {1U, 256U}) {
    expect_conversion<bf16, float>(halves, columns);
    expect_conversion<bf16, ecq::fp16>(halves, columns);
    expect_conversion<ecq::fp16, float>(other_halves, columns);
    expect_conversion<ecq::fp16, bf16>(other_halves, columns);
    expect_conversion<ecq::fp32, bf16>(wide, columns);
    expect_conversion<ecq::fp32, ecq::fp16>(wide, columns);
  }
}

TEST(Lossless, EmptyWeightsAreWeights) {
  const ecq::lossless<ecq::fp8_e5m2> codec;
  std::vector<ecq::fp8_e5m2> none;
  const auto packed = codec.compress(cpu{}, none);
  ASSERT_TRUE(packed);
  EXPECT_TRUE(codec.decompress(cpu{}, *packed, none));
  EXPECT_TRUE(ecq::block_decoder::open(*packed));
}

TEST(Lossless, BlocksAndStreamsThatDoNotBelongTogetherAreRefused) {
  auto packed = *ecq::lossless<bf16>{}.compress(cpu{}, layer(500));
  EXPECT_EQ(
      (ecq::lossless<ecq::fp16>{}.compress(cpu{}, ecq::weights_view(ecq::matrix_view<const bf16>())).error().code()),
      errc::invalid_argument);
  packed.matrices[0].format = ecq::dtype::fp16;
  EXPECT_EQ(ecq::block_decoder::open(packed).error().code(), errc::corrupt);
  packed.matrices[0].format = ecq::dtype::fp8_e4m3;
  packed.matrices[0].layout = ecq::per_tensor{}.layout(1, 500);
  packed.matrices[0].scales = {bf16(1.0F)};
  EXPECT_EQ(ecq::block_decoder::open(packed).error().code(), errc::corrupt);
}

// Gaussian weights in BF16 take about 66 % of their size (DFloat11 reports 70 % of real models).
TEST(LosslessFigures, Bf16WeightsLoseAThirdOfTheirSize) {
  const auto weights = layer(1'000'000);
  const auto packed = ecq::lossless<bf16>{}.compress(cpu{}, weights);
  ASSERT_TRUE(packed);
  const double share = static_cast<double>(packed->stream.size()) / (2.0 * static_cast<double>(weights.size()));
  EXPECT_GT(share, 0.66);
  EXPECT_LT(share, 0.69);
}

// N(0, 1) in FP8 E4M3: the exponents have 2.5 to 2.6 bits of entropy.
TEST(LosslessFigures, Fp8ExponentsOfAGaussianHaveTheEntropyOfThePaper) {
  ecq::histogram exponents;
  std::vector<ecq::fp8_e4m3> weights;
  for (const float value : ecq_test::gaussian(1, 1'000'000, 5, 1.0F)) {
    weights.emplace_back(value);
    ++exponents.counts[(weights.back().bits >> 3) & 15U];
  }
  const double entropy = ecq::entropy_of(exponents);
  EXPECT_GT(entropy, 2.5);
  EXPECT_LT(entropy, 2.6);
  const auto packed = ecq::lossless<ecq::fp8_e4m3>{.stream = {.chunk_bits = 16}}.compress(cpu{}, weights);
  ASSERT_TRUE(packed);
  EXPECT_NEAR(8.0 * static_cast<double>(packed->stream.size()) / 1e6, 4 + entropy, 0.03);
}

}  // namespace
