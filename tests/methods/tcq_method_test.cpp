// Trellis-coded quantisation, from weights to blocks and files, and back.

#include "ecq/methods/tcq_method.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ecq/analysis/unbiased_error.hpp"
#include "ecq/checkpoint/compress_checkpoint.hpp"
#include "ecq/checkpoint/decompress_checkpoint.hpp"
#include "ecq/checkpoint/inspect_checkpoint.hpp"
#include "ecq/compressor.hpp"
#include "ecq/container/reader.hpp"
#include "ecq/decompress.hpp"
#include "ecq/io/checkpoint.hpp"
#include "ecq/methods/any_method.hpp"
#include "support/files.hpp"
#include "support/models.hpp"
#include "support/weights.hpp"

namespace {

using ecq::any_method;
using ecq::cpu;
using ecq::entquant;
using ecq::errc;
using ecq::matrix_view;
using ecq::named_weights;
using ecq::tcq;

ecq::result<ecq::packed_block> compress(const cpu& backend, const any_method& method,
                                        std::span<const named_weights> matrices, unsigned chunk_bits = 0) {
  ECQ_TRY(found, method.get());
  return ecq::detail::compress_block(backend, *found, matrices, {.chunk_bits = chunk_bits},
                                     ecq::detail::encode_function_of<ecq::rans>);
}

std::vector<float> decoded(const ecq::packed_block& block, std::size_t index = 0) {
  const auto& layout = block.matrices[index].layout;
  std::vector<float> out(layout.rows * layout.columns);
  const auto decoder = ecq::block_decoder::open(block);
  EXPECT_TRUE(decoder) << decoder.error().to_string();
  const auto done = decoder->decode(cpu{.threads = 2}, index, 0, matrix_view(out.data(), layout.rows, layout.columns));
  EXPECT_TRUE(done) << done.error().to_string();
  return out;
}

double sqnr_of(const ecq::packed_block& block, std::span<const named_weights> matrices) {
  ecq::weight_error all;
  for (std::size_t index = 0; index < matrices.size(); ++index) {
    const auto out = decoded(block, index);
    const auto& weights = matrices[index].weights;
    const auto error =
        ecq::measure_unbiased_error(cpu{}, weights, matrix_view(out.data(), weights.rows(), weights.columns()));
    EXPECT_TRUE(error);
    all += *error;
  }
  return all.sqnr_db();
}

class Tcq : public testing::Test {
 protected:
  std::vector<float> first = ecq_test::gaussian(100, 1030, 1), second = ecq_test::student_t4(150, 333, 2),
                     third = ecq_test::row_varying(192, 250, 3), one = {0.7F};
  std::vector<named_weights> matrices = {{"first", matrix_view<const float>(first.data(), 100, 1030)},
                                         {"one", matrix_view<const float>(one.data(), 1, 1)},
                                         {"none", matrix_view<const float>(nullptr, 0, 5)},
                                         {"second", matrix_view<const float>(second.data(), 150, 333)},
                                         {"third", matrix_view<const float>(third.data(), 192, 250)}};
};

TEST_F(Tcq, MeetsBits) {
  for (const double bits : {1.7, 3.0, 4.5}) {
    const auto block = compress(cpu{}, tcq{.target_bits = bits}, matrices);
    ASSERT_TRUE(block) << block.error().to_string();
    EXPECT_NEAR(block->bits_per_weight(), bits, 0.02);
    EXPECT_EQ(block->matrices[0].scales.size(), 100U);
    EXPECT_EQ(block->matrices[4].scales.size(), 1U);
  }
}

TEST_F(Tcq, IsAMethodOfTheCompressor) {
  const ecq::compressor<ecq::int8, ecq::rans, tcq> codec{{.lambda = 20.0}};
  const auto block = codec.compress(cpu{}, matrices);
  const auto other = compress(cpu{}, tcq{.lambda = 20.0}, matrices);
  ASSERT_TRUE(block && other);
  EXPECT_EQ(block->stream, other->stream);
}

using TcqFigures = Tcq;

TEST_F(TcqFigures, HasLessNoiseThanEntQuant) {
  for (const double bits : {2.1, 3.0}) {
    const auto block = compress(cpu{}, tcq{.target_bits = bits}, std::span(matrices).first(1));
    const auto other =
        compress(cpu{}, any_method(ecq::dtype::int8, entquant{.target_bits = bits}), std::span(matrices).first(1));
    ASSERT_TRUE(block && other);
    EXPECT_GT(sqnr_of(*block, std::span(matrices).first(1)), sqnr_of(*other, std::span(matrices).first(1)) + 0.6);
  }
}

TEST_F(Tcq, IsTheSameWithAnyThreadsAndInstructionSet) {
  for (unsigned state_bits = 2; state_bits <= 5; ++state_bits) {
    const tcq how{.state_bits = state_bits, .lambda = 30.0};
    const auto block = compress(cpu{}, how, matrices);
    ASSERT_TRUE(block) << block.error().to_string();
    for (const cpu& backend : {cpu{.threads = 3}, cpu{.isa = ecq::instruction_set::scalar}}) {
      const auto again = compress(backend, how, matrices);
      ASSERT_TRUE(again);
      EXPECT_EQ(again->stream, block->stream);
    }
    const auto header = ecq::stream_header::read(block->stream);
    ASSERT_TRUE(header);
    EXPECT_EQ(header->trellis, (ecq::trellis{.state_bits = state_bits, .period_bits = 14}));
  }
}

// Periods are no longer than chunks, which may be short because the user wants them to be.
TEST_F(Tcq, TakesShortChunksAndPeriods) {
  const auto chunks = compress(cpu{}, tcq{.lambda = 14.5}, matrices, 10);
  const auto periods = compress(cpu{}, tcq{.period_bits = 10, .lambda = 14.5}, matrices, 14);
  ASSERT_TRUE(chunks && periods);
  EXPECT_EQ(ecq::stream_header::read(chunks->stream)->trellis->period_bits, 10U);
  EXPECT_EQ(decoded(*chunks, 4), decoded(*periods, 4));
}

TEST_F(Tcq, DividesBitsByFactors) {
  matrices[0].lambda_factor = 16;
  const auto coarse = compress(cpu{}, tcq{.lambda = 5.0}, matrices);
  matrices[0].lambda_factor = 1;
  const auto fine = compress(cpu{}, tcq{.lambda = 5.0}, matrices);
  ASSERT_TRUE(coarse && fine);
  const auto noise = [&](const ecq::packed_block& block) {
    const auto out = decoded(block);
    return ecq::measure_unbiased_error(cpu{}, matrices[0].weights, matrix_view(out.data(), 100, 1030))->sqnr_db();
  };
  EXPECT_NEAR(noise(*fine) - noise(*coarse), 12, 2);
  EXPECT_LT(coarse->stream.size(), fine->stream.size());
}

TEST_F(Tcq, DividesBitsByFactorsOfRows) {
  std::vector<double> factors(100, 1);
  for (std::size_t row = 1; row < 100; row += 2) factors[row] = 16;
  matrices[0].row_factors = factors;
  const auto divided = compress(cpu{}, tcq{.target_bits = 3.0}, matrices);
  matrices[0].row_factors = {};
  const auto alike = compress(cpu{}, tcq{.target_bits = 3.0}, matrices);
  ASSERT_TRUE(divided && alike);
  EXPECT_NEAR(divided->bits_per_weight(), 3.0, 0.02);
  const auto noise = [&](const ecq::packed_block& block, std::size_t begin) {
    const auto out = decoded(block);
    return ecq::measure_unbiased_error(
               cpu{}, matrices[0].weights.row_range(begin, 99).every_row(2),
               ecq::weights_view(matrix_view(out.data(), 100, 1030)).row_range(begin, 99).every_row(2))
        ->sqnr_db();
  };
  EXPECT_NEAR(noise(*alike, 0), noise(*alike, 1), 1);
  EXPECT_NEAR(noise(*divided, 0) - noise(*divided, 1), 12, 2);
}

TEST_F(Tcq, RefusesFactorsThatDoNotFit) {
  for (const tcq& how : {tcq{.target_bits = 3.0}, tcq{.lambda = 14.5}}) {
    for (const std::vector<double>& wrong :
         {std::vector<double>(99, 1.0), std::vector<double>(101, 1.0), std::vector<double>(100, 0.0),
          std::vector<double>(100, std::numeric_limits<double>::infinity())}) {
      matrices[0].row_factors = wrong;
      const auto block = compress(cpu{}, how, matrices);
      ASSERT_FALSE(block);
      EXPECT_EQ(block.error().code(), errc::invalid_argument);
      EXPECT_NE(block.error().message().find("tensor 'first': "), std::string::npos) << block.error().message();
    }
  }
}

TEST_F(Tcq, TakesWeightsOfAnySize) {
  constexpr float huge = std::numeric_limits<float>::max();
  for (const float size : {0.0F, 1e-45F, 1e-38F, 1e-20F, 1e20F, 3e38F, huge}) {
    for (const double lambda : {0.0, 14.5}) {
      std::vector<float> weights(3000, size);
      for (std::size_t i = 0; i < weights.size(); i += 3) weights[i] = -size / 2;
      const named_weights matrix{"m", matrix_view<const float>(weights.data(), 30, 100)};
      const auto block = compress(cpu{}, tcq{.lambda = lambda}, {&matrix, 1});
      ASSERT_TRUE(block) << block.error().to_string();
      const auto out = decoded(*block);
      for (std::size_t i = 0; i < out.size(); ++i) {
        ASSERT_TRUE(std::isfinite(out[i])) << size;
        // Scales are normal numbers; those of the greatest weights may be lower by their rounding.
        if (size >= 1e-20F) {
          ASSERT_NEAR(out[i] / size, weights[i] / size, 0.3F) << size << ' ' << lambda;
        } else {
          ASSERT_LE(std::fabs(out[i]), 4e-38F) << size;  // a few steps
        }
      }
    }
  }
}

// A path that reaches a row of zeros in an odd state has no zero to continue with.
TEST_F(Tcq, KeepsRowsOfZeros) {
  std::fill_n(first.begin() + 7 * 1030, 1030, 0.0F);
  auto other = ecq_test::gaussian(100, 1030, 5);
  std::fill_n(other.begin(), 1030, 0.0F);
  const std::vector<float> zeros(6000);
  const named_weights with_zeros[] = {{"first", matrix_view<const float>(first.data(), 100, 1030)},
                                      {"zeros", matrix_view<const float>(zeros.data(), 30, 200)},
                                      {"second", matrix_view<const float>(second.data(), 150, 333)},
                                      {"other", matrix_view<const float>(other.data(), 100, 1030)}};
  const auto block = compress({}, any_method(tcq{.lambda = 20.0}), with_zeros);
  ASSERT_TRUE(block) << block.error().to_string();
  const auto out = decoded(*block);
  EXPECT_GT(std::fabs(out[6 * 1030]) + std::fabs(out[8 * 1030]), 0.0F);
  for (std::size_t column = 0; column < 1030; ++column) ASSERT_EQ(out[7 * 1030 + column], 0.0F) << column;
  EXPECT_EQ(decoded(*block, 1), zeros);
  const auto begins_with_zeros = decoded(*block, 3);
  for (std::size_t column = 0; column < 1030; ++column) ASSERT_EQ(begins_with_zeros[column], 0.0F) << column;
}

TEST_F(Tcq, NamesWhatIsWrong) {
  const auto message_of = [](const any_method& method) {
    const auto found = method.get();
    EXPECT_FALSE(found);
    return found ? std::string() : found.error().message();
  };
  EXPECT_EQ(message_of(tcq{}), "tcq: neither target_bits nor lambda is set");
  EXPECT_EQ(message_of(tcq{.target_bits = 3.0, .lambda = 1.0}), "tcq: target_bits and lambda are both set");
  EXPECT_EQ(message_of(tcq{.state_bits = 6, .lambda = 1.0}), "tcq: 2^6 states, not 4 to 32");
  EXPECT_EQ(message_of(tcq{.period_bits = 9, .lambda = 1.0}), "tcq: a period of 2^9 codes, not 2^10 to 2^18");
  EXPECT_EQ(message_of(tcq{.lambda = -1.0}), "tcq: lambda is -1.000000, not a finite number of at least 0");
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float wrong : {infinity, -infinity, std::numeric_limits<float>::quiet_NaN()}) {
    third[1003] = wrong;
    for (const tcq& how : {tcq{.target_bits = 3.0}, tcq{.lambda = 14.5}}) {
      const auto block = compress(cpu{}, how, matrices);
      ASSERT_FALSE(block);
      EXPECT_EQ(block.error().code(), errc::non_finite);
      EXPECT_NE(block.error().message().find("tensor 'third': weight at row 4, column 3"), std::string::npos)
          << block.error().message();
    }
  }
}

