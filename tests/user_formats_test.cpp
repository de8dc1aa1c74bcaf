// Number formats that the library does not know: compressed, in files, and decoded by any reader.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "ecq/compressor.hpp"
#include "ecq/container/reader.hpp"
#include "ecq/container/writer.hpp"
#include "ecq/cuda/warp_block.hpp"
#include "ecq/decompress.hpp"
#include "ecq/io/checkpoint.hpp"
#include "ecq/quantize/absmax_search.hpp"
#include "ecq/quantize/entrollm.hpp"
#include "ecq/quantize/scaled_quantizer.hpp"
#include "support/files.hpp"
#include "support/places.hpp"
#include "support/user_policies.hpp"
#include "support/weights.hpp"

namespace {

using ecq::cpu;
using ecq::dtype;
using ecq::errc;
using ecq::matrix_view;

constexpr std::size_t rows = 40, columns = 96;

template <class Format>
class UserFormat : public testing::Test {
 protected:
  static ecq::packed_block compressed() {
    const auto weights = ecq_test::row_varying(rows, columns);
    auto packed =
        ecq::compressor<Format, ecq::rans, ecq::absmax>{}.compress(matrix_view(weights.data(), rows, columns));
    EXPECT_TRUE(packed) << packed.error().to_string();
    packed->matrices[0].name = "weight";
    return std::move(*packed);
  }

  /// Returns Format::decode(code) * scale for each weight.
  static std::vector<float> expected(const ecq::packed_block& packed) {
    const auto decoder = ecq::block_decoder::open(packed);
    EXPECT_TRUE(decoder) << decoder.error().to_string();
    std::vector<std::uint8_t> codes(rows * columns);
    EXPECT_TRUE(decoder->decode_codes(cpu{}, 0, 0, rows, codes));
    std::vector<float> weights;
    for (std::size_t at = 0; at < codes.size(); ++at) {
      weights.push_back(Format::decode(codes[at]) * static_cast<float>(packed.matrices[0].scales[at / columns]));
    }
    return weights;
  }

