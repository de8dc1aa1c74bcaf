// Blocks that a device compresses, compared byte for byte with the CPU's.

#include "ecq/cuda/compress.cuh"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "cuda/device_matrix.cuh"
#include "cuda/device_memory.cuh"
#include "ecq/cuda/decompress.cuh"
#include "ecq/decompress.hpp"
#include "ecq/format/int8.hpp"
#include "support/weights.hpp"

namespace {

using ecq::bf16;
using ecq::errc;
using ecq_test::device_matrix;
using ecq_test::device_memory;

class CompressOnDevice : public ecq_test::device_test {};

template <class Format>
using codec = ecq::compressor<Format, ecq::rans, ecq::entquant>;

std::vector<ecq::device_weights> on_device(const std::vector<device_matrix>& matrices) {
  std::vector<ecq::device_weights> all;
  for (const device_matrix& matrix : matrices) all.push_back(matrix.on_device());
  return all;
}

/// Compresses `matrices` on the device, and calls `use(packed, verdict)`, which returns a result, while their block is
/// there.
template <class Format, class Use>
auto with_compressed(const codec<Format>& how, const std::vector<device_matrix>& matrices, Use&& use)
    -> decltype(use(std::declval<const ecq::device_packed_block&>(), std::declval<const ecq::device_verdict&>())) {
  const ecq::cuda gpu;
  const auto weights = on_device(matrices);
  ECQ_TRY(bytes, ecq::compression_bytes(how, weights));
  const device_memory block(bytes.block);
  const device_memory workspace(bytes.workspace);
  const device_memory flag(8);
  const ecq::device_verdict verdict(flag.data());
  ECQ_CHECK(verdict.clear(gpu));
  ECQ_TRY(packed, ecq::compress(gpu, how, weights, {block.data(), block.size()}, {workspace.data(), workspace.size()},
                                verdict));
  auto made = use(packed, verdict);
  block.read();
  workspace.read();
  return made;
}

/// Compresses `matrices` on the device, and returns the block, fetched from there.
template <class Format>
ecq::result<ecq::packed_block> compressed(const codec<Format>& how, const std::vector<device_matrix>& matrices) {
  return with_compressed(how, matrices,
                         [](const auto& packed, const auto& verdict) { return packed.fetch({}, verdict); });
}

template <class Format>
ecq::result<ecq::packed_block> compressed_by_cpu(const codec<Format>& how, const std::vector<device_matrix>& matrices) {
  std::vector<ecq::named_weights> weights;
  for (const device_matrix& matrix : matrices) weights.push_back({{}, matrix.on_host()});
  return how.compress(ecq::cpu{}, weights);
}

template <class Format>
void expect_the_block_of_the_cpu(const codec<Format>& how, const std::vector<device_matrix>& matrices) {
  const auto expected = compressed_by_cpu(how, matrices);
  ASSERT_TRUE(expected) << expected.error().message();
  const auto found = compressed(how, matrices);
  ASSERT_TRUE(found) << found.error().message();
  EXPECT_EQ(found->stream, expected->stream);
  ASSERT_EQ(found->matrices.size(), expected->matrices.size());
  for (std::size_t i = 0; i < found->matrices.size(); ++i) {
    const ecq::packed_matrix& one = found->matrices[i];
    const ecq::packed_matrix& other = expected->matrices[i];
    EXPECT_EQ(one.shape, other.shape) << i;
    EXPECT_EQ(one.original, other.original) << i;
    EXPECT_EQ(one.format, other.format) << i;
    EXPECT_EQ(one.first_symbol, other.first_symbol) << i;
    EXPECT_EQ(one.layout.count(), other.layout.count()) << i;
    ASSERT_EQ(one.scales.size(), other.scales.size()) << i;
    for (std::size_t row = 0; row < one.scales.size(); ++row) {
      EXPECT_EQ(one.scales[row].bits, other.scales[row].bits) << i << ", " << row;
    }
  }
  EXPECT_TRUE(ecq::block_decoder::open(*found));
}

std::vector<device_matrix> some_matrices() {
  std::vector<device_matrix> all;
  all.push_back(device_matrix::of<bf16>(ecq_test::gaussian(40, 256), 40));
  all.push_back(device_matrix::of<float>(ecq_test::row_varying(7, 131), 7, 3));
  all.push_back(device_matrix::of<ecq::fp16>(ecq_test::student_t4(1, 1), 1));
  return all;
}

TEST_F(CompressOnDevice, GivesTheBlockOfTheCpuAtALambda) {
  expect_the_block_of_the_cpu<ecq::fp8_e4m3>({{.lambda = 14.5}}, some_matrices());
  expect_the_block_of_the_cpu<ecq::int8>({{.lambda = 0.0}, {.chunk_bits = 10}}, some_matrices());
  expect_the_block_of_the_cpu<ecq::int8>({{.lambda = 0.0}, {.goal = ecq::stream_goal::gpu}}, some_matrices());
}

/// Expects the block that the CPU makes at the lambda that the device has found.
template <class Format>
void expect_a_block_of(double bits, double tolerance, const std::vector<device_matrix>& matrices) {
  const codec<Format> how{{.target_bits = bits}};
  double lambda = -1;
  const auto found = with_compressed(how, matrices, [&](const auto& packed, const auto& verdict) {
    auto fetched = packed.fetch({}, verdict);
    EXPECT_EQ(cudaMemcpy(&lambda, packed.lambda, sizeof lambda, cudaMemcpyDeviceToHost), cudaSuccess);
    return fetched;
  });
  ASSERT_TRUE(found) << found.error().message();
  EXPECT_NEAR(found->bits_per_weight(), bits, tolerance);
  expect_the_block_of_the_cpu<Format>({{.lambda = lambda}}, matrices);
  const auto expected = compressed_by_cpu<Format>({{.lambda = lambda}}, matrices);
  ASSERT_TRUE(expected);
  EXPECT_EQ(found->stream, expected->stream);
}

// The host does not wait for the size of a device's block, so the rate depends on the search alone, which estimates the
// cost of a stream besides its codes.
TEST_F(CompressOnDevice, GivesABlockOfTargetBits) {
  std::vector<device_matrix> more = some_matrices();
  more.push_back(device_matrix::of<bf16>(ecq_test::gaussian(160, 256), 160));
  expect_a_block_of<ecq::fp8_e4m3>(3.0, 0.1, more);
  expect_a_block_of<ecq::int8>(9.5, 2.0, some_matrices());  // AbsMax takes less
}

struct weights_in_place {
  std::vector<std::byte> weights;
  std::vector<ecq::matrix_place> places;
};

// The device decodes a block where it has compressed it, to the same weights as the CPU.
TEST_F(CompressOnDevice, OpensWhatItCompressed) {
  const ecq::cuda gpu;
  const auto matrices = some_matrices();
  const codec<ecq::fp8_e4m3> how{{.lambda = 14.5}};
  const auto written =
      with_compressed(how, matrices, [&](const auto& packed, const auto& verdict) -> ecq::result<weights_in_place> {
        ECQ_TRY(opened, packed.open(gpu, verdict));
        const device_memory tables(opened.bytes());
        ECQ_TRY(resident, opened.upload(gpu, tables.data()));
        const device_memory out(resident.template bytes<float>());
        ECQ_CHECK(ecq::decompress<float>(gpu, resident, {out.data(), out.size()}, verdict));
        ECQ_CHECK(verdict.wait(gpu));
        return weights_in_place{out.read(), {opened.places().begin(), opened.places().end()}};
      });
  ASSERT_TRUE(written) << written.error().to_string();

  const auto by_cpu = compressed_by_cpu(how, matrices);
  ASSERT_TRUE(by_cpu);
  const auto decoder = ecq::block_decoder::open(*by_cpu);
  ASSERT_TRUE(decoder);
  for (std::size_t i = 0; i < by_cpu->matrices.size(); ++i) {
    const ecq::group_layout& layout = by_cpu->matrices[i].layout;
    std::vector<float> expected(layout.rows * layout.columns);
    ASSERT_TRUE(decoder->decode(ecq::cpu{}, i, 0, ecq::matrix_view(expected.data(), layout.rows, layout.columns)));
    EXPECT_EQ(std::memcmp(written->weights.data() + written->places[i].offset * sizeof(float), expected.data(),
                          expected.size() * sizeof(float)),
              0)
        << i;
  }
}

TEST_F(CompressOnDevice, SaysWithWhichLambda) {
  const auto matrices = some_matrices();
  for (const codec<ecq::fp8_e4m3>& how : {codec<ecq::fp8_e4m3>{{.lambda = 14.5}}, {{.target_bits = 3.0}}}) {
    double lambda = 0;
    const auto fetched = with_compressed(how, matrices, [&](const auto& packed, const auto& verdict) {
      auto block = packed.fetch({}, verdict);
      EXPECT_EQ(cudaMemcpy(&lambda, packed.lambda, sizeof lambda, cudaMemcpyDeviceToHost), cudaSuccess);
      return block;
    });
    ASSERT_TRUE(fetched) << fetched.error().to_string();
    EXPECT_EQ(lambda, how.quantizer.lambda.value_or(lambda));
    const auto again = compressed<ecq::fp8_e4m3>({{.lambda = lambda}}, matrices);
    ASSERT_TRUE(again) << again.error().to_string();
    EXPECT_EQ(again->stream, fetched->stream);
  }
}

TEST_F(CompressOnDevice, TakesBlocksWithoutWeights) {
  expect_the_block_of_the_cpu<ecq::fp8_e4m3>({{.lambda = 1.0}}, {});
  std::vector<device_matrix> none;
  none.push_back(device_matrix::of<bf16>({}, 1));
  expect_the_block_of_the_cpu<ecq::fp8_e4m3>({{.target_bits = 3.0}}, none);
  none.push_back(device_matrix::of<bf16>(ecq_test::row_varying(5, 40), 5));  // whose scales come first
  expect_the_block_of_the_cpu<ecq::fp8_e4m3>({{.lambda = 1.0}}, none);
}

TEST_F(CompressOnDevice, NamesWhatIsWrong) {
  const codec<ecq::fp8_e4m3> how{{.target_bits = 3.0}};
  auto weights = ecq_test::gaussian(4, 300);
  weights[777] = std::numeric_limits<float>::infinity();
  std::vector<device_matrix> damaged;
  damaged.push_back(device_matrix::of<float>(weights, 4));
  const auto infinite = compressed(how, damaged);
  ASSERT_FALSE(infinite);
  EXPECT_EQ(infinite.error().code(), errc::non_finite);
  EXPECT_NE(infinite.error().message().find("777"), std::string::npos) << infinite.error().message();

  const auto matrices = some_matrices();
  const auto unreachable = compressed<ecq::fp8_e4m3>({{.target_bits = 0.01}}, matrices);
  ASSERT_FALSE(unreachable);
  EXPECT_EQ(unreachable.error().code(), errc::unreachable_target);

  const auto list = on_device(matrices);
  EXPECT_EQ(ecq::compression_bytes(codec<ecq::fp8_e4m3>{}, list).error().code(), errc::invalid_argument);
  for (const ecq::stream_options& stream : {ecq::stream_options{.pairs = true},
                                            {.goal = ecq::stream_goal::cpu},
                                            {.narrow_pairs = 1},
                                            {.trellis = ecq::trellis{}}}) {
    EXPECT_EQ(ecq::compression_bytes(codec<ecq::fp8_e4m3>{{.lambda = 1.0}, stream}, list).error().code(),
              errc::unsupported);
  }
  EXPECT_EQ(
      ecq::compression_bytes(codec<ecq::fp8_e4m3>{{.target_bits = 3.0, .each_matrix = true}}, list).error().code(),
      errc::unsupported);
  const ecq::device_weights vast = {nullptr, ecq::dtype::bf16, std::size_t{1} << 40, std::size_t{1} << 40,
                                    std::size_t{1} << 40};
  EXPECT_EQ(ecq::compression_bytes(how, {&vast, 1}).error().code(), errc::limit_exceeded);

  const auto bytes = ecq::compression_bytes(how, list);
  ASSERT_TRUE(bytes);
  const device_memory block(bytes->block);
  const device_memory workspace(bytes->workspace);
  const device_memory flag(8);
  const ecq::device_verdict verdict(flag.data());
  const auto refused = [&](std::span<std::byte> kept, std::span<std::byte> working) {
    const auto packed = ecq::compress(ecq::cuda{}, how, list, kept, working, verdict);
    return !packed && packed.error().code() == errc::invalid_argument;
  };
  EXPECT_TRUE(refused({block.data(), block.size() - 1}, {workspace.data(), workspace.size()}));
  EXPECT_TRUE(refused({block.data(), block.size()}, {workspace.data(), workspace.size() - 1}));
}

}  // namespace
