#include "ecq/cuda/resident_stream.cuh"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "cuda/device_memory.cuh"
#include "ecq/cuda/decode.cuh"
#include "support/codes.hpp"

namespace {

using bytes = std::vector<std::byte>;

class ResidentStream : public ecq_test::device_test {};

constexpr std::size_t count = 3001;

/// BF16 weights whose exponents are coded, or in pairs with escapes; 3 raw bits are left in the last byte of codes.
bytes weights() {
  const auto codes = ecq_test::code_source(1).bell(2 * count, 9);
  bytes made(2 * count);
  std::memcpy(made.data(), codes.data(), made.size());
  return made;
}

bytes stream_of(const bytes& elements, bool pairs) {
  auto made =
      ecq::encode_exponents<ecq::rans>(ecq::cpu{}, ecq::dtype::bf16, elements, {.chunk_bits = 10, .pairs = pairs});
  EXPECT_TRUE(made);
  return std::move(*made);
}

void put(const bytes& blob, const ecq_test::device_memory& memory) {
  ASSERT_EQ(cudaMemcpy(memory.data(), blob.data(), blob.size(), cudaMemcpyHostToDevice), cudaSuccess);
}

TEST_F(ResidentStream, DecodesWhatLiesThere) {
  const bytes elements = weights();
  for (const bool pairs : {false, true}) {
    const bytes blob = stream_of(elements, pairs);
    for (const std::size_t room : {0U, 1000U}) {
      const ecq_test::device_memory stream(blob.size() + room);
      put(blob, stream);
      const auto opened = ecq::resident_stream::open({}, {stream.data(), stream.size()});
      ASSERT_TRUE(opened) << opened.error().to_string();
      EXPECT_EQ(opened->header().symbols, count);
      const ecq_test::device_memory tables(opened->bytes());
      const ecq_test::device_memory out(elements.size());
      const ecq_test::device_memory flag(8);
      const ecq::device_verdict verdict(flag.data());
      const auto ready = opened->upload({}, tables.data());
      ASSERT_TRUE(ready);
      ASSERT_TRUE(verdict.clear({}));
      ASSERT_TRUE(ecq::decode_elements(ecq::cuda{}, *ready, 0, {out.data(), out.size()}, verdict));
      const auto told = verdict.wait({});
      ASSERT_TRUE(told) << told.error().to_string();
      ASSERT_EQ(out.read(), elements);
    }
  }
}

// Whatever byte is wrong, the verdict equals the host's on the same bytes; errors that only decoding finds are left to
// it.
TEST_F(ResidentStream, SaysWhatTheHostSays) {
  for (const bool pairs : {false, true}) {
    const bytes good = stream_of(weights(), pairs);
    const ecq_test::device_memory stream(good.size());
    put(good, stream);
    const std::size_t step = ecq_test::emulated ? 7 : 61;
    for (std::size_t at = 0; at < good.size(); at += at < 256 ? 1 : step) {
      bytes bad = good;
      bad[at] ^= static_cast<std::byte>(1U << (at % 8));
      ASSERT_EQ(cudaMemcpy(stream.data() + at, &bad[at], 1, cudaMemcpyHostToDevice), cudaSuccess);
      const auto expected = ecq::encoded_stream::parse(bad);
      const auto got = ecq::resident_stream::open({}, {stream.data(), stream.size()});
      ASSERT_EQ(got.has_value(), expected.has_value()) << at;
      // If the header announces too few bytes, the host's message is that there are more; here there may be more.
      const bool of_size = at >= 32 && at < 40;
      if (!expected && !of_size) {
        ASSERT_EQ(got.error().to_string(), expected.error().to_string()) << at;
      }
      ASSERT_EQ(cudaMemcpy(stream.data() + at, &good[at], 1, cudaMemcpyHostToDevice), cudaSuccess);
    }
  }
}

TEST_F(ResidentStream, NamesStreamsThatAreCutShortOrLieAskew) {
  const bytes blob = stream_of(weights(), false);
  const ecq_test::device_memory stream(blob.size());
  put(blob, stream);
  for (const std::size_t size : {0U, 1U, 40U, 100U, 1000U}) {
    const auto got = ecq::resident_stream::open({}, {stream.data(), size});
    ASSERT_FALSE(got);
    EXPECT_EQ(got.error().code(), ecq::errc::truncated) << size;
  }
  const auto askew = ecq::resident_stream::open({}, {stream.data() + 8, 1000});
  ASSERT_FALSE(askew);
  EXPECT_EQ(askew.error().code(), ecq::errc::invalid_argument);
}

}  // namespace
