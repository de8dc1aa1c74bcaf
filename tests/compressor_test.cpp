// Compressing matrices and blocks, and decoding them whole, in parts and as codes.

#include "ecq/compressor.hpp"

#include <gtest/gtest.h>

#include <Eigen/Dense>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "ecq/analysis/code_statistics.hpp"
#include "ecq/analysis/weight_error.hpp"
#include "ecq/decompress.hpp"
#include "ecq/entropy/huffman/huffman.hpp"
#include "ecq/entropy/raw.hpp"
#include "ecq/entropy/tans/tans.hpp"
#include "ecq/format/affine_uint.hpp"
#include "ecq/format/fp8_e5m2.hpp"
#include "ecq/format/int8.hpp"
#include "ecq/methods/tcq_method.hpp"
#include "ecq/quantize/absmax_search.hpp"
#include "ecq/quantize/entrollm.hpp"
#include "ecq/quantize/scaled_quantizer.hpp"
#include "ecq/quantize/tcq.hpp"
#include "support/weights.hpp"

namespace {

using ecq::cpu;
using ecq::errc;
using ecq::matrix_view;

double rate_of(const ecq::packed_block& packed) {
  double bits = 8.0 * static_cast<double>(packed.stream.size());
  double weights = 0;
  for (const auto& matrix : packed.matrices) {
    bits += 8.0 * static_cast<double>(ecq::packed_scale_bytes(matrix.scales));
    weights += static_cast<double>(matrix.layout.rows * matrix.layout.columns);
  }
  EXPECT_EQ(packed.bits_per_weight(), bits / weights);
  return bits / weights;
}

std::vector<float> decoded(const ecq::packed_block& packed, std::size_t matrix = 0, cpu backend = {}) {
  const auto& layout = packed.matrices[matrix].layout;
  std::vector<float> weights(layout.rows * layout.columns);
  const auto done =
      ecq::decompress(backend, packed, matrix, matrix_view<float>(weights.data(), layout.rows, layout.columns));
  EXPECT_TRUE(done) << done.error().to_string();
  return weights;
}

template <class Combination>
class Compositions : public testing::Test {};

template <class Format, class Coder, class Quantizer>
struct combination {
  using codec = ecq::compressor<Format, Coder, Quantizer>;
  using format = Format;
};

using all_combinations =
    testing::Types<combination<ecq::fp8_e4m3, ecq::rans, ecq::absmax>,
                   combination<ecq::fp8_e5m2, ecq::rans, ecq::absmax>, combination<ecq::int8, ecq::rans, ecq::absmax>,
                   combination<ecq::fp8_e4m3, ecq::raw, ecq::absmax>, combination<ecq::int8, ecq::raw, ecq::absmax>,
                   combination<ecq::fp8_e4m3, ecq::rans, ecq::scaled_quantizer<ecq::absmax_search, ecq::per_tensor>>,
                   combination<ecq::int8, ecq::rans, ecq::scaled_quantizer<ecq::absmax_search, ecq::per_group>>>;
TYPED_TEST_SUITE(Compositions, all_combinations);

TYPED_TEST(Compositions, DecodesToCodeTimesScale) {
  constexpr std::size_t rows = 37, columns = 301;
  const auto weights = ecq_test::row_varying(rows, columns);
  const auto packed = typename TypeParam::codec{}.compress(matrix_view(weights.data(), rows, columns));
  ASSERT_TRUE(packed) << packed.error().to_string();

  const auto decoder = ecq::block_decoder::open(*packed);
  ASSERT_TRUE(decoder) << decoder.error().to_string();
  std::vector<std::uint8_t> codes(rows * columns);
  ASSERT_TRUE(decoder->decode_codes(cpu{}, 0, 0, rows, codes));
  const auto& matrix = packed->matrices[0];
  const auto out = decoded(*packed);
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t column = 0; column < columns; ++column) {
      const std::size_t group =
          row / matrix.layout.rows_per_group * matrix.layout.groups_across() + column / matrix.layout.columns_per_group;
      const float expected = TypeParam::format::decode(codes[row * columns + column]) * matrix.scales[group];
      ASSERT_EQ(out[row * columns + column], expected) << row << ", " << column;
    }
  }
  const auto distance =
      ecq::measure_error(cpu{}, matrix_view(weights.data(), rows, columns), matrix_view(out.data(), rows, columns));
  EXPECT_LT(distance->relative_l1(), 0.12);
}