TEST_F(Tcq, SaysWhichBitsAreOutOfReach) {
  const auto block = compress(cpu{}, tcq{.target_bits = 0.01}, matrices);
  ASSERT_FALSE(block);
  EXPECT_EQ(block.error().code(), errc::unreachable_target);
}

// Files, with sensitivities and exact weights, and the report of inspect on them.
TEST_F(Tcq, CompressesCheckpoints) {
  const ecq_test::temporary_folder folder;
  const auto in = folder / "model.safetensors", packed = folder / "packed.safetensors",
             out = folder / "out.safetensors";
  ecq_test::write_model(in, {{"layers.0.a", "F32", {100, 1030}, ecq_test::bytes_of<float>(first)},
                             {"layers.0.b", "F32", {192, 250}, ecq_test::bytes_of<float>(third)}});
  ecq::compress_options how{.method = tcq{.target_bits = 3.0}};
  how.sensitivities = {{"layers.0.a", 4.0}, {"layers.0.b", 1.0}};
  how.exact.places = {{"layers.0.b", {{0, 7}}}};
  const auto report = ecq::compress_checkpoint(cpu{.threads = 2}, in, packed, how);
  ASSERT_TRUE(report) << report.error().to_string();
  EXPECT_NEAR(report->bits_per_weight, 3.0, 0.02);
  EXPECT_LT(report->entropy, report->bits_per_weight);
  const auto seen = ecq::inspect_checkpoint(cpu{}, packed);
  ASSERT_TRUE(seen) << seen.error().to_string();
  EXPECT_EQ(seen->entropy, report->entropy);
  ASSERT_TRUE(ecq::decompress_checkpoint(cpu{}, packed, out));
  const auto model = ecq::checkpoint::open(out);
  ASSERT_TRUE(model);
  // A zero is a weight of 0, not one of 1 step, whose index is 0 as well; values are codes, not indices.
  const auto of_first = ecq::as_weights(*model->find("layers.0.a"), model->bytes(*model->find("layers.0.a")));
  ASSERT_TRUE(of_first);
  std::vector<float> row(1030);
  std::size_t zeros = 0;
  for (std::size_t number = 0; number < 100; ++number) {
    of_first->load(number, 0, row);
    zeros += static_cast<std::size_t>(std::ranges::count(row, 0.0F));
  }
  EXPECT_EQ(report->tensors[0].sparsity, static_cast<double>(zeros) / (100 * 1030));
  EXPECT_EQ(seen->tensors[0].sparsity, report->tensors[0].sparsity);
  EXPECT_EQ(seen->tensors[0].unique_values, report->tensors[0].unique_values);
  std::set<std::uint8_t> codes;
  const auto container = ecq::container_reader::open(packed);
  ASSERT_TRUE(container);
  const auto block = container->load(0);
  ASSERT_TRUE(block);
  std::vector<std::byte> elements(100 * 1030);
  ASSERT_TRUE(ecq::decode_elements(cpu{}, ecq::block_decoder::open(*block)->stream(), 0, elements));
  for (const std::byte element : elements) codes.insert(std::to_integer<std::uint8_t>(element));
  EXPECT_EQ(report->tensors[0].unique_values, codes.size());
  const auto weights = ecq::as_weights(*model->find("layers.0.b"), model->bytes(*model->find("layers.0.b")));
  ASSERT_TRUE(weights);
  const auto error = ecq::measure_error(cpu{}, matrix_view<const float>(third.data(), 192, 250), *weights);
  EXPECT_GT(error->sqnr_db(), 8);
  EXPECT_LT(error->sqnr_db(), 25);
  float exact = 0;
  weights->load(0, 7, {&exact, 1});
  EXPECT_EQ(exact, third[7]);
}

}  // namespace
