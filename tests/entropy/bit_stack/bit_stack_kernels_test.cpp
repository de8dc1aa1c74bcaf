#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "ecq/entropy/huffman/huffman.hpp"
#include "ecq/entropy/tans/tans.hpp"
#include "entropy/chunk_kernels.hpp"

namespace {

using tans_case = ecq_test::kernel_case<ecq::tans>;
using huffman_case = ecq_test::kernel_case<ecq::huffman>;

ecq::histogram count(unsigned spread, unsigned raw_bits) {
  ecq::histogram coded;
  for (const std::uint8_t code : ecq_test::sample_codes(spread)) ++coded.counts[code >> raw_bits];
  return coded;
}

std::vector<tans_case> tans_cases() {
  std::vector<tans_case> cases;
  const auto add = [&](const char* name, unsigned bits, unsigned raw_bits, unsigned spread) {
    cases.push_back({name, {ecq::normalize_frequencies(count(spread, raw_bits), bits)}, {raw_bits}, spread});
  };
  add("one symbol", 11, 0, 0);
  add("one symbol, 4 raw bits", 11, 4, 0);
  add("2^9 states", 9, 0, 3);
  add("2^9 states, 125 symbols", 9, 0, 31);
  add("2^10 states, 57 symbols", 10, 0, 14);
  add("2^10 states, 2 raw bits", 10, 2, 20);
  add("2^11 states, 5 raw bits", 11, 5, 31);
  add("2^12 states", 12, 0, 31);
  add("2^12 states, 7 raw bits", 12, 7, 31);
  return cases;
}

std::vector<huffman_case> huffman_cases() {
  std::vector<huffman_case> cases;
  const auto add = [&](const char* name, const ecq::histogram& coded, unsigned raw_bits, unsigned spread) {
    const auto lengths = ecq::limited_code_lengths(coded, ecq::huffman::table::limit);
    cases.push_back({name, ecq::huffman::table::of(coded, lengths), {raw_bits}, spread});
  };
  add("one symbol", count(0, 0), 0, 0);
  add("one symbol, 4 raw bits", count(0, 4), 4, 0);
  add("few", count(2, 0), 0, 2);
  add("57 symbols", count(14, 0), 0, 14);
  add("many", count(31, 0), 0, 31);
  add("3 raw bits", count(31, 3), 3, 31);
  add("7 raw bits", count(31, 7), 7, 31);
  // Code words of up to 16 bits, longer than kernels look up at once: for the rarest codes, and for the commonest.
  for (const bool commonest : {false, true}) {
    ecq::histogram fibonacci;
    std::uint64_t a = 1;
    std::uint64_t b = 1;
    for (std::size_t i = 0; i < 9; ++i) {
      for (const std::size_t code : {128 + (commonest ? i : 8 - i), 128 - (commonest ? i : 8 - i)}) {
        fibonacci.counts[code] = a;
        b += a;
        std::swap(a, b);
      }
    }
    add(commonest ? "long words for common codes" : "long words", fibonacci, 0, 4);
  }
  return cases;
}

TEST(TansKernels, DecodeEveryLengthAndNumberOfChunks) {
  ecq_test::expect_every_length_and_number_of_chunks(tans_cases());
}
TEST(TansKernels, DecodeLongChunksOfDifferentLengths) {
  ecq_test::expect_long_chunks_of_different_lengths(tans_cases());
}
TEST(TansKernels, AgreeOnDamagedChunks) { ecq_test::expect_agreement_on_damaged_chunks(tans_cases()); }
TEST(TansKernels, EncodeTheSameWords) { ecq_test::expect_the_same_words(tans_cases()); }

TEST(HuffmanKernels, DecodeEveryLengthAndNumberOfChunks) {
  for (const huffman_case& with : huffman_cases()) {
    if (with.name.starts_with("long")) {
      EXPECT_EQ(with.table.longest, 16U);
    }
  }
  ecq_test::expect_every_length_and_number_of_chunks(huffman_cases());
}
TEST(HuffmanKernels, DecodeLongChunksOfDifferentLengths) {
  ecq_test::expect_long_chunks_of_different_lengths(huffman_cases());
}
TEST(HuffmanKernels, AgreeOnDamagedChunks) { ecq_test::expect_agreement_on_damaged_chunks(huffman_cases()); }
TEST(HuffmanKernels, EncodeTheSameWords) { ecq_test::expect_the_same_words(huffman_cases()); }

}  // namespace