TYPED_TEST(Compositions, BytesDoNotDependOnThreads) {
  const auto weights = ecq_test::gaussian(130, 257);
  const matrix_view view(weights.data(), 130, 257);
  const auto one = typename TypeParam::codec{}.compress(cpu{.threads = 1}, view);
  const auto four = typename TypeParam::codec{}.compress(cpu{.threads = 4}, view);
  ASSERT_TRUE(one && four);
  EXPECT_EQ(one->stream, four->stream);
  EXPECT_EQ(decoded(*one), decoded(*four, 0, cpu{.threads = 3}));
}

TEST(Compressor, MeetsTargetBitsWithEverythingCounted) {
  const auto weights = ecq_test::gaussian(512, 1024);
  for (const double bits : {2.1, 3.0, 4.0, 6.0}) {
    const auto packed = ecq::compressor<>{{.target_bits = bits}}.compress(matrix_view(weights.data(), 512, 1024));
    ASSERT_TRUE(packed) << packed.error().to_string();
    EXPECT_NEAR(rate_of(*packed), bits, 0.02);
  }
}

TEST(Compressor, TakesWhicheverCoderMakesTheStreamSmallest) {
  const auto weights = ecq_test::gaussian(256, 512);
  const matrix_view view(weights.data(), 256, 512);
  const auto smallest = ecq::compressor<ecq::fp8_e4m3, ecq::smallest_any>{{.lambda = 14.5}}.compress(view);
  const auto huffman = ecq::compressor<ecq::fp8_e4m3, ecq::huffman>{{.lambda = 14.5}}.compress(view);
  ASSERT_TRUE(smallest && huffman);
  EXPECT_LT(smallest->stream.size(), huffman->stream.size());
  EXPECT_EQ(decoded(*smallest), decoded(*huffman));
}

// For these codes, pairs are worth their bits from about 3.65 bits on, and then take 0.1 bits more.
TEST(Compressor, MeetsTargetBitsBetweenRatesOfPairsAndOfSingleCodes) {
  const auto weights = ecq_test::gaussian(512, 1024);
  std::size_t single = 0;
  for (const double target : {3.5, 3.64, 3.68, 3.72, 3.85}) {
    const ecq::compressor<> codec{{.target_bits = target}, {.goal = ecq::stream_goal::cpu}};
    const auto packed = codec.compress(matrix_view(weights.data(), 512, 1024));
    ASSERT_TRUE(packed) << packed.error().to_string();
    EXPECT_NEAR(rate_of(*packed), target, ecq::rate_correction::tolerance);
    const auto stream = ecq::encoded_stream::parse(packed->stream);
    ASSERT_TRUE(stream);
    single += stream->pairs() ? 0U : 1U;
  }
  EXPECT_GE(single, 2U);
}

// Rows of two kinds take turns, with more weights than a search looks at: its estimate is not what they take.
TEST(Compressor, MeetsTargetBitsWhereEverySecondRowHasOutliers) {
  constexpr std::size_t rows = 16384;
  constexpr std::size_t columns = 512;
  auto weights = ecq_test::gaussian(rows, columns);
  for (std::size_t row = 1; row < rows; row += 2) {
    for (std::size_t column = row % 7; column < columns; column += 61) weights[row * columns + column] *= 30.0F;
  }
  for (const double bits : {2.1, 3.0}) {
    const auto packed = ecq::compressor<>{{.target_bits = bits}}.compress(cpu{.threads = 2},
                                                                          matrix_view(weights.data(), rows, columns));
    ASSERT_TRUE(packed) << packed.error().to_string();
    EXPECT_NEAR(rate_of(*packed), bits, ecq::rate_correction::tolerance);
  }
}

