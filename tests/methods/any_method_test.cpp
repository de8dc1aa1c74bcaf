// Files are compressed by the same methods as matrices: shipped ones, user-defined policies, and whole user-defined
// methods.

#include "ecq/methods/any_method.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ecq/checkpoint/compress_checkpoint.hpp"
#include "ecq/checkpoint/decompress_checkpoint.hpp"
#include "ecq/checkpoint/inspect_checkpoint.hpp"
#include "ecq/compressor.hpp"
#include "ecq/container/reader.hpp"
#include "ecq/io/checkpoint.hpp"
#include "ecq/lossless.hpp"
#include "support/files.hpp"
#include "support/models.hpp"
#include "support/user_policies.hpp"
#include "support/weights.hpp"

namespace {

using ecq::any_method;
using ecq::compressor;
using ecq::cpu;
using ecq::dtype;
using ecq::entquant;
using ecq::errc;
using ecq::matrix_view;
using ecq::named_weights;

/// Two matrices of one block.
class MethodOfFiles : public testing::Test {
 protected:
  void SetUp() override {
    ecq_test::write_model(original, {{"layers.0.a", "F32", {200, 3, 50}, ecq_test::bytes_of<float>(first)},
                                     {"layers.0.b", "F32", {96, 250}, ecq_test::bytes_of<float>(second)}});
  }

  /// Returns the block's stream in a file.
  std::vector<std::byte> in_file(const any_method& method, std::size_t block = 0) {
    const auto report = ecq::compress_checkpoint(cpu{}, original, packed, {.method = method});
    EXPECT_TRUE(report) << report.error().to_string();
    const auto container = ecq::container_reader::open(packed);
    EXPECT_TRUE(container) << container.error().to_string();
    if (!container) return {};
    const auto loaded = container->load(block);
    EXPECT_TRUE(loaded) << loaded.error().to_string();
    return loaded ? std::vector<std::byte>(loaded->stream.begin(), loaded->stream.end()) : std::vector<std::byte>();
  }

  /// Returns the block's stream by a codec of matrices.
  template <class Codec>
  std::vector<std::byte> in_memory(const Codec& codec) const {
    const auto block = codec.compress(cpu{}, std::span(matrices));
    EXPECT_TRUE(block) << block.error().to_string();
    return block ? block->stream : std::vector<std::byte>();
  }

