#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <vector>

#include "ecq/stream/encoded_stream.hpp"
#include "support/codes.hpp"

namespace {

using ecq_test::code_source;

template <class Coder>
std::vector<std::byte> encode(std::span<const std::uint8_t> codes, const ecq::stream_options& options = {}) {
  auto blob = ecq::encode_stream<Coder>(ecq::cpu{}, codes, options);
  EXPECT_TRUE(blob) << blob.error().to_string();
  return blob ? std::move(*blob) : std::vector<std::byte>();
}

ecq::coder_id coder_of(std::span<const std::byte> blob) { return ecq::encoded_stream::parse(blob)->coder(); }

// Returns codes with shares of 1/2, 1/4, ...: a Huffman code has no loss, and its table is smaller than one of
// frequencies.
std::vector<std::uint8_t> halving(std::size_t size) {
  std::vector<std::uint8_t> codes(size);
  code_source random(3);
  for (std::uint8_t& code : codes) code = static_cast<std::uint8_t>(std::countr_zero(random.next() | 0x80));
  return codes;
}

TEST(SmallestOf, IsAsSmallAsTheSmallestCoder) {
  std::vector<std::vector<std::uint8_t>> sets = {halving(3000), halving(100'000), code_source(1).uniform(5000),
                                                 std::vector<std::uint8_t>(5000, 9), std::vector<std::uint8_t>()};
  for (const unsigned spread : {1U, 3U, 12U, 31U}) sets.push_back(code_source(spread).bell(50'000, spread));
  for (const auto& codes : sets) {
    const auto best = encode<ecq::smallest_any>(codes);
    EXPECT_EQ(best.size(), (std::min)({encode<ecq::raw>(codes).size(), encode<ecq::rans>(codes).size(),
                                       encode<ecq::tans>(codes).size(), encode<ecq::huffman>(codes).size()}));
    const auto stream = ecq::encoded_stream::parse(best);
    ASSERT_TRUE(stream);
    std::vector<std::uint8_t> decoded(codes.size());
    ASSERT_TRUE(ecq::decode_stream(ecq::cpu{}, *stream, 0, decoded));
    EXPECT_EQ(decoded, codes);
  }
}

TEST(SmallestOf, PrefersTheFirstWithinTheMargin) {
  const auto codes = halving(100'000);
  using coders = ecq::smallest_of<ecq::tans, ecq::huffman>;
  EXPECT_EQ(coder_of(encode<coders>(codes)), ecq::coder_id::huffman);
  EXPECT_EQ(coder_of(encode<coders>(codes, {.margin = 50})), ecq::coder_id::tans);
  EXPECT_EQ(coder_of(encode<ecq::smallest_any>(code_source(3).uniform(5000))), ecq::coder_id::raw);
  // Streams of less than 1000 bytes have a margin, too.
  const auto few = code_source(7).bell(700, 8);
  using slow_first = ecq::smallest_of<ecq::rans, ecq::huffman>;
  ASSERT_LT(encode<ecq::huffman>(few).size(), encode<ecq::rans>(few).size());
  ASSERT_LT(encode<ecq::huffman>(few).size(), 1000U);
  EXPECT_EQ(coder_of(encode<slow_first>(few)), ecq::coder_id::huffman);
  EXPECT_EQ(coder_of(encode<slow_first>(few, {.margin = 900})), ecq::coder_id::rans);
}

TEST(SmallestOf, TakesExponents) {
  const auto weights = code_source(4).uniform(4000);
  const auto elements = std::as_bytes(std::span(weights));
  const auto blob = ecq::encode_exponents<ecq::smallest_any>(ecq::cpu{}, ecq::dtype::bf16, elements);
  ASSERT_TRUE(blob);
  EXPECT_LE(blob->size(), ecq::encode_exponents<ecq::tans>(ecq::cpu{}, ecq::dtype::bf16, elements)->size());
}

}  // namespace