/// Distortions of a user: one that the library has under another name, and two that it does not have.
struct own_l1 {
  static constexpr std::string_view name = "own_l1";
  static constexpr int degree = 1;
  static constexpr float of(float difference) noexcept { return difference < 0.0F ? -difference : difference; }
};
struct cubic {
  static constexpr std::string_view name = "cubic";
  static constexpr int degree = 3;
  static constexpr float of(float difference) noexcept {
    return difference < 0.0F ? -difference * difference * difference : difference * difference * difference;
  }
};
struct nothing_matters {
  static constexpr std::string_view name = "nothing_matters";
  static constexpr int degree = 1;
  static constexpr float of(float) noexcept { return 0.0F; }
};
/// Claims to be linear.
struct liar : cubic {
  static constexpr int degree = 1;
};
static_assert(ecq::distortion<own_l1> && ecq::distortion<cubic> && ecq::distortion<nothing_matters>);
static_assert(!ecq::distortion<liar>);

template <class Distortion>
ecq::packed_block packed_by(const std::vector<float>& weights) {
  const ecq::compressor<ecq::fp8_e4m3, ecq::rans, ecq::basic_entquant<ecq::row_root<Distortion>>> codec{
      {.target_bits = 3.0}};
  auto packed = codec.compress(matrix_view(weights.data(), 256, 512));
  EXPECT_TRUE(packed) << packed.error().to_string();
  return packed ? std::move(*packed) : ecq::packed_block{};
}

TEST(Compressor, EvaluatesTheDistortionThatItIsGiven) {
  // Rows differ in shape, so that it matters which of them get the bits.
  auto weights = ecq_test::gaussian(256, 512);
  for (std::size_t i = 0; i < weights.size(); i += 37) weights[i] *= static_cast<float>(i / 512 % 8 + 1);
  const auto shipped = packed_by<ecq::relative_l1>(weights);
  const auto own = packed_by<own_l1>(weights);
  EXPECT_EQ(own.stream, shipped.stream) << "the same distortion under another name";
  const auto squared = packed_by<ecq::squared_error>(weights);
  const auto third = packed_by<cubic>(weights);
  for (const auto* other : {&squared, &third}) {
    EXPECT_NEAR(rate_of(*other), 3.0, ecq::rate_correction::tolerance);
    EXPECT_NE(other->stream, shipped.stream);
  }
  EXPECT_NE(third.stream, squared.stream);
}

TEST(Compressor, TakesAbsmaxWhereNoErrorMatters) {
  const auto weights = ecq_test::gaussian(64, 128);
  const matrix_view view(weights.data(), 64, 128);
  using quantizer = ecq::basic_entquant<ecq::row_root<nothing_matters>>;
  const auto packed = ecq::compressor<ecq::fp8_e4m3, ecq::rans, quantizer>{{.lambda = 14.5}}.compress(view);
  const auto absmax = ecq::compressor<ecq::fp8_e4m3, ecq::rans, ecq::absmax>{}.compress(view);
  ASSERT_TRUE(packed && absmax);
  EXPECT_EQ(packed->stream, absmax->stream);
}

/// A search of a user: AbsMax, made coarser as lambda grows.
struct stretched_absmax {
  static constexpr std::string_view name = "stretched_absmax";
  double lambda = 0;

  template <ecq::symmetric_format Format>
  ecq::result<void> search(const cpu& backend, ecq::weights_view weights, ecq::group_layout layout,
                           std::span<float> scales) const {
    ECQ_CHECK(ecq::absmax_search{}.template search<Format>(backend, weights, layout, scales));
    for (float& scale : scales) scale *= static_cast<float>(1.0 + lambda);
    return {};
  }
};

