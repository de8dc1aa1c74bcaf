#include "ecq/entropy/trellis_walk.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "support/instruction_sets.hpp"
#include "support/trellis_path.hpp"

namespace {

using ecq::instruction_set;
using ecq::trellis;

const std::vector<instruction_set> every_set = ecq_test::machine_sets();

std::vector<trellis> all_walks() {
  std::vector<trellis> all;
  for (unsigned state_bits = trellis::min_state_bits; state_bits <= trellis::max_state_bits; ++state_bits) {
    for (const unsigned period_bits : {10U, 11U, 18U}) all.push_back({state_bits, period_bits});
  }
  return all;
}

constexpr std::size_t lengths[] = {0, 1, 3, 4, 127, 128, 129, 255, 1023, 1024, 1025, 1153, 2048, 5003};

TEST(TrellisWalk, FindsTheIndicesOfAPath) {
  for (const trellis& walk : all_walks()) {
    for (const std::size_t length : lengths) {
      const auto path = ecq_test::random_path(walk, length, 5);
      for (const auto isa : every_set) {
        std::vector<std::uint8_t> indices(length);
        EXPECT_EQ(ecq::detail::indices_of_codes(walk, path.codes, indices.data(), isa), length);
        EXPECT_EQ(indices, path.indices) << walk.state_bits << ' ' << walk.period_bits << ' ' << length;
        std::vector<std::uint8_t> in_place = path.codes;
        EXPECT_EQ(ecq::detail::indices_of_codes(walk, in_place, in_place.data(), isa), length);
        EXPECT_EQ(in_place, path.indices);
      }
    }
  }
}

// The quantiser of the lane then has codes of the other parity only.
TEST(TrellisWalk, StopsBeforeTheFirstCodeBesideThePath) {
  for (const trellis& walk : all_walks()) {
    const auto path = ecq_test::random_path(walk, 3000, 5);
    for (const std::size_t at : {0U, 1U, 127U, 1024U, 2999U}) {
      std::vector<std::uint8_t> codes = path.codes;
      codes[at] = static_cast<std::uint8_t>(codes[at] ^ 1U);
      std::vector<std::uint8_t> indices(codes.size());
      for (const auto isa : every_set) {
        EXPECT_EQ(ecq::detail::indices_of_codes(walk, codes, indices.data(), isa), at) << walk.state_bits;
      }
    }
  }
}

// A decoder accepts any byte as an index.
TEST(TrellisWalk, GivesTheSameCodesWithEveryInstructionSet) {
  for (const trellis& walk : all_walks()) {
    for (const std::size_t length : lengths) {
      const auto indices = ecq_test::code_source(length + walk.state_bits).uniform(length);
      const auto codes = ecq_test::path_of(walk, indices);
      for (const auto isa : every_set) {
        std::vector<std::uint8_t> walked = indices;
        ecq::detail::codes_of_indices(walk, walked, isa);
        EXPECT_EQ(walked, codes) << walk.state_bits << ' ' << walk.period_bits << ' ' << length << ' ' << name_of(isa);
      }
    }
  }
}

// Kernels that can do so walk four whole periods at a time, in whichever chunks these lie.
TEST(TrellisWalk, GivesTheCodesOfSeveralChunks) {
  const std::vector<std::vector<std::size_t>> runs = {
      {}, {0}, {8192}, {4096, 4096, 4096, 4096}, {4096, 1024, 0, 5003, 2048, 1}, {1024, 77}, {3072, 1024}, {5000, 8192},
  };
  for (const trellis& walk : all_walks()) {
    for (const std::vector<std::size_t>& sizes : runs) {
      std::vector<std::vector<std::uint8_t>> walked;
      std::vector<std::vector<std::uint8_t>> codes;
      std::vector<std::span<std::uint8_t>> chunks;
      for (const std::size_t size : sizes) {
        walked.push_back(ecq_test::code_source(size + walked.size() + walk.state_bits).uniform(size));
        codes.push_back(ecq_test::path_of(walk, walked.back()));
      }
      const auto indices = walked;
      for (const auto isa : every_set) {
        walked = indices;
        chunks.assign(walked.begin(), walked.end());
        ecq::detail::codes_of_indices(walk, chunks, isa);
        EXPECT_EQ(walked, codes) << walk.state_bits << ' ' << walk.period_bits << ' ' << name_of(isa);
      }
    }
  }
}

}  // namespace
