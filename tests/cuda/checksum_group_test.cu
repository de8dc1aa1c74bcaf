#include "ecq/base/checksum_group.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "cuda/device_memory.cuh"
#include "ecq/base/checksum.hpp"
#include "ecq/cuda/device_group.cuh"
#include "support/codes.hpp"
#include "support/elements.hpp"

namespace {

using ecq_test::bytes_of;
using ecq_test::device_memory;

class ChecksumGroupOnDevice : public ecq_test::device_test {};

constexpr std::size_t room = 8192;  ///< bytes of each copy

/// Case of a block: number of words, and offsets of source and copy, in words, from an address divisible by eight.
struct one_case {
  std::uint32_t words;
  std::uint32_t from;
  std::uint32_t to;
};

__global__ void hash_and_copy(const std::byte* from, const one_case* cases, std::byte* to, std::uint64_t* hashes) {
  const one_case own = cases[blockIdx.x];
  const ecq::device_lanes<ecq::lane_count> group;
  const std::byte* const words = from + 2 * own.from;
  std::byte* const copy = to + room * blockIdx.x + 8 + 2 * own.to;
  const std::uint64_t found[2] = {ecq::xxh64_and_copy(group, words, own.words, blockIdx.x, copy),
                                  ecq::xxh64_by_group(group, from, own.words, blockIdx.x)};
  if (threadIdx.x < 2) hashes[2 * blockIdx.x + threadIdx.x] = found[threadIdx.x];
}

// Covers all amounts that may be loaded ahead or left over at the end, and all places of words in the eight bytes of a
// load.
TEST_F(ChecksumGroupOnDevice, HashesAndCopiesWordsOfAnyNumberAndPlace) {
  std::vector<one_case> cases;
  for (const std::uint32_t words : {0U,   1U,   3U,   4U,   5U,   15U,   16U,   17U,   63U,   127U,  128U,  129U,
                                    255U, 500U, 511U, 512U, 513U, 1020U, 1024U, 1031U, 1536U, 2000U, 2049U, 4000U}) {
    for (const std::uint32_t from : {0U, 1U, 2U, 3U}) {
      for (const std::uint32_t to : {0U, 1U, 2U, 3U}) cases.push_back({words, from, to});
    }
  }
  const auto input = bytes_of(ecq_test::code_source(1).uniform(8016));
  const device_memory in(input.size());
  const device_memory given(cases.size() * sizeof(one_case));
  const device_memory out(cases.size() * room);
  const device_memory hashes(cases.size() * 16);
  ASSERT_EQ(cudaMemcpy(in.data(), input.data(), input.size(), cudaMemcpyHostToDevice), cudaSuccess);
  ASSERT_EQ(cudaMemcpy(given.data(), cases.data(), given.size(), cudaMemcpyHostToDevice), cudaSuccess);
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(cases.size()));
  config.blockDim = dim3(ecq::lane_count);
  const std::byte* const from = in.data();
  const auto* const first_case = reinterpret_cast<const one_case*>(given.data());
  ASSERT_EQ(cudaLaunchKernelEx(&config, &hash_and_copy, from, first_case, out.data(),
                               reinterpret_cast<std::uint64_t*>(hashes.data())),
            cudaSuccess);
  const auto copies = out.read();
  const auto told = hashes.read();
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const one_case& here = cases[i];
    const std::span<const std::byte> words(input.data() + 2 * here.from, std::size_t{2} * here.words);
    std::uint64_t found[2];
    std::memcpy(found, told.data() + 16 * i, sizeof found);
    const auto where = testing::Message() << here.words << " words from " << here.from << " to " << here.to;
    ASSERT_EQ(found[0], ecq::xxh64(words, i)) << where;
    ASSERT_EQ(found[1], ecq::xxh64({input.data(), here.words}, i)) << where;
    const std::byte* const copy = copies.data() + room * i + 8 + 2 * here.to;
    ASSERT_TRUE(std::equal(words.begin(), words.end(), copy)) << where;
    ASSERT_TRUE(std::all_of(copies.data() + room * i, copy, [](std::byte x) { return x == std::byte{0x5A}; })) << where;
    ASSERT_TRUE(std::all_of(copy + words.size(), copies.data() + room * (i + 1), [](std::byte x) {
      return x == std::byte{0x5A};
    })) << where;
  }
}

}  // namespace