TEST(Compressor, MeetsTargetBitsByASearchAndGroupsOfOnesOwn) {
  const auto weights = ecq_test::gaussian(256, 512);
  const matrix_view view(weights.data(), 256, 512);
  const auto expect_rate = [&](const auto& codec) {
    const auto packed = codec.compress(view);
    ASSERT_TRUE(packed) << packed.error().to_string();
    EXPECT_NEAR(rate_of(*packed), 3.5, ecq::rate_correction::tolerance);
  };
  expect_rate(ecq::compressor<ecq::int8, ecq::rans, ecq::basic_entquant<stretched_absmax>>{{.target_bits = 3.5}});
  expect_rate(ecq::compressor<ecq::fp8_e4m3, ecq::rans, ecq::basic_entquant<ecq::row_root<>, ecq::per_group>>{
      {.target_bits = 3.5, .granularity = {256}}});
}

TEST(Compressor, BlockSharesOneStreamAndEveryPartDecodesAlone) {
  const auto first = ecq_test::gaussian(64, 1000, 1);
  const auto second = ecq_test::student_t4(3, 7, 2);
  const auto third = ecq_test::row_varying(200, 333, 3);
  const std::vector<ecq::named_weights> block = {{"q", matrix_view(first.data(), 64, 1000)},
                                                 {"k", matrix_view(second.data(), 3, 7)},
                                                 {"v", matrix_view(third.data(), 200, 333)}};
  ecq::compressor<> codec{{.lambda = 8.0}, {.chunk_bits = 12}};
  const auto packed = codec.compress(cpu{.threads = 2}, block);
  ASSERT_TRUE(packed) << packed.error().to_string();
  ASSERT_EQ(packed->matrices.size(), 3U);
  EXPECT_EQ(packed->matrices[2].first_symbol, 64000U + 21U);

  const auto whole = decoded(*packed, 2, cpu{.threads = 2});
  const auto decoder = ecq::block_decoder::open(*packed);
  ASSERT_TRUE(decoder);
  for (const auto& [row, rows] :
       {std::pair{0UL, 1UL}, {199UL, 1UL}, {17UL, 41UL}, {0UL, 200UL}, {200UL, 0UL}, {5UL, 0UL}}) {
    std::vector<float> part(rows * 333, -1.0F);
    ASSERT_TRUE(decoder->decode(cpu{.threads = 2}, 2, row, matrix_view(part.data(), rows, 333)));
    EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + static_cast<std::ptrdiff_t>(row * 333)));
  }
  // The small matrix between them decodes to the same weights as when it is compressed alone at the same lambda.
  const auto alone = codec.compress(cpu{}, std::span(block).subspan(1, 1));
  ASSERT_TRUE(alone);
  EXPECT_EQ(decoded(*packed, 1), decoded(*alone));
}

TEST(Compressor, ReadsAndWritesWhatEigenHolds) {
  const auto weights = ecq_test::gaussian(24, 40);
  using row_major = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const Eigen::MatrixXf columns_first = Eigen::Map<const row_major>(weights.data(), 24, 40);
  const auto from_rows = ecq::compressor<>{{.lambda = 4.0}}.compress(matrix_view(weights.data(), 24, 40));
  const auto from_columns = ecq::compressor<>{{.lambda = 4.0}}.compress(matrix_view(columns_first));
  ASSERT_TRUE(from_rows && from_columns);
  EXPECT_EQ(from_rows->stream, from_columns->stream);
  Eigen::MatrixXf out(24, 40);
  ASSERT_TRUE(ecq::decompress(cpu{}, *from_rows, out));
  const auto expected = decoded(*from_rows);
  EXPECT_EQ(out(3, 39), expected[3 * 40 + 39]);
  EXPECT_EQ(out(23, 0), expected[23 * 40]);
}

