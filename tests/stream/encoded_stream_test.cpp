#include "ecq/stream/encoded_stream.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "support/codes.hpp"

namespace {

using ecq_test::code_source;

std::vector<std::byte> encode(std::span<const std::uint8_t> codes, const ecq::stream_options& options = {},
                              unsigned threads = 1) {
  auto blob = ecq::encode_stream(ecq::cpu{.threads = threads}, codes, options);
  EXPECT_TRUE(blob) << blob.error().to_string();
  return blob ? std::move(*blob) : std::vector<std::byte>();
}

// Parses, verifies and decodes a whole stream.
std::vector<std::uint8_t> decode(std::span<const std::byte> blob, unsigned threads = 1) {
  const ecq::cpu backend{.threads = threads};
  const auto stream = ecq::encoded_stream::parse(blob);
  EXPECT_TRUE(stream) << stream.error().to_string();
  if (!stream) return {};
  EXPECT_TRUE(stream->verify(backend));
  EXPECT_TRUE(stream->verify_chunks(stream->chunk_count(), 0, backend.isa));
  std::vector<std::uint8_t> codes(static_cast<std::size_t>(stream->size()));
  const auto done = ecq::decode_stream(backend, *stream, 0, codes);
  EXPECT_TRUE(done) << done.error().to_string();
  return codes;
}

double entropy_of(std::span<const std::uint8_t> codes) {
  ecq::histogram counted;
  counted.add(codes);
  double bits = 0;
  for (const std::uint64_t count : counted.counts) {
    if (count == 0) continue;
    const double share = static_cast<double>(count) / static_cast<double>(codes.size());
    bits -= share * std::log2(share);
  }
  return bits;
}

TEST(EncodedStream, RoundTripsEveryShortLength) {
  for (std::size_t size = 0; size <= 300; ++size) {
    for (const unsigned spread : {0U, 1U, 9U, 31U}) {
      const auto codes = code_source(size).bell(size, spread);
      ASSERT_EQ(decode(encode(codes)), codes) << size << ' ' << spread;
    }
  }
}

TEST(EncodedStream, RoundTripsAroundChunkBorders) {
  for (const unsigned chunk_bits : {10U, 13U, 18U}) {
    const std::size_t chunk = std::size_t{1} << chunk_bits;
    for (const std::size_t size : {chunk - 1, chunk, chunk + 1, 3 * chunk, 3 * chunk + 129}) {
      for (const unsigned spread : {2U, 15U, 31U}) {
        const auto codes = code_source(size).bell(size, spread);
        const auto blob = encode(codes, {.chunk_bits = chunk_bits});
        ASSERT_EQ(decode(blob), codes) << size << ' ' << spread;
        EXPECT_EQ(ecq::encoded_stream::parse(blob)->chunk_bits(), chunk_bits);
      }
    }
  }
}

TEST(EncodedStream, IsTheSameForEveryNumberOfThreads) {
  const auto codes = code_source(4).bell(3'000'001, 12);
  const auto one = encode(codes, {.chunk_bits = 12}, 1);
  for (const unsigned threads : {2U, 3U, 8U}) {
    EXPECT_EQ(encode(codes, {.chunk_bits = 12}, threads), one);
    EXPECT_EQ(decode(one, threads), codes);
  }
}

TEST(EncodedStream, DecodesAnyRange) {
  for (const unsigned spread : {0U, 3U, 25U}) {
    const auto codes = code_source(8).bell(10'000, spread);
    const auto blob = encode(codes, {.chunk_bits = 10});
    const auto stream = ecq::encoded_stream::parse(blob);
    ASSERT_TRUE(stream);
    code_source random(1);
    for (int round = 0; round < 300; ++round) {
      const std::size_t first = random.next() % (codes.size() + 1);
      const std::size_t count = random.next() % (codes.size() - first + 1);
      std::vector<std::uint8_t> out(count + 2, 0xEE);
      const auto done = ecq::decode_stream(ecq::cpu{.threads = 2}, *stream, first, std::span(out).subspan(1, count));
      ASSERT_TRUE(done) << done.error().to_string();
      ASSERT_TRUE(std::equal(out.begin() + 1, out.end() - 1, codes.begin() + static_cast<std::ptrdiff_t>(first)));
      EXPECT_EQ(out.front(), 0xEE);
      EXPECT_EQ(out.back(), 0xEE);
    }
  }
}

TEST(EncodedStream, RefusesRangesOutsideTheStream) {
  const auto blob = encode(code_source(1).bell(1000, 3));
  const auto stream = ecq::encoded_stream::parse(blob);
  ASSERT_TRUE(stream);
  std::vector<std::uint8_t> out(10);
  for (const std::uint64_t first :
       {std::uint64_t{991}, std::uint64_t{1001}, ~std::uint64_t{0}, ~std::uint64_t{0} - 4}) {
    const auto done = ecq::decode_stream(ecq::cpu{}, *stream, first, out);
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code(), ecq::errc::invalid_argument);
  }
  EXPECT_TRUE(ecq::decode_stream(ecq::cpu{}, *stream, 1000, {}));
}

TEST(EncodedStream, RefusesOptionsThatDoNotFit) {
  const auto codes = code_source(1).bell(5000, 3);
  const std::vector<std::uint16_t> classes(4);
  for (const ecq::stream_options& options :
       {ecq::stream_options{.chunk_bits = 9}, ecq::stream_options{.chunk_bits = 19},
        ecq::stream_options{.chunk_bits = 10, .class_of_chunk = classes}}) {
    const auto blob = ecq::encode_stream(ecq::cpu{}, codes, options);
    ASSERT_FALSE(blob);
    EXPECT_EQ(blob.error().code(), ecq::errc::invalid_argument);
  }
  std::vector<std::uint16_t> many(300);
  for (std::size_t i = 0; i < many.size(); ++i) many[i] = static_cast<std::uint16_t>(i);
  const auto blob =
      ecq::encode_stream(ecq::cpu{}, code_source(1).bell(300 << 10, 3), {.chunk_bits = 10, .class_of_chunk = many});
  ASSERT_FALSE(blob);
  EXPECT_EQ(blob.error().code(), ecq::errc::limit_exceeded);
}

TEST(EncodedStream, StoresWhatDoesNotCompress) {
  const auto codes = code_source(3).uniform(100'000);
  const auto blob = encode(codes);
  const auto stream = ecq::encoded_stream::parse(blob);
  ASSERT_TRUE(stream);
  EXPECT_EQ(stream->coder(), ecq::coder_id::raw);
  EXPECT_LE(blob.size(), codes.size() + 1024);
  EXPECT_EQ(decode(blob), codes);
  const auto asked = ecq::encode_stream<ecq::raw>(ecq::cpu{}, code_source(3).bell(5000, 2));
  ASSERT_TRUE(asked);
  EXPECT_EQ(decode(*asked), code_source(3).bell(5000, 2));
}

TEST(EncodedStream, ConstantCodesTakeNoWords) {
  const std::vector<std::uint8_t> codes(1 << 20, 200);
  const auto blob = encode(codes);
  EXPECT_EQ(decode(blob), codes);
  EXPECT_LT(static_cast<double>(blob.size()) * 8 / static_cast<double>(codes.size()), 0.08);
}

TEST(EncodedStream, GivesEachClassOfChunksItsTable) {
  constexpr std::size_t chunk = 1024;
  std::vector<std::uint8_t> codes;
  std::vector<std::uint16_t> classes;
  for (std::uint16_t i = 0; i < 90; ++i) {
    // Classes may have any numbers; one of them is constant, one is wide.
    const auto part = code_source(i).bell(chunk, i % 3 == 0 ? 0 : i % 3 == 1 ? 3 : 20);
    codes.insert(codes.end(), part.begin(), part.end());
    classes.push_back(static_cast<std::uint16_t>(65535 - 7 * (i % 3)));
  }
  const auto one = encode(codes, {.chunk_bits = 10});
  const auto several = encode(codes, {.chunk_bits = 10, .class_of_chunk = classes}, 2);
  EXPECT_EQ(decode(several, 3), codes);
  EXPECT_LT(several.size(), one.size() * 9 / 10);
  const auto stream = ecq::encoded_stream::parse(several);
  ASSERT_TRUE(stream);
  EXPECT_EQ(stream->table_count(), 3U);
  for (std::size_t i = 0; i < classes.size(); ++i) EXPECT_EQ(stream->record(i).table, 2 - i % 3);
  EXPECT_EQ(several, encode(codes, {.chunk_bits = 10, .class_of_chunk = classes}, 1));
}

// Counts the whole blob, at 4 Mi codes in chunks of 64 Ki. Per code it has 24 of the 32 bits of 32 states (0.0117), the
// index (0.002), what rANS loses while its state is no larger than its 2^16 slots (0.004), and the table.
TEST(EncodedStream, StaysCloseToTheEntropy) {
  for (const unsigned spread : {1U, 2U, 6U, 15U}) {
    const auto codes = code_source(6).bell(1 << 22, spread);
    const double bits = 8.0 * static_cast<double>(encode(codes, {.chunk_bits = 16}, 2).size()) / (1 << 22);
    EXPECT_LT(bits, entropy_of(codes) + 0.020) << spread;
  }
  const auto wide = code_source(6).bell(1 << 22, 31);
  const double bits = 8.0 * static_cast<double>(encode(wide, {.chunk_bits = 16}, 2).size()) / (1 << 22);
  EXPECT_LT(bits, entropy_of(wide) + 0.03);
}

TEST(StreamOverhead, IsWhatTheStreamTakesBesideItsInformation) {
  for (const std::size_t size : {std::size_t{100'000}, std::size_t{1} << 21}) {
    const auto codes = code_source(6).bell(size, 8);
    const double bytes = static_cast<double>(encode(codes).size()) - entropy_of(codes) * static_cast<double>(size) / 8;
    const auto planned = static_cast<double>(ecq::stream_overhead_bytes(size, ecq::default_chunk_bits(size)));
    EXPECT_NEAR(8 * bytes / static_cast<double>(size), 8 * planned / static_cast<double>(size), 0.012) << size;
  }
}

TEST(EncodedStream, NeedsNoChecksumsToDecode) {
  const auto codes = code_source(2).bell(50'000, 5);
  auto blob = encode(codes);
  std::vector<std::uint8_t> out(codes.size());
  auto stream = ecq::encoded_stream::parse(blob);
  ASSERT_TRUE(stream);
  EXPECT_TRUE(ecq::decode_stream(ecq::cpu{}, *stream, 0, out, {.verify_checksums = false}));
  EXPECT_EQ(out, codes);
  // A damaged word: the checksum finds it. Without the checksum, the worst outcome is wrong codes or an error.
  blob[static_cast<std::size_t>(stream->header().at(ecq::section_kind::words).offset)] ^= std::byte{1};
  stream = ecq::encoded_stream::parse(blob);
  ASSERT_TRUE(stream);
  const auto checked = ecq::decode_stream(ecq::cpu{}, *stream, 0, out);
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().code(), ecq::errc::checksum_mismatch);
  EXPECT_FALSE(stream->verify(ecq::cpu{}));
  EXPECT_FALSE(ecq::decode_stream(ecq::cpu{}, *stream, 0, out, {.verify_checksums = false}));
}

}  // namespace
