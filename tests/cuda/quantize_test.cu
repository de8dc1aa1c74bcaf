// Codes, scales and lambdas of a device, compared with the CPU's.

#include "ecq/cuda/quantize.cuh"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cuda/device_matrix.cuh"
#include "cuda/device_memory.cuh"
#include "ecq/format/fp8_e4m3.hpp"
#include "ecq/format/int8.hpp"
#include "ecq/quantize/entquant.hpp"
#include "support/weights.hpp"

namespace {

using ecq::bf16;
using ecq::errc;
using ecq_test::copy_to_device;
using ecq_test::device_memory;
using matrix = ecq_test::device_matrix;

class QuantizeOnDevice : public ecq_test::device_test {};

template <unsigned Threads>
__global__ void fold_kernel(const double* numbers, ecq::detail::group_sums* sums) {
  __shared__ ecq::row_group_memory<Threads> memory;
  const ecq::device_row_group<Threads> group(memory, nullptr);
  const auto all = [](const ecq::detail::group_sums& folded) { return folded; };
  sums[threadIdx.x] = group.decide({numbers[threadIdx.x], -numbers[threadIdx.x]}, all);
}

/// Expects equal sums to the last bit, on which codes and scales seldom depend.
template <unsigned Threads>
void expect_the_sum_of_the_host() {
  const auto some = ecq_test::student_t4(1, Threads);
  std::vector<double> numbers(some.begin(), some.end());
  for (double& number : numbers) number /= 3.0;
  const device_memory from(Threads * sizeof(double));
  const device_memory to(Threads * sizeof(ecq::detail::group_sums));
  copy_to_device(from, numbers);
  ASSERT_TRUE(ecq::detail::launch(ecq::cuda{}, "folding", &fold_kernel<Threads>, {1, Threads},
                                  reinterpret_cast<const double*>(from.data()),
                                  reinterpret_cast<ecq::detail::group_sums*>(to.data())));
  const double expected = ecq::detail::fold<Threads>(numbers.data());
  const auto bytes = to.read();
  for (std::size_t thread = 0; thread < Threads; ++thread) {
    double got[2];
    std::memcpy(got, bytes.data() + thread * sizeof got, sizeof got);
    ASSERT_EQ(got[0], expected) << thread;
    ASSERT_EQ(got[1], -expected) << thread;
  }
}

TEST_F(QuantizeOnDevice, SumsUpInTheOrderOfTheHost) {
  expect_the_sum_of_the_host<32>();
  expect_the_sum_of_the_host<256>();
}

std::vector<matrix> some_matrices() {
  std::vector<matrix> all;
  all.push_back(matrix::of<bf16>(ecq_test::gaussian(6, 512), 6));
  all.push_back(matrix::of<float>(ecq_test::row_varying(3, 77), 3, 3));
  all.push_back(matrix::of<ecq::fp16>(ecq_test::student_t4(2, 5000), 2, 1));
  all.push_back(matrix::of<bf16>(ecq_test::student_t4(1, 1), 1));
  all.push_back(matrix::of<bf16>(ecq_test::student_t4(2, 4104), 2));
  all.push_back(matrix::of<bf16>(ecq_test::gaussian(1, 60000), 1));  // longer than shared memory
  all.push_back(matrix::of<bf16>(ecq_test::gaussian(1, 50000), 1));
  return all;
}

/// Quantises all of `matrices` into one run of codes, and returns the verdict.
template <class Format>
ecq::result<void> quantized(const std::vector<matrix>& matrices, double lambda, std::vector<std::uint8_t>& codes,
                            std::vector<bf16>& scales) {
  std::size_t weights = 0;
  std::size_t rows = 0;
  for (const matrix& one : matrices) {
    weights += one.on_device().size();
    rows += one.on_device().rows;
  }
  const device_memory code_memory(weights);
  const device_memory scale_memory(2 * rows);
  std::vector<ecq::device_quantization> tasks;
  auto* code = reinterpret_cast<std::uint8_t*>(code_memory.data());
  auto* scale = reinterpret_cast<bf16*>(scale_memory.data());
  for (const matrix& one : matrices) {
    tasks.push_back({one.on_device(), code, scale});
    code += one.on_device().size();
    scale += one.on_device().rows;
  }
  const device_memory workspace(ecq::quantize_workspace_bytes(tasks));
  const device_memory flag(8);
  const ecq::cuda gpu;
  const ecq::device_verdict verdict(flag.data());
  EXPECT_TRUE(verdict.clear(gpu));
  ECQ_CHECK(ecq::quantize<Format>(gpu, tasks, lambda, workspace.data(), verdict));
  ECQ_CHECK(verdict.wait(gpu));
  codes.resize(weights);
  scales.resize(rows);
  std::memcpy(codes.data(), code_memory.read().data(), weights);
  std::memcpy(scales.data(), scale_memory.read().data(), 2 * rows);
  (void)workspace.read();
  return {};
}

template <class Format>
void expect_the_codes_of_the_host(const std::vector<matrix>& matrices, double lambda) {
  std::vector<std::uint8_t> codes;
  std::vector<bf16> scales;
  const auto done = quantized<Format>(matrices, lambda, codes, scales);
  ASSERT_TRUE(done) << done.error().to_string();
  std::size_t first_code = 0;
  std::size_t first_scale = 0;
  for (const matrix& one : matrices) {
    const ecq::weights_view weights = one.on_host();
    std::vector<std::uint8_t> expected(weights.size());
    std::vector<bf16> expected_scales(weights.rows());
    ASSERT_TRUE(ecq::entquant{.lambda = lambda}.quantize<Format>(ecq::cpu{}, weights, expected, expected_scales));
    ASSERT_EQ(std::memcmp(expected_scales.data(), scales.data() + first_scale, 2 * weights.rows()), 0)
        << weights.columns() << ", lambda " << lambda;
    ASSERT_EQ(std::memcmp(expected.data(), codes.data() + first_code, expected.size()), 0)
        << weights.columns() << ", lambda " << lambda;
    first_code += weights.size();
    first_scale += weights.rows();
  }
}

TEST_F(QuantizeOnDevice, GivesTheCodesOfTheHost) {
  const auto matrices = some_matrices();
  for (const double lambda : {0.0, 14.5}) expect_the_codes_of_the_host<ecq::fp8_e4m3>(matrices, lambda);
  expect_the_codes_of_the_host<ecq::int8>(matrices, 58.0);
}

TEST_F(QuantizeOnDevice, TakesSubnormalAndHugeWeights) {
  auto weights = ecq_test::gaussian(3, 300);
  for (std::size_t i = 0; i < 300; ++i) {
    weights[i] *= 0x1p-140F;
    weights[300 + i] *= 0x1p127F;
    weights[600 + i] *= i == 5 ? 0x1p100F : 0x1p-133F;
  }
  std::vector<matrix> matrices;
  matrices.push_back(matrix::of<float>(weights, 3));
  matrices.push_back(matrix::of<bf16>(weights, 3));
  for (const double lambda : {0.0, 0.3, 256.0}) expect_the_codes_of_the_host<ecq::fp8_e4m3>(matrices, lambda);
}

TEST_F(QuantizeOnDevice, NamesTheFirstWeightThatIsNotFinite) {
  for (const std::size_t columns : {100U, 4500U}) {
    auto weights = ecq_test::gaussian(3, columns);
    weights[columns + 41] = std::numeric_limits<float>::quiet_NaN();
    weights[2 * columns] = std::numeric_limits<float>::infinity();
    std::vector<matrix> matrices;
    matrices.push_back(matrix::of<bf16>(ecq_test::gaussian(2, 50), 2));
    matrices.push_back(matrix::of<float>(weights, 3));
    std::vector<std::uint8_t> codes;
    std::vector<bf16> scales;
    const auto done = quantized<ecq::fp8_e4m3>(matrices, 14.5, codes, scales);
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code(), errc::non_finite);
    EXPECT_NE(done.error().message().find(' ' + std::to_string(100 + columns + 41) + ','), std::string::npos)
        << done.error().message();
  }
}