TEST(Decompress, NarrowerOutputsAreTheFloatRounded) {
  const auto weights = ecq_test::row_varying(20, 90);
  const auto packed = ecq::compressor<>{{.lambda = 2.0}}.compress(matrix_view(weights.data(), 20, 90));
  ASSERT_TRUE(packed);
  const auto exact = decoded(*packed);
  std::vector<ecq::bf16> brain(exact.size());
  std::vector<ecq::fp16> half(exact.size());
  ASSERT_TRUE(ecq::decompress(cpu{}, *packed, matrix_view(brain.data(), 20, 90)));
  ASSERT_TRUE(ecq::decompress(cpu{}, *packed, matrix_view(half.data(), 20, 90)));
  for (std::size_t i = 0; i < exact.size(); ++i) {
    ASSERT_EQ(brain[i].bits, ecq::bf16(exact[i]).bits);
    ASSERT_EQ(half[i].bits, ecq::fp16(exact[i]).bits);
  }
}

TEST(Compressor, DegenerateMatricesRoundTrip) {
  for (const auto& [rows, columns] :
       {std::pair{0UL, 0UL}, {0UL, 5UL}, {5UL, 0UL}, {1UL, 1UL}, {1UL, 100UL}, {100UL, 1UL}}) {
    for (const float value : {0.0F, -0.0F, 1.0F, -3e-39F, 3e38F}) {
      const std::vector<float> weights(rows * columns, value);
      const auto packed = ecq::compressor<>{{.lambda = 1.0}}.compress(matrix_view(weights.data(), rows, columns));
      ASSERT_TRUE(packed) << packed.error().to_string();
      for (const float out : decoded(*packed)) {
        EXPECT_TRUE(std::isfinite(out));
        // Lambda 1 leaves Gaussian weights 20 times as large as their errors, and all of these are the largest one.
        EXPECT_NEAR(out / (value == 0.0F ? 1.0F : value), value == 0.0F ? 0.0F : 1.0F, 0.15F);
      }
    }
  }
}

// Rows without weights take no time, however many there are.
TEST(Compressor, TakesAnyNumberOfEmptyRows) {
  const ecq::matrix_view<const float> none(nullptr, std::size_t{1} << 60, 0);
  EXPECT_TRUE((ecq::compressor<ecq::fp8_e4m3, ecq::rans, ecq::entquant>{{.lambda = 3.0}}.compress(none)));
  EXPECT_TRUE((ecq::compressor<ecq::int8, ecq::rans, ecq::absmax>{}.compress(none)));
  EXPECT_TRUE((ecq::compressor<ecq::int8, ecq::rans, ecq::tcq>{{.lambda = 3.0}}.compress(none)));
  EXPECT_TRUE((ecq::compressor<ecq::uint8, ecq::rans, ecq::entrollm>{}.compress(none)));
}

TEST(Compressor, ManyThreadsNeedLittleMemory) {
  const std::vector<float> weights = ecq_test::gaussian(64, 64);
  const auto packed = ecq::compressor<ecq::fp8_e4m3, ecq::rans, ecq::absmax>{}.compress(
      ecq::cpu{.threads = ~0U}, ecq::matrix_view<const float>(weights.data(), 64, 64));
  EXPECT_TRUE(packed) << packed.error().to_string();
}

TEST(Compressor, AllZerosCostNextToNothing) {
  const std::vector<float> zeros(1 << 20, 0.0F);
  const auto packed = ecq::compressor<>{{.target_bits = 3.0}}.compress(matrix_view(zeros.data(), 1024, 1024));
  ASSERT_TRUE(packed) << packed.error().to_string();
  EXPECT_LT(rate_of(*packed), 0.2);
  EXPECT_EQ(decoded(*packed), zeros);
}