  std::vector<float> first = ecq_test::row_varying(200, 150);
  std::vector<float> second = ecq_test::gaussian(96, 250, 7);
  std::vector<named_weights> matrices = {{"layers.0.a", matrix_view<const float>(first.data(), 200, 150)},
                                         {"layers.0.b", matrix_view<const float>(second.data(), 96, 250)}};
  ecq_test::temporary_folder folder;
  std::filesystem::path original = folder / "model.safetensors";
  std::filesystem::path packed = folder / "packed.safetensors";
  std::filesystem::path restored = folder / "restored.safetensors";
};

TEST_F(MethodOfFiles, MakesTheStreamsOfTheCompressor) {
  for (const entquant& how :
       {entquant{.target_bits = 3.0}, entquant{.lambda = 14.5}, entquant{.target_bits = 4.0, .each_matrix = true}}) {
    EXPECT_EQ(in_file(how), in_memory(compressor<>{how}));
    EXPECT_EQ(in_file({dtype::int8, how}), in_memory(compressor<ecq::int8>{how}));
  }
}

TEST_F(MethodOfFiles, MakesTheStreamsOfTheLosslessCodec) {
  for (const bool pairs : {false, true}) {
    const ecq::lossless<ecq::fp32> codec{{.pairs = pairs}};
    const auto alone = codec.compress(matrices[1].weights);
    ASSERT_TRUE(alone);
    ecq_test::write_model(original, {{"layers.0.b", "F32", {96, 250}, ecq_test::bytes_of<float>(second)}});
    EXPECT_EQ(in_file(ecq::lossless_weights{.pairs = pairs}), alone->stream);
  }
}

TEST_F(MethodOfFiles, TakesPoliciesOfAUser) {
  const ecq::basic_entquant<ecq::row_root<ecq_test::cubic_error>> cubic{.target_bits = 3.0};
  EXPECT_EQ(in_file(any_method::of<ecq::fp8_e4m3>(cubic)),
            in_memory(compressor<ecq::fp8_e4m3, ecq::rans, decltype(cubic)>{cubic}));
  const ecq::basic_entquant<ecq::row_root<>, ecq_test::per_two_rows> coarse{.target_bits = 3.0};
  EXPECT_EQ(in_file(any_method::of<ecq::int8>(coarse)),
            in_memory(compressor<ecq::int8, ecq::rans, decltype(coarse)>{coarse}));
}

// A file carries the values of a format that it cannot name, so that such formats can be read back as well.
TEST_F(MethodOfFiles, TakesFormatsOfAUser) {
  EXPECT_EQ(in_file(any_method::of<ecq_test::fp8_e3m4>(entquant{.lambda = 2.0})),
            in_memory(compressor<ecq_test::fp8_e3m4>{{.lambda = 2.0}}));
  EXPECT_EQ(in_file(any_method::of<ecq_test::clustered>(ecq::absmax{})),
            in_memory(compressor<ecq_test::clustered, ecq::rans, ecq::absmax>{}));
  ASSERT_TRUE(ecq::decompress_checkpoint(cpu{}, packed, restored));
  const auto model = ecq::checkpoint::open(restored);
  ASSERT_TRUE(model);
  const auto weights = ecq::as_weights(*model->find("layers.0.b"), model->bytes(*model->find("layers.0.b")));
  ASSERT_TRUE(weights);
  std::vector<float> row(250);
  double error = 0, size = 0;
  for (std::size_t r = 0; r < 96; ++r) {
    weights->load(r, 0, row);
    for (std::size_t c = 0; c < 250; ++c) {
      error += std::fabs(row[c] - second[r * 250 + c]);
      size += std::fabs(second[r * 250 + c]);
    }
  }
  EXPECT_LT(error, 0.1 * size);
  EXPECT_GT(error, 0.0);
}

/// Stores the weights as they are, like lossless_weights, and counts the matrices that it gets.
class told final : public ecq::compression_method {
 public:
  explicit told(int& asked) : asked_(asked) {}
  std::string settings() const override { return "told"; }
  bool lossless() const override { return true; }
  ecq::result<std::unique_ptr<const ecq::prepared_method>> prepare(const cpu& backend, ecq::matrix_streams streams,
                                                                   const ecq::method_setting& setting) const override {
    for (const auto& stream : streams) asked_ += static_cast<int>(stream.size());
    return ecq::detail::lossless_method({}).prepare(backend, streams, setting);
  }