TEST_F(QuantizeOnDevice, RefusesWhatMakesNoSense) {
  const device_memory memory(4096);
  const ecq::cuda gpu;
  const ecq::device_verdict verdict(memory.data());
  auto* const codes = reinterpret_cast<std::uint8_t*>(memory.data());
  const auto outcome = [&](const ecq::device_weights& weights, double lambda) {
    const ecq::device_quantization task = {weights, codes, reinterpret_cast<bf16*>(codes)};
    const auto done = ecq::quantize<ecq::int8>(gpu, std::span(&task, 1), lambda, memory.data(), verdict);
    return done ? errc::ok : done.error().code();
  };
  EXPECT_EQ(outcome({memory.data(), ecq::dtype::fp8_e4m3, 1, 1, 1}, 1), errc::unsupported);
  EXPECT_EQ(outcome({memory.data() + 1, ecq::dtype::bf16, 1, 1, 1}, 1), errc::invalid_argument);
  EXPECT_EQ(outcome({memory.data(), ecq::dtype::bf16, 2, 4, 3}, 1), errc::invalid_argument);
  EXPECT_EQ(outcome({nullptr, ecq::dtype::bf16, 1, 1, 1}, 1), errc::invalid_argument);
  EXPECT_EQ(outcome({memory.data(), ecq::dtype::bf16, 1, 1, 1}, -1), errc::invalid_argument);
  EXPECT_EQ(outcome({memory.data(), ecq::dtype::bf16, 1, 1, 1}, std::numeric_limits<double>::quiet_NaN()),
            errc::invalid_argument);
}