TEST(Compressor, NamesTheWeightThatIsNoNumber) {
  auto weights = ecq_test::gaussian(8, 16);
  weights[5 * 16 + 3] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<ecq::named_weights> block = {{"up_proj", matrix_view<const float>(weights.data(), 8, 16)}};
  for (const bool by_rate : {false, true}) {
    ecq::compressor<> codec;
    if (by_rate) codec.quantizer.target_bits = 4.0;
    if (!by_rate) codec.quantizer.lambda = 4.0;
    const auto packed = codec.compress(cpu{}, block);
    ASSERT_FALSE(packed);
    EXPECT_EQ(packed.error().code(), errc::non_finite);
    EXPECT_NE(packed.error().message().find("up_proj"), std::string::npos) << packed.error().message();
    EXPECT_NE(packed.error().message().find("row 5, column 3"), std::string::npos) << packed.error().message();
  }
}

TEST(Compressor, NamesAShapeThatTheWeightsDoNotFill) {
  const std::vector<float> weights(8 * 16, 0.25F);
  const matrix_view<const float> matrix(weights.data(), 8, 16);
  for (const auto& shape : std::vector<std::vector<std::uint64_t>>{{3, 16}, {8, 16, 2}, {8, 0}}) {
    const std::vector<ecq::named_weights> block = {{"up_proj", matrix, shape}};
    const auto refused = ecq::compressor<>{{.lambda = 1}}.compress(cpu{}, block);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), errc::invalid_argument);
    EXPECT_NE(refused.error().message().find("'up_proj': 8 x 16 weights do not fit shape "), std::string_view::npos)
        << refused.error().message();
  }
  const std::vector<ecq::named_weights> block = {{"up_proj", matrix, {2, 4, 16}}};
  EXPECT_TRUE(ecq::compressor<>{{.lambda = 1}}.compress(cpu{}, block));
}

TEST(Compressor, RefusesChunksThatCannotBeBeforeItPlansARate) {
  const auto weights = ecq_test::gaussian(20, 30);
  const matrix_view view(weights.data(), 20, 30);
  for (const unsigned bits : {1U, 9U, 19U, 64U, 4000000000U}) {
    const auto packed = ecq::compressor<>{{.target_bits = 3.0}, {.chunk_bits = bits}}.compress(view);
    ASSERT_FALSE(packed);
    EXPECT_EQ(packed.error().code(), errc::invalid_argument) << bits;
  }
}

TEST(Compressor, RefusesNeitherAndBothParameters) {
  const auto weights = ecq_test::gaussian(8, 16);
  const matrix_view view(weights.data(), 8, 16);
  EXPECT_EQ(ecq::compressor<>{}.compress(view).error().code(), errc::invalid_argument);
  const ecq::compressor<> both{{.target_bits = 3.0, .lambda = 1.0}};
  EXPECT_EQ(both.compress(view).error().code(), errc::invalid_argument);
  const ecq::compressor<> absurd{{.lambda = -1.0}};
  EXPECT_EQ(absurd.compress(view).error().code(), errc::invalid_argument);
  // 8 x 16 weights cannot be 1.3 bits each with a stream around them.
  const ecq::compressor<> little{{.target_bits = 1.3}};
  EXPECT_EQ(little.compress(view).error().code(), errc::unreachable_target);
}

class DamagedBlock : public testing::Test {
 protected:
  void SetUp() override {
    const auto weights = ecq_test::gaussian(40, 100);
    auto made = ecq::compressor<>{{.lambda = 4.0}}.compress(matrix_view(weights.data(), 40, 100));
    ASSERT_TRUE(made);
    packed = std::move(*made);
  }

  errc opened() const {
    const auto decoder = ecq::block_decoder::open(packed);
    return decoder ? errc::ok : decoder.error().code();
  }

  ecq::packed_block packed;
};

