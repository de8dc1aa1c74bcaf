#include "ecq/stream/coder_set.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "ecq/block_decoder.hpp"
#include "ecq/format/bf16.hpp"
#include "ecq/lossless.hpp"
#include "ecq/packed.hpp"
#include "ecq/stream/encoded_stream.hpp"
#include "support/codes.hpp"
#include "support/instruction_sets.hpp"

namespace {

using ecq::cpu;
using ecq_test::code_source;

/// User-defined coder that no file names: rANS under a number of its own.
struct coder_of_ones_own : ecq::rans {
  static constexpr std::string_view name = "own";
  static constexpr ecq::coder_id id = static_cast<ecq::coder_id>(32768);
};

constexpr std::size_t rows = 40, columns = 256;

template <class Coder>
ecq::packed_block packed_by(const std::vector<std::uint8_t>& codes) {
  auto stream = ecq::encode_stream<Coder>(cpu{}, codes, {.chunk_bits = 10});
  EXPECT_TRUE(stream);
  ecq::packed_matrix matrix;
  matrix.format = ecq::dtype::int8;
  matrix.layout = {rows, columns, 1, columns};
  matrix.scales.assign(rows, ecq::bf16(0.5F));
  return {.matrices = {matrix}, .stream = std::move(*stream)};
}

std::vector<std::uint8_t> codes() { return code_source(1).bell(rows * columns, 5); }

template <class Coder>
class CoderSet : public testing::Test {};
using coders = testing::Types<ecq::raw, ecq::rans, ecq::tans, ecq::huffman, ecq::huffman_gaps, coder_of_ones_own>;
TYPED_TEST_SUITE(CoderSet, coders);

TYPED_TEST(CoderSet, DecodesWhatItNames) {
  const auto wanted = codes();
  const auto packed = packed_by<TypeParam>(wanted);
  const auto stream = ecq::encoded_stream::parse(packed.stream, ecq::coders<TypeParam>);
  ASSERT_TRUE(stream) << stream.error().to_string();
  EXPECT_EQ(stream->coder(), TypeParam::id);
  for (const auto isa : ecq_test::machine_sets()) {
    std::vector<std::uint8_t> got(wanted.size());
    ASSERT_TRUE(ecq::decode_stream(cpu{.isa = isa}, *stream, 0, got));
    EXPECT_EQ(got, wanted);
  }
  std::vector<float> weights(wanted.size());
  const ecq::matrix_view<float> out(weights.data(), rows, columns);
  ASSERT_TRUE(ecq::decompress(cpu{}, packed, out, ecq::coders<TypeParam>));
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    ASSERT_EQ(weights[i], 0.5F * static_cast<float>(static_cast<std::int8_t>(wanted[i])));
  }
}

TYPED_TEST(CoderSet, RefusesStreamsOfOthers) {
  const auto packed = packed_by<TypeParam>(codes());
  std::vector<float> weights(rows * columns);
  const ecq::matrix_view<float> out(weights.data(), rows, columns);
  const auto refused = [&](ecq::coder_set accepted) {
    const auto done = ecq::decompress(cpu{}, packed, 0, out, accepted);
    return done ? ecq::errc::ok : done.error().code();
  };
  const bool is_raw = std::is_same_v<TypeParam, ecq::raw>;  // every set has this coder
  const bool registered = !std::is_same_v<TypeParam, coder_of_ones_own>;
  EXPECT_EQ(refused(ecq::coders<>), is_raw ? ecq::errc::ok : ecq::errc::unsupported);
  EXPECT_EQ(refused(ecq::every_coder()), registered ? ecq::errc::ok : ecq::errc::unsupported);
}

TEST(CoderSetErrors, NameTheCoderAndThoseThatAreThere) {
  const auto packed = packed_by<ecq::tans>(codes());
  const auto opened = ecq::block_decoder::open(packed, ecq::coders<ecq::rans, ecq::huffman>);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code(), ecq::errc::unsupported);
  EXPECT_EQ(opened.error().message(), "stream: coder 2 (tans), but this program decodes only raw, rans, huffman");
  const auto own = packed_by<coder_of_ones_own>(codes());
  const auto unknown = ecq::encoded_stream::parse(own.stream);
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().message(),
            "stream: coder 32768 (unknown), but this program decodes only raw, rans, tans, huffman, huffman_gaps");
}

TEST(CoderSetOfLossless, HasAnOwnCoder) {
  std::vector<ecq::bf16> weights;
  for (const std::uint8_t code : codes())
    weights.push_back(ecq::bf16::from_bits(static_cast<std::uint16_t>(code << 7)));
  const ecq::matrix_view<const ecq::bf16> matrix(weights.data(), rows, columns);
  const ecq::lossless<ecq::bf16, coder_of_ones_own> codec;
  const auto packed = codec.compress(cpu{}, matrix);
  ASSERT_TRUE(packed) << packed.error().to_string();
  ASSERT_EQ(packed->stream[7], std::byte{0x80}) << "not raw";
  std::vector<ecq::bf16> out(weights.size());
  const ecq::matrix_view<ecq::bf16> back(out.data(), rows, columns);
  EXPECT_EQ(codec.decompress(cpu{}, *packed, back).error().code(), ecq::errc::unsupported);
  ASSERT_TRUE(codec.decompress(cpu{}, *packed, back, ecq::coders<coder_of_ones_own>));
  EXPECT_EQ(std::memcmp(out.data(), weights.data(), weights.size() * sizeof(ecq::bf16)), 0);
  const std::span<ecq::bf16> some = std::span(out).subspan(0, 100);
  ASSERT_TRUE(codec.decompress_elements(cpu{}, *packed, 77, some, ecq::coders<coder_of_ones_own>));
  EXPECT_EQ(std::memcmp(some.data(), weights.data() + 77, some.size_bytes()), 0);
}

TEST(CoderSetNames, AreTheCodersOwn) {
  const auto same = []<class... Coder>(Coder...) { return ((ecq::to_string(Coder::id) == Coder::name) && ...); };
  EXPECT_TRUE(same(ecq::raw{}, ecq::rans{}, ecq::tans{}, ecq::huffman{}, ecq::huffman_gaps{}));
}

}  // namespace