// A kernel that accessed such an address would leave the device unusable.
TEST_F(QuantizeOnDevice, RefusesMemoryThatIsNotAligned) {
  const device_memory memory(1 << 16);
  std::byte* const at = memory.data();
  const ecq::device_weights weights = {at, ecq::dtype::bf16, 1, 1, 1};
  const auto outcome = [&](std::size_t scales, std::size_t lambda, std::size_t workspace, std::size_t flag) {
    const auto code_of = [](const auto& done) { return done ? errc::ok : done.error().code(); };
    const ecq::device_quantization task = {weights, reinterpret_cast<std::uint8_t*>(at),
                                           reinterpret_cast<bf16*>(at + scales)};
    const ecq::device_verdict verdict(at + flag);
    auto* const found = reinterpret_cast<double*>(at + lambda);
    const auto quantized = code_of(ecq::quantize<ecq::int8>({}, std::span(&task, 1), found, at + workspace, verdict));
    if (scales % 2 == 0) {
      EXPECT_EQ(
          code_of(ecq::lambda_for_bits<ecq::int8>({}, std::span(&weights, 1), 3, 0, found, at + workspace, verdict)),
          quantized);
    }
    if (lambda % 8 == 0) {
      EXPECT_EQ(code_of(ecq::quantize<ecq::int8>({}, std::span(&task, 1), 1.0, at + workspace, verdict)), quantized);
    }
    return quantized;
  };
  EXPECT_EQ(outcome(1, 512, 1024, 768), errc::invalid_argument);
  EXPECT_EQ(outcome(2, 516, 1024, 768), errc::invalid_argument);
  EXPECT_EQ(outcome(2, 512, 1024 + 128, 768), errc::invalid_argument);
  EXPECT_EQ(outcome(2, 512, 1024, 772), errc::invalid_argument);
  EXPECT_EQ(outcome(2, 512, 1024, 768), errc::ok);
  const ecq::device_quantization task = {weights, reinterpret_cast<std::uint8_t*>(at), reinterpret_cast<bf16*>(at)};
  EXPECT_FALSE(ecq::quantize<ecq::int8>({}, std::span(&task, 1), 1.0, nullptr, ecq::device_verdict(at)));
  EXPECT_FALSE(ecq::quantize<ecq::int8>({}, std::span(&task, 1), 1.0, at + 1024, ecq::device_verdict(nullptr)));
}

TEST_F(QuantizeOnDevice, TellsOfALambdaThatMakesNoSense) {
  const matrix one = matrix::of<bf16>(ecq_test::gaussian(2, 40), 2);
  const device_memory codes(80);
  const device_memory scales(4);
  const device_memory lambda(sizeof(double));
  const device_memory flag(8);
  const ecq::device_quantization task = {one.on_device(), reinterpret_cast<std::uint8_t*>(codes.data()),
                                         reinterpret_cast<bf16*>(scales.data())};
  const device_memory workspace(ecq::quantize_workspace_bytes(std::span(&task, 1)));
  const ecq::cuda gpu;
  const ecq::device_verdict verdict(flag.data());
  for (const double bad : {-1.0, 1e30, std::numeric_limits<double>::quiet_NaN()}) {
    copy_to_device(lambda, std::vector<double>{bad});
    ASSERT_TRUE(verdict.clear(gpu));
    ASSERT_TRUE(ecq::quantize<ecq::int8>(gpu, std::span(&task, 1), reinterpret_cast<const double*>(lambda.data()),
                                         workspace.data(), verdict));
    const auto done = verdict.wait(gpu);
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code(), errc::invalid_argument);
  }
}