 private:
  int& asked_;
};

TEST_F(MethodOfFiles, IsWhateverAUserDefines) {
  int asked = 0;
  in_file(any_method(std::make_shared<const told>(asked)));
  EXPECT_EQ(asked, 2);
  const auto container = ecq::container_reader::open(packed);
  ASSERT_TRUE(container);
  EXPECT_TRUE(container->blocks()[0].matrices[1].lossless());
  ASSERT_TRUE(ecq::decompress_checkpoint(cpu{}, packed, restored));
  EXPECT_EQ(ecq_test::read_file(restored), ecq_test::read_file(original));
}

TEST(AnyMethod, SaysHowItWasSet) {
  const auto settings = [](const any_method& method) {
    const auto found = method.get();
    return found ? (*found)->settings() : found.error().to_string();
  };
  EXPECT_EQ(settings(entquant{.target_bits = 3.0}), "fp8_e4m3, entquant, bits 3.000000");
  EXPECT_EQ(settings({dtype::int8, entquant{.lambda = 14.5}}), "int8, entquant, lambda 14.500000");
  EXPECT_EQ(settings(ecq::entrollm{}), "uint8, entrollm");
  EXPECT_EQ(settings({dtype::uint4, ecq::entrollm{}}), "uint4, entrollm");
  EXPECT_EQ(settings(ecq::lossless_weights{}), "lossless");
  EXPECT_EQ(settings(ecq::lossless_weights{.pairs = true}), "lossless, pairs");
  EXPECT_EQ(settings(any_method::of<ecq::int8>(ecq::absmax{})), "int8, absmax");
}

TEST(AnyMethod, RefusesCodesThatAQuantiserDoesNotMake) {
  const auto code = [](const any_method& method) {
    const auto found = method.get();
    return found ? errc::ok : found.error().code();
  };
  for (const dtype wrong :
       {dtype::bf16, dtype::fp32, dtype::uint8, dtype::uint4, dtype::table, static_cast<dtype>(99)}) {
    EXPECT_EQ(code({wrong, entquant{.lambda = 1.0}}), errc::invalid_argument);
  }
  for (const dtype wrong : {dtype::bf16, dtype::int8, dtype::fp8_e4m3, dtype::table}) {
    EXPECT_EQ(code({wrong, ecq::entrollm{}}), errc::invalid_argument);
  }
  EXPECT_EQ(code({}), errc::invalid_argument);
  EXPECT_EQ(code(entquant{.target_bits = 3.0, .lambda = 1.0}), errc::invalid_argument);
  EXPECT_EQ(code(entquant{.lambda = 1.0, .each_matrix = true}), errc::invalid_argument);
  EXPECT_EQ(code(std::shared_ptr<const ecq::compression_method>()), errc::invalid_argument);
}

// Two matrices whose rates differ at the same lambda each meet the target.
TEST(EachMatrix, MeetsTargetBitsByItself) {
  const auto dense = ecq_test::gaussian(300, 512, 1);
  auto sparse = ecq_test::gaussian(300, 512, 2);
  for (std::size_t i = 0; i < sparse.size(); i += 3) sparse[i] = 0;
  const std::vector<named_weights> matrices = {{"dense", matrix_view<const float>(dense.data(), 300, 512)},
                                               {"sparse", matrix_view<const float>(sparse.data(), 300, 512)}};
  const auto difference = [&](bool each_matrix) {
    const compressor<> codec{{.target_bits = 3.0, .each_matrix = each_matrix}};
    const auto block = codec.compress(cpu{}, std::span(matrices));
    EXPECT_TRUE(block) << block.error().to_string();
    EXPECT_NEAR(block->bits_per_weight(), 3.0, 0.02);
    std::vector<double> rates;
    const auto decoder = ecq::block_decoder::open(*block);
    EXPECT_TRUE(decoder);
    for (std::size_t index = 0; index < matrices.size(); ++index) {
      std::vector<std::uint8_t> codes(300 * 512);
      EXPECT_TRUE(decoder->decode_codes(cpu{}, index, 0, 300, std::as_writable_bytes(std::span(codes))));
      rates.push_back(ecq::entropy_of(*ecq::count_codes(cpu{}, codes)));
    }
    return std::fabs(rates[0] - rates[1]);
  };
  const double together = difference(false);
  EXPECT_GT(together, 0.1);
  EXPECT_LT(difference(true), ecq::rate_correction::tolerance);
}

// Each weight of the small matrix has a scale, which takes more bits than the target. Beside another matrix, it takes
// the lambda of that one.
TEST(EachMatrix, LeavesSmallOnesTheLambdaOfOthers) {
  const auto large = ecq_test::gaussian(300, 512, 1), small = ecq_test::gaussian(400, 1, 2);
  std::vector<named_weights> matrices = {{"small", matrix_view<const float>(small.data(), 400, 1)},
                                         {"large", matrix_view<const float>(large.data(), 300, 512)}};
  const compressor<> codec{{.target_bits = 3.0, .each_matrix = true}};
  const auto block = codec.compress(cpu{}, std::span(matrices));
  ASSERT_TRUE(block) << block.error().to_string();
  EXPECT_NEAR(block->bits_per_weight(), 3.0, 0.02);
  const compressor<> finest{{.target_bits = 8.0, .each_matrix = true}};  // where the other one takes AbsMax
  const auto absmax_beside = finest.compress(cpu{}, std::span(matrices));
  EXPECT_TRUE(absmax_beside) << absmax_beside.error().to_string();
  matrices.pop_back();
  const auto alone = codec.compress(cpu{}, std::span(matrices));
  ASSERT_FALSE(alone);
  EXPECT_EQ(alone.error().code(), errc::unreachable_target);
  EXPECT_NE(alone.error().message().find("'small'"), std::string::npos) << alone.error().to_string();
}

}  // namespace
