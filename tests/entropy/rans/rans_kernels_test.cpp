#include "ecq/entropy/rans/rans.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string_view>
#include <vector>

#include "ecq/base/instruction_set.hpp"
#include "entropy/chunk_kernels.hpp"

namespace {

using rans_case = ecq_test::kernel_case<ecq::rans>;

std::vector<rans_case> all_cases() {
  std::vector<rans_case> cases;
  const auto add = [&](const char* name, unsigned buckets, unsigned direct_bits, unsigned raw_bits, unsigned spread) {
    ecq::histogram coded;
    for (const std::uint8_t code : ecq_test::sample_codes(spread)) ++coded.counts[code >> raw_bits];
    cases.push_back({name,
                     {.mapping = buckets != 0 ? ecq::slot_mapping::alias : ecq::slot_mapping::direct,
                      .bucket_bits = buckets,
                      .frequencies = ecq::normalize_frequencies(coded, buckets != 0 ? 16 : direct_bits)},
                     {raw_bits},
                     spread});
  };
  add("alias32", 5, 0, 0, 5);
  add("alias32 of two", 5, 0, 2, 1);
  add("alias64", 6, 0, 0, 14);
  add("alias64, 3 raw bits", 6, 0, 3, 30);
  add("alias32, 7 raw bits", 5, 0, 7, 30);
  add("direct 8", 0, 8, 0, 30);
  add("direct 10, 1 raw bit", 0, 10, 1, 30);
  add("direct 12", 0, 12, 0, 31);
  add("direct 14", 0, 14, 1, 31);
  add("constant", 5, 0, 4, 0);
  // The greatest possible frequencies, beside 1.
  for (const auto& [name, buckets, scale] :
       {std::tuple("alias32, 65535 : 1", 5U, 16U), {"direct 12, 4095 : 1", 0U, 12U}}) {
    ecq::histogram skewed;
    skewed.counts[31] = 1;
    skewed.counts[32] = std::uint64_t{1} << 40;
    cases.push_back({name,
                     {.mapping = buckets != 0 ? ecq::slot_mapping::alias : ecq::slot_mapping::direct,
                      .bucket_bits = buckets,
                      .frequencies = ecq::normalize_frequencies(skewed, scale)},
                     {2},
                     1});
  }
  // No bucket has an alias.
  for (const unsigned bucket_bits : {5U, 6U}) {
    ecq::histogram even;
    for (unsigned code = 0; code < 256; ++code) even.counts[code >> (8 - bucket_bits)] = 1;
    cases.push_back({"full buckets " + std::to_string(bucket_bits),
                     {.mapping = ecq::slot_mapping::alias,
                      .bucket_bits = bucket_bits,
                      .frequencies = ecq::normalize_frequencies(even, 16)},
                     {8 - bucket_bits},
                     30});
  }
  return cases;
}

// The environment can choose either of the two ways in which kernels look up, so that both are tested
// (kernels.other_gathers).
TEST(LookupKernels, AreThoseThatTheEnvironmentNames) {
  const char* const named = std::getenv("ECQ_GATHERS");
  const bool other = named != nullptr && std::string_view(named) == "other";
  EXPECT_EQ(ecq::machine_has_fast_gathers(), ecq::detail::detect_fast_gathers() != other);
}

TEST(RansKernels, DecodeEveryLengthAndNumberOfChunks) {
  ecq_test::expect_every_length_and_number_of_chunks(all_cases());
}
TEST(RansKernels, DecodeLongChunksOfDifferentLengths) {
  ecq_test::expect_long_chunks_of_different_lengths(all_cases());
}
TEST(RansKernels, AgreeOnDamagedChunks) { ecq_test::expect_agreement_on_damaged_chunks(all_cases()); }
TEST(RansKernels, EncodeTheSameWords) { ecq_test::expect_the_same_words(all_cases()); }

}  // namespace