/// Expects the device to find the host's lambda for one stream.
template <class Format>
void expect_the_lambda_of_the_host(const std::vector<matrix>& matrices, double target, std::uint64_t sample_limit) {
  const ecq::rate_options options = {.sample_limit = sample_limit};
  static constexpr double overhead = 5000;
  std::vector<ecq::rate_input> inputs;
  std::vector<ecq::device_weights> weights;
  for (const matrix& one : matrices) {
    inputs.push_back({one.on_host(), 0});
    weights.push_back(one.on_device());
  }
  const auto expected = ecq::lambda_for_bits<Format>(
      ecq::cpu{}, inputs, target, [](std::size_t, std::uint64_t) { return overhead; }, options);
  const device_memory lambda(sizeof(double));
  const device_memory workspace(ecq::lambda_workspace_bytes(weights, options));
  const device_memory flag(8);
  const ecq::cuda gpu;
  const ecq::device_verdict verdict(flag.data());
  ASSERT_TRUE(verdict.clear(gpu));
  ASSERT_TRUE(ecq::lambda_for_bits<Format>(gpu, weights, target, overhead, reinterpret_cast<double*>(lambda.data()),
                                           workspace.data(), verdict, options));
  const auto done = verdict.wait(gpu);
  (void)workspace.read();
  ASSERT_EQ(done.has_value(), expected.has_value()) << target;
  if (!expected) {
    EXPECT_EQ(done.error().code(), expected.error().code());
    return;
  }
  double got = 0;
  std::memcpy(&got, lambda.read().data(), sizeof got);
  EXPECT_EQ(got, *expected) << target << " bits, " << sample_limit;
}

TEST_F(QuantizeOnDevice, FindsTheLambdaOfTheHost) {
  std::vector<matrix> matrices;
  matrices.push_back(matrix::of<bf16>(ecq_test::gaussian(16, 256), 16));
  matrices.push_back(matrix::of<bf16>(ecq_test::student_t4(7, 100), 7));
  matrices.push_back(matrix::of<float>(ecq_test::gaussian(1, 5000), 1));
  for (const double target : {2.6, 4.0, 20.0, 0.05}) {
    expect_the_lambda_of_the_host<ecq::fp8_e4m3>(matrices, target, std::uint64_t{1} << 22);
  }
  expect_the_lambda_of_the_host<ecq::int8>(matrices, 3.5, 3000);
}

TEST_F(QuantizeOnDevice, QuantisesAtALambdaThatItFound) {
  const matrix one = matrix::of<bf16>(ecq_test::gaussian(20, 512), 20);
  const device_memory codes(20 * 512);
  const device_memory scales(40);
  const device_memory lambda(sizeof(double));
  const device_memory flag(8);
  const ecq::device_quantization task = {one.on_device(), reinterpret_cast<std::uint8_t*>(codes.data()),
                                         reinterpret_cast<bf16*>(scales.data())};
  const device_memory search(ecq::lambda_workspace_bytes(std::span(&task.weights, 1)));
  const device_memory workspace(ecq::quantize_workspace_bytes(std::span(&task, 1)));
  const ecq::cuda gpu;
  const ecq::device_verdict verdict(flag.data());
  auto* const found = reinterpret_cast<double*>(lambda.data());
  ASSERT_TRUE(verdict.clear(gpu));
  ASSERT_TRUE(
      ecq::lambda_for_bits<ecq::fp8_e4m3>(gpu, std::span(&task.weights, 1), 3.0, 0.0, found, search.data(), verdict));
  ASSERT_TRUE(ecq::quantize<ecq::fp8_e4m3>(gpu, std::span(&task, 1), found, workspace.data(), verdict));
  ASSERT_TRUE(verdict.wait(gpu));
  std::vector<std::uint8_t> expected(20 * 512);
  std::vector<bf16> expected_scales(20);
  ASSERT_TRUE(
      ecq::entquant{.target_bits = 3.0}.quantize<ecq::fp8_e4m3>(ecq::cpu{}, one.on_host(), expected, expected_scales));
  EXPECT_EQ(std::memcmp(codes.read().data(), expected.data(), expected.size()), 0);
  EXPECT_EQ(std::memcmp(scales.read().data(), expected_scales.data(), 40), 0);
}

}  // namespace
