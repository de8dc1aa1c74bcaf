// Laws of every composition of format, quantiser and coder (compressor.hpp): a coder changes the bytes of a block, but
// nothing that is decoded from them.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "ecq/compressor.hpp"
#include "ecq/decompress.hpp"
#include "support/policies.hpp"
#include "support/weights.hpp"

namespace {

using ecq::cpu;
using ecq::matrix_view;

constexpr std::size_t rows = 41, columns = 301;

/// A block of one matrix, and the result of the quantiser alone, without a coder.
struct composed {
  ecq::packed_block packed;
  ecq::packed_block by_three_threads;
  std::vector<std::uint8_t> codes;
  std::vector<ecq::bf16> scales;
  float zero = 0;
};

template <class Format, class Coder, class Quantizer>
composed compose(const Quantizer& quantizer) {
  const auto weights = ecq_test::row_varying(rows, columns);
  const matrix_view<const float> view(weights.data(), rows, columns);
  const ecq::compressor<Format, Coder, Quantizer> codec{quantizer, {.chunk_bits = 10}};
  composed made;
  auto packed = codec.compress(cpu{}, view);
  auto by_three_threads = codec.compress(cpu{.threads = 3}, view);
  EXPECT_TRUE(packed && by_three_threads);
  if (!packed || !by_three_threads) return made;
  made.packed = std::move(*packed);
  made.by_three_threads = std::move(*by_three_threads);
  made.codes.resize(rows * columns);
  made.scales.resize(quantizer.layout(rows, columns).count());
  if constexpr (ecq::affine_quantizer<Quantizer, Format>) {
    EXPECT_TRUE(quantizer.template quantize<Format>(cpu{}, view, made.codes, made.scales, made.zero));
  } else {
    EXPECT_TRUE(quantizer.template quantize<Format>(cpu{}, view, made.codes, made.scales));
  }
  return made;
}

void expect_the_quantisers_codes(const composed& made, ecq::coder_id coder) {
  const auto stream = ecq::encoded_stream::parse(made.packed.stream);
  ASSERT_TRUE(stream) << stream.error().to_string();
  EXPECT_EQ(stream->coder(), coder);
  EXPECT_EQ(made.by_three_threads.stream, made.packed.stream);

  const auto decoder = ecq::block_decoder::open(made.packed);
  ASSERT_TRUE(decoder) << decoder.error().to_string();
  std::vector<std::uint8_t> codes(rows * columns);
  ASSERT_TRUE(decoder->decode_codes(cpu{}, 0, 0, rows, codes));
  EXPECT_EQ(codes, made.codes);

  const ecq::packed_matrix& matrix = made.packed.matrices[0];
  EXPECT_EQ(matrix.zero, made.zero);
  ASSERT_EQ(matrix.scales.size(), made.scales.size());
  for (std::size_t group = 0; group < made.scales.size(); ++group) {
    EXPECT_EQ(matrix.scales[group].bits, made.scales[group].bits);
  }
  std::vector<float> expected;
  for (std::size_t i = 0; i < codes.size(); ++i) {
    const std::size_t group = i / columns / matrix.layout.rows_per_group * matrix.layout.groups_across() +
                              i % columns / matrix.layout.columns_per_group;
    const float product = matrix.values_of_codes()[made.codes[i]] * made.scales[group];
    expected.push_back(product + made.zero);
  }
  std::vector<float> whole(rows * columns);
  ASSERT_TRUE(ecq::decompress(cpu{.threads = 3}, made.packed, matrix_view<float>(whole.data(), rows, columns)));
  EXPECT_EQ(whole, expected);
  std::vector<float> part(9 * columns);
  ASSERT_TRUE(decoder->decode(cpu{}, 0, 17, matrix_view<float>(part.data(), 9, columns)));
  EXPECT_TRUE(std::equal(part.begin(), part.end(), expected.begin() + 17 * columns));
}

template <class Coder>
class CompositionLaws : public testing::Test {};

TYPED_TEST_SUITE(CompositionLaws, ecq_test::all_coders, ecq_test::policy_names);

TYPED_TEST(CompositionLaws, CodesAndScalesOfEntquant) {
  expect_the_quantisers_codes(compose<ecq::fp8_e4m3, TypeParam>(ecq::entquant{.lambda = 14.5}), TypeParam::id);
}

TYPED_TEST(CompositionLaws, CodesAndScalesOfGroups) {
  const ecq::scaled_quantizer<ecq_test::widened_absmax, ecq::per_group> grouped{{7.0}, {64}};
  expect_the_quantisers_codes(compose<ecq::int8, TypeParam>(grouped), TypeParam::id);
}

TYPED_TEST(CompositionLaws, CodesAndGridOfEntrollm) {
  expect_the_quantisers_codes(compose<ecq::uint4, TypeParam>(ecq::entrollm{}), TypeParam::id);
}

TYPED_TEST(CompositionLaws, CodesAndScalesOfAFormatOfOnesOwn) {
  const ecq::scaled_quantizer<ecq_test::widened_absmax, ecq::per_tensor> coarse{{7.0}, {}};
  expect_the_quantisers_codes(compose<ecq_test::fp8_e3m4, TypeParam>(coarse), TypeParam::id);
}

}  // namespace