  static ecq::result<void> write(const ecq::packed_block& packed, const std::filesystem::path& path) {
    ecq::container_plan plan;
    plan.blocks.push_back({"block", {{"weight", {rows, columns}, false, false, true}}});
    ECQ_TRY(writer, ecq::container_writer::create(path, plan));
    ECQ_CHECK(writer.write_block("block", packed));
    return writer.commit();
  }
};

using formats = testing::Types<ecq_test::fp8_e3m4, ecq_test::nf4_table, ecq_test::clustered, ecq_test::two_for_one,
                               ecq_test::nearly_all_nan>;
struct format_names {
  template <class Format>
  static std::string GetName(int) {
    return std::string(Format::name);
  }
};
TYPED_TEST_SUITE(UserFormat, formats, format_names);

TYPED_TEST(UserFormat, ComesBackAsCodeTimesScale) {
  const auto packed = this->compressed();
  EXPECT_EQ(packed.matrices[0].format, dtype::table);
  std::vector<float> weights(rows * columns);
  ASSERT_TRUE(ecq::decompress(cpu{}, packed, matrix_view(weights.data(), rows, columns)));
  EXPECT_EQ(weights, this->expected(packed));
}

TYPED_TEST(UserFormat, LiesInFilesWhichNeedNoSuchType) {
  const ecq_test::temporary_folder folder;
  const auto packed = this->compressed();
  ASSERT_TRUE(this->write(packed, folder / "packed.safetensors"));
  const auto container = ecq::container_reader::open(folder / "packed.safetensors");
  ASSERT_TRUE(container) << container.error().to_string();
  const auto block = container->load(0);
  ASSERT_TRUE(block) << block.error().to_string();
  std::vector<float> weights(rows * columns);
  ASSERT_TRUE(ecq::decompress(cpu{}, *block, matrix_view(weights.data(), rows, columns)));
  EXPECT_EQ(weights, this->expected(packed));
}

TYPED_TEST(UserFormat, IsDecodedByTheTool) {
  if (ecq_test::ecq_program().empty()) GTEST_SKIP() << "without the tool";
  const ecq_test::temporary_folder folder;
  const auto packed = this->compressed();
  ASSERT_TRUE(this->write(packed, folder / "packed.safetensors"));
  const std::string at = folder.path().string();
  const auto ran = [&](const std::string& command) {
    return std::system(("'" + ecq_test::ecq_program() + "' " + command + " > '" + at + "/out' 2>&1").c_str()) == 0;
  };
  EXPECT_TRUE(ran("inspect '" + at + "/packed.safetensors'"));
  EXPECT_TRUE(ran("verify '" + at + "/packed.safetensors'"));
  ASSERT_TRUE(ran("decompress '" + at + "/packed.safetensors' -o '" + at + "/plain.safetensors' --dtype f32"));
  const auto plain = ecq::checkpoint::open(folder / "plain.safetensors");
  ASSERT_TRUE(plain) << plain.error().to_string();
  const auto weights = ecq::as_weights(plain->tensors()[0], plain->bytes(plain->tensors()[0]));
  ASSERT_TRUE(weights);
  const auto expected = this->expected(packed);
  for (std::size_t row = 0; row < rows; ++row) {
    std::vector<float> found(columns);
    weights->load(row, 0, found);
    ASSERT_TRUE(std::equal(found.begin(), found.end(), expected.begin() + static_cast<std::ptrdiff_t>(row * columns)));
  }
}

TYPED_TEST(UserFormat, ReachesDevicesAsItsValues) {
  const auto packed = this->compressed();
  const std::vector<ecq::matrix_place> places{{0, columns}};
  const auto block = ecq::warp_block::of(packed.matrices, places);
  ASSERT_TRUE(block) << block.error().to_string();
  for (unsigned code = 0; code < 256; ++code) {
    const auto byte = static_cast<std::uint8_t>(code);
    EXPECT_EQ(block->values[code],
              TypeParam::is_finite(byte) ? TypeParam::decode(byte) : std::numeric_limits<float>::infinity());
  }
  // Two matrices with different tables have two formats.
  auto two = packed.matrices;
  two.push_back(two[0]);
  two[1].first_symbol = rows * columns;
  two[1].values[17] = 0.125F;
  EXPECT_EQ(
      ecq::warp_block::of(two, std::vector<ecq::matrix_place>{{0, columns}, {rows * columns, columns}}).error().code(),
      errc::unsupported);
}

TYPED_TEST(UserFormat, IsRefusedWithoutItsValues) {
  const auto opens = [](ecq::packed_block block, auto&& change) {
    change(block.matrices[0]);
    return ecq::block_decoder::open(block).has_value();
  };
  const auto packed = this->compressed();
  using matrix = ecq::packed_matrix;
  EXPECT_TRUE(opens(packed, [](matrix&) {}));
  EXPECT_FALSE(opens(packed, [](matrix& one) { one.values.clear(); }));
  EXPECT_FALSE(opens(packed, [](matrix& one) { one.values.resize(255); }));
  EXPECT_FALSE(opens(packed, [](matrix& one) { one.values.resize(257); }));
  EXPECT_FALSE(opens(packed, [](matrix& one) { one.values[3] = std::numeric_limits<float>::quiet_NaN(); }));
  EXPECT_FALSE(opens(packed, [](matrix& one) { one.values[3] = -std::numeric_limits<float>::infinity(); }));
  EXPECT_FALSE(opens(packed, [](matrix& one) { one.format = dtype::int8; }));
  EXPECT_FALSE(opens(packed, [](matrix& one) { one.zero = 1; }));
  // Codes that are no numbers are an error where they occur.
  auto holes = packed;
  for (float& value : holes.matrices[0].values) value = std::numeric_limits<float>::infinity();
  std::vector<float> weights(rows * columns);
  EXPECT_EQ(ecq::decompress(cpu{}, holes, matrix_view(weights.data(), rows, columns)).error().code(), errc::corrupt);
}

/// Codes 0 to 15 are -7.5, -6.5, ..., 7.5: no code is 0.
struct levels_without_zero {
  using code_type = std::uint8_t;
  static constexpr std::string_view name = "levels_without_zero";
  static constexpr int bits_per_code = 4;
  static constexpr float largest = 7.5F;
  static code_type encode(float value) noexcept {
    return static_cast<code_type>(std::nearbyint(std::clamp(value, -largest, largest) + largest));
  }
  static float decode(code_type code) noexcept { return static_cast<float>(code) - largest; }
  static bool is_finite(code_type code) noexcept { return code <= 15; }
  code_type bits = 0;
};

TEST(UserFormats, WithoutAZeroKeepRowsOfZerosSmall) {
  std::vector<float> weights = ecq_test::gaussian(4, 256), decoded(weights.size());
  std::fill_n(weights.begin() + 512, 256, 0.0F);
  const auto packed = ecq::compressor<levels_without_zero, ecq::rans, ecq::absmax>{}.compress(
      matrix_view<const float>(weights.data(), 4, 256));
  ASSERT_TRUE(packed) << packed.error().to_string();
  ASSERT_TRUE(ecq::decompress(cpu{}, *packed, matrix_view(decoded.data(), 4, 256)));
  for (std::size_t at = 512; at < 768; ++at) EXPECT_LT(std::fabs(decoded[at]), 1e-30F);
}

TEST(UserFormats, MeetTargetBitsWhereTheyAreSymmetric) {
  const auto weights = ecq_test::row_varying(256, 512);
  const auto check = [&]<class Format>() {
    const auto packed = ecq::compressor<Format, ecq::rans, ecq::entquant>{{.target_bits = 3.0}}.compress(
        matrix_view(weights.data(), 256, 512));
    ASSERT_TRUE(packed) << packed.error().to_string();
    EXPECT_NEAR(packed->bits_per_weight(), 3.0, 0.02) << Format::name;
    EXPECT_EQ(packed->matrices[0].values.size(), 256U);
  };
  check.operator()<ecq_test::fp8_e3m4>();
  check.operator()<ecq_test::two_for_one>();
}

TEST(UserFormats, ThatCountFromAZeroPointAreUint8) {
  const auto weights = ecq_test::row_varying(rows, columns);
  const auto packed = ecq::compressor<ecq_test::uint5, ecq::huffman, ecq::entrollm>{}.compress(
      matrix_view(weights.data(), rows, columns));
  ASSERT_TRUE(packed) << packed.error().to_string();
  EXPECT_EQ(packed->matrices[0].format, dtype::uint8);
  std::vector<float> back(rows * columns);
  ASSERT_TRUE(ecq::decompress(cpu{}, *packed, matrix_view(back.data(), rows, columns)));
  const float step = std::abs(static_cast<float>(packed->matrices[0].scales[0]));
  for (std::size_t at = 0; at < back.size(); ++at) EXPECT_NEAR(back[at], weights[at], 0.51F * step);
}

}  // namespace