TEST_F(DamagedBlock, IsRefusedBeforeAnythingIsDecoded) {
  auto& matrix = packed.matrices[0];
  const auto good = matrix;
  EXPECT_EQ(opened(), errc::ok);
  matrix.first_symbol = 1;
  EXPECT_EQ(opened(), errc::corrupt);
  matrix.first_symbol = std::numeric_limits<std::uint64_t>::max();
  EXPECT_EQ(opened(), errc::corrupt);
  matrix = good;
  matrix.layout.rows = std::size_t{1} << 60;
  EXPECT_EQ(opened(), errc::corrupt);
  matrix = good;
  matrix.layout.rows_per_group = 0;
  EXPECT_EQ(opened(), errc::corrupt);
  matrix = good;
  matrix.scales.pop_back();
  EXPECT_EQ(opened(), errc::corrupt);
  matrix = good;
  matrix.scales[7] = ecq::bf16(std::numeric_limits<float>::infinity());
  EXPECT_EQ(opened(), errc::corrupt);
}

// Decoders would differ where a product overflows: the largest value of a code times any scale has to be finite.
TEST_F(DamagedBlock, ScalesThatLeadBeyondFp32AreAnError) {
  auto& matrix = packed.matrices[0];
  const auto at = [&](float scale) {
    matrix.scales[39] = ecq::bf16(scale);
    return opened();
  };
  const std::tuple<ecq::dtype, float> largest[] = {{ecq::dtype::fp8_e4m3, 448.0F}, {ecq::dtype::fp8_e5m2, 57344.0F},
                                                   {ecq::dtype::int8, 128.0F},     {ecq::dtype::uint8, 255.0F},
                                                   {ecq::dtype::uint4, 15.0F},     {ecq::dtype::table, 3.0F}};
  for (const auto& [format, value] : largest) {
    matrix.format = format;
    matrix.values.clear();
    if (format == ecq::dtype::table) {
      matrix.values.assign(256, std::numeric_limits<float>::infinity());
      matrix.values[7] = -3.0F;
      matrix.values[8] = 2.0F;
    }
    const float most = std::numeric_limits<float>::max() / value;
    EXPECT_EQ(at(0.99F * most), errc::ok) << to_string(format);
    EXPECT_EQ(at(-0.99F * most), errc::ok) << to_string(format);
    EXPECT_EQ(at(1.01F * most), errc::corrupt) << to_string(format);
    EXPECT_EQ(at(-1.01F * most), errc::corrupt) << to_string(format);
    EXPECT_EQ(at(std::numeric_limits<float>::max() / 2), errc::corrupt) << to_string(format);
    EXPECT_EQ(at(1.0F), errc::ok) << to_string(format);
  }
}

TEST_F(DamagedBlock, CodesThatAreNoNumbersAreAnError) {
  const std::vector<std::uint8_t> codes(4000, 0x7f);
  packed.stream = *ecq::encode_stream(cpu{}, codes);
  std::vector<float> out(4000);
  const auto done = ecq::decompress(cpu{}, packed, matrix_view(out.data(), 40, 100));
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code(), errc::corrupt);
}

TEST_F(DamagedBlock, WrongOutputShapesAreAnError) {
  std::vector<float> out(4000);
  EXPECT_EQ(ecq::decompress(cpu{}, packed, matrix_view(out.data(), 100, 40)).error().code(), errc::invalid_argument);
  EXPECT_EQ(ecq::decompress(cpu{}, packed, 1, matrix_view(out.data(), 40, 100)).error().code(), errc::not_found);
  const auto decoder = ecq::block_decoder::open(packed);
  EXPECT_EQ(decoder->decode(cpu{}, 0, 1, matrix_view(out.data(), 40, 100)).error().code(), errc::invalid_argument);
  std::vector<std::uint8_t> codes(5);
  EXPECT_EQ(decoder->decode_codes(cpu{}, 0, 0, 40, codes).error().code(), errc::invalid_argument);
}

}  // namespace
