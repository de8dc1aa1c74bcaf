// Stacks of matrices, such as experts: each row of each matrix has its own scale, as if all were one matrix.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "ecq/checkpoint/compress_checkpoint.hpp"
#include "ecq/checkpoint/decompress_checkpoint.hpp"
#include "ecq/checkpoint/verify_checkpoint.hpp"
#include "ecq/container/reader.hpp"
#include "ecq/io/checkpoint.hpp"
#include "support/files.hpp"
#include "support/models.hpp"
#include "support/weights.hpp"

namespace {

using ecq::any_method;
using ecq::compress_options;
using ecq::cpu;
using ecq::dtype;
using ecq::entquant;

class Stack : public testing::Test {
 protected:
  Stack() {
    const std::string weights = ecq_test::bytes_of<ecq::bf16>(ecq_test::row_varying(96, 256, 5));
    ecq_test::write_model(folder / "stack.safetensors", {{"layers.0.experts", "BF16", {2, 3, 16, 256}, weights}});
    ecq_test::write_model(folder / "flat.safetensors", {{"layers.0.experts", "BF16", {96, 256}, weights}});
  }

  std::filesystem::path compressed(const std::string& name) const { return folder / (name + ".ecq.safetensors"); }

  ecq::result<ecq::compress_report> compress(const std::string& name, const compress_options& options) const {
    return ecq::compress_checkpoint(cpu{}, folder / (name + ".safetensors"), compressed(name), options);
  }

  /// Returns the only matrix of a container, and its stream.
  ecq::packed_block block(const std::string& name) const {
    const auto container = ecq::container_reader::open(compressed(name));
    const auto mapped = container->load(0);
    return {{mapped->matrices.begin(), mapped->matrices.end()}, {mapped->stream.begin(), mapped->stream.end()}};
  }

  ecq_test::temporary_folder folder;
};

TEST_F(Stack, IsCompressedLikeOneMatrix) {
  using grouped = ecq::basic_entquant<ecq::row_root<>, ecq::per_group>;
  const std::vector<any_method> methods{
      any_method(entquant{.target_bits = 3.0}),
      any_method(dtype::int8, entquant{.lambda = 20.0}),
      any_method(ecq::tcq{.target_bits = 3.0}),
      any_method(ecq::entrollm{}),
      any_method::of<ecq::int8>(grouped{.target_bits = 4.0, .granularity = {.size = 64}}),
      any_method(ecq::lossless_weights{})};
  for (const any_method& method : methods) {
    for (const char* const name : {"stack", "flat"}) {
      const auto report = compress(name, {.method = method});
      ASSERT_TRUE(report) << name << ": " << report.error().to_string();
      const auto verified =
          ecq::verify_checkpoint(cpu{}, compressed(name), folder / (std::string(name) + ".safetensors"));
      ASSERT_TRUE(verified) << name << ": " << verified.error().to_string();
      if (verified->total.count != 0) {
        EXPECT_LT(verified->total.relative_l1(), 0.2);
      }
      const auto restored = folder / (std::string(name) + ".restored");
      ASSERT_TRUE(ecq::decompress_checkpoint(cpu{}, compressed(name), restored));
    }
    const auto stack = block("stack"), flat = block("flat");
    EXPECT_EQ(stack.stream, flat.stream);
    EXPECT_EQ(stack.matrices[0].scales.size(), flat.matrices[0].scales.size());
    EXPECT_TRUE(stack.matrices[0].scales == flat.matrices[0].scales);
    EXPECT_EQ(stack.matrices[0].layout.rows, 2U);
    EXPECT_EQ(stack.matrices[0].layout.columns, 3U * 16 * 256);
    const auto one = ecq::checkpoint::open(folder / "stack.restored");
    const auto other = ecq::checkpoint::open(folder / "flat.restored");
    ASSERT_TRUE(one && other);
    EXPECT_EQ(ecq_test::as_text(one->bytes(one->tensors()[0])), ecq_test::as_text(other->bytes(other->tensors()[0])));
  }
}

TEST_F(Stack, HasAScaleForEachRowOfEachMatrix) {
  ASSERT_TRUE(compress("stack", {.method = entquant{.target_bits = 3.0}}));
  const auto matrix = block("stack").matrices[0];
  EXPECT_EQ(matrix.layout, (ecq::group_layout{2, 3 * 16 * 256, 1, 256}));
}

TEST_F(Stack, KeepsExactWeightsOfItsRows) {
  compress_options options{.method = entquant{.target_bits = 3.0}};
  options.exact.places["layers.0.experts"] = {{95, 255}, {1, 3}};
  ASSERT_TRUE(compress("stack", options));
  const auto exact = block("stack").matrices[0].exact;
  ASSERT_EQ(exact.size(), 2U);
  EXPECT_EQ(exact[0].position, 259U);
  EXPECT_EQ(exact[1].position, 96U * 256 - 1);
}

TEST_F(Stack, RefusesGroupsThatDoNotDivideItsRows) {
  using grouped = ecq::basic_entquant<ecq::row_root<>, ecq::per_group>;
  const any_method method = any_method::of<ecq::int8>(grouped{.lambda = 4.0, .granularity = {.size = 100}});
  ASSERT_TRUE(compress("flat", {.method = method}));
  const auto refused = compress("stack", {.method = method});
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message().find("groups of 1 x 100 weights do not divide its rows of 256"),
            std::string::npos)
      << refused.error().to_string();
}

// Scales of blocks in each matrix of a stack of FP8 act like scales of blocks in one matrix, if no block spans two.
TEST_F(Stack, OfFp8IsMultipliedByTheScalesOfItsMatrices) {
  const std::string codes = ecq_test::bytes_of<ecq::fp8_e4m3>(ecq_test::gaussian(512, 256, 3, 40.0F));
  const std::string scales = ecq_test::bytes_of<float>({0.1F, 0.2F, 0.3F, 0.4F, 0.5F, 0.6F, 0.7F, 0.8F});
  const auto write = [&](const char* name, std::vector<std::uint64_t> shape, std::vector<std::uint64_t> of_scales) {
    ecq_test::write_model(folder / (std::string(name) + ".safetensors"),
                          {{"layers.0.experts", "F8_E4M3", std::move(shape), codes},
                           {"layers.0.experts_scale_inv", "F32", std::move(of_scales), scales}});
    const auto report = compress(name, {.method = entquant{.lambda = 5.0}});
    ASSERT_TRUE(report) << name << ": " << report.error().to_string();
    EXPECT_EQ(report->unpacked, 1U);
  };
  write("stack", {2, 256, 256}, {2, 2, 2});
  write("flat", {512, 256}, {4, 2});
  EXPECT_EQ(block("stack").stream, block("flat").stream);
  EXPECT_TRUE(block("stack").matrices[0].scales == block("flat").matrices[0].scales);
  const auto verified = ecq::verify_checkpoint(cpu{}, compressed("stack"), folder / "stack.safetensors");
  ASSERT_TRUE(verified) << verified.error().to_string();
  EXPECT_LT(verified->total.relative_l1(), 0.15);
}

// Kernels of convolutions are not stacks: their rows are channels.
TEST(StackOfMatrices, HasLongRows) {
  const std::vector<std::uint64_t> experts{8, 16, 256}, kernels{8, 16, 255}, matrix{8, 256};
  EXPECT_TRUE(ecq::detail::is_stack(experts));
  EXPECT_FALSE(ecq::detail::is_stack(kernels));
  EXPECT_FALSE(ecq::detail::is_stack(matrix));
}

}  // namespace
