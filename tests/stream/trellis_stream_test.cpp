// Codes on a trellis: every coder, every number of states.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "ecq/stream/encoded_stream.hpp"
#include "stream/format_decoder.hpp"
#include "support/codes.hpp"
#include "support/files.hpp"
#include "support/instruction_sets.hpp"
#include "support/policies.hpp"
#include "support/seal.hpp"
#include "support/trellis_path.hpp"

namespace {

using ecq::cpu;
using ecq::errc;
using ecq::instruction_set;
using ecq::stream_options;
using ecq::trellis;
using ecq_test::random_path;
using bytes = std::vector<std::byte>;
using codes_of_bytes = std::vector<std::uint8_t>;

template <class Coder>
bytes encoded(const codes_of_bytes& codes, const stream_options& options, const cpu& backend = {}) {
  const auto blob = ecq::encode_stream<Coder>(backend, codes, options);
  EXPECT_TRUE(blob) << blob.error().to_string();
  return blob ? *blob : bytes();
}

codes_of_bytes decoded(const bytes& blob, std::uint64_t first, std::size_t count, const cpu& backend = {}) {
  const auto stream = ecq::encoded_stream::parse(blob);
  EXPECT_TRUE(stream) << stream.error().to_string();
  codes_of_bytes codes(count);
  const auto done = ecq::decode_stream(backend, *stream, first, codes);
  EXPECT_TRUE(done) << done.error().to_string();
  return codes;
}

/// Returns options for single codes, pairs, and narrow pairs with and without raw bits.
std::vector<stream_options> pairings() {
  return {{.chunk_bits = 11},
          {.chunk_bits = 11, .pairs = true},
          {.chunk_bits = 11, .narrow_pairs = 0},
          {.chunk_bits = 11, .narrow_pairs = 2},
          {.chunk_bits = 11, .narrow_pairs = 0, .few_pairs = true}};
}

std::vector<trellis> walks() { return {{2, 10}, {3, 10}, {3, 11}, {4, 11}, {5, 10}}; }

template <class Coder>
class TrellisStream : public testing::Test {};
TYPED_TEST_SUITE(TrellisStream, ecq_test::all_coders, ecq_test::policy_names);

TYPED_TEST(TrellisStream, BringsEverySizeAndRangeBack) {
  for (stream_options options : pairings()) {
    for (const trellis& walk : walks()) {
      options.trellis = walk;
      for (const std::size_t count : {0U, 1U, 127U, 128U, 129U, 2047U, 2048U, 2049U, 5999U}) {
        const auto path = random_path(walk, count, 2);
        const bytes blob = encoded<TypeParam>(path.codes, options);
        EXPECT_EQ(ecq::encoded_stream::parse(blob)->trellis(), walk);
        EXPECT_EQ(encoded<TypeParam>(path.codes, options, cpu{.threads = 3}), blob);
        for (std::size_t first = 0; first <= count; first += 1 + count / 3) {
          for (const std::size_t length : {(count - first) / 3U, count - first}) {
            const auto begin = path.codes.begin() + static_cast<std::ptrdiff_t>(first);
            EXPECT_EQ(decoded(blob, first, length, cpu{.threads = 2}),
                      codes_of_bytes(begin, begin + static_cast<std::ptrdiff_t>(length)))
                << walk.state_bits << " bits of state, " << first << " + " << length << " of " << count;
          }
        }
      }
    }
  }
}

// All that follows the header equals the stream of the indices.
TYPED_TEST(TrellisStream, IsTheStreamOfTheIndices) {
  for (stream_options options : pairings()) {
    for (const trellis& walk : walks()) {
      const auto path = random_path(walk, 7001, 2);
      options.trellis.reset();
      bytes of_indices = encoded<TypeParam>(path.indices, options);
      options.trellis = walk;
      of_indices[45] = static_cast<std::byte>(16 + walk.state_bits);
      of_indices[46] = static_cast<std::byte>(walk.period_bits);
      ecq_test::seal(of_indices);
      EXPECT_EQ(encoded<TypeParam>(path.codes, options), of_indices);
    }
  }
}

TYPED_TEST(TrellisStream, DecodesAlikeWithEveryInstructionSetAndByTheDocument) {
  for (stream_options options : pairings()) {
    for (const trellis& walk : walks()) {
      options.trellis = walk;
      const auto path = random_path(walk, 3'001, 3);
      const bytes blob = encoded<TypeParam>(path.codes, options);
      EXPECT_EQ(ecq::encoded_stream::parse(blob)->coder(), TypeParam::id);
      for (const auto isa : ecq_test::machine_sets()) {
        EXPECT_EQ(decoded(blob, 0, path.codes.size(), cpu{.isa = isa}), path.codes) << name_of(isa);
      }
      EXPECT_EQ(ecq_test::format_decoder(blob).decode(), path.codes);
    }
  }
}

TEST(TrellisStreams, StoreIndicesWhereCodersDoNotHelp) {
  const trellis walk{3, 10};
  codes_of_bytes indices = ecq_test::code_source(4).below(200, 127);
  for (std::uint8_t& index : indices) index = static_cast<std::uint8_t>(index - 63);
  const codes_of_bytes codes = ecq_test::path_of(walk, indices);
  const bytes blob = encoded<ecq::huffman>(codes, {.chunk_bits = 10, .trellis = walk});
  EXPECT_EQ(ecq::encoded_stream::parse(blob)->coder(), ecq::coder_id::raw);
  EXPECT_EQ(decoded(blob, 0, codes.size()), codes);
}

TEST(TrellisStreams, TakeClassesAndSharedCountsOfIndices) {
  const trellis walk{3, 10};
  const auto path = random_path(walk, 3000, 2);
  const std::vector<std::uint16_t> classes = {1, 0, 1};
  const bytes with_classes =
      encoded<ecq::rans>(path.codes, {.chunk_bits = 10, .class_of_chunk = classes, .trellis = walk});
  EXPECT_EQ(ecq::encoded_stream::parse(with_classes)->table_count(), 2U);
  EXPECT_EQ(decoded(with_classes, 0, path.codes.size()), path.codes);
  ecq::histogram counts;
  counts.add(path.indices);
  const bytes shared = encoded<ecq::rans>(path.codes, {.chunk_bits = 10, .shared_counts = &counts, .trellis = walk});
  EXPECT_EQ(decoded(shared, 0, path.codes.size()), path.codes);
}

TEST(TrellisStreams, ChunksHoldAPeriod) {
  for (const unsigned period_bits : {10U, 13U, 14U, 18U}) {
    const trellis walk{3, period_bits};
    const auto path = random_path(walk, 300, 2);
    const auto blob = encoded<ecq::rans>(path.codes, {.trellis = walk});
    EXPECT_EQ(ecq::encoded_stream::parse(blob)->chunk_bits(), (std::max)(15U, period_bits));
  }
}

TEST(TrellisStreams, CodesBesideTheTrellisAreNamed) {
  const trellis walk{3, 10};
  const auto path = random_path(walk, 20'000, 2);
  for (const std::ptrdiff_t from : {0, 12'345, 19'900}) {
    auto codes = path.codes;
    const auto bad = codes.begin() + from;
    *bad = static_cast<std::uint8_t>(*bad ^ 1U);
    for (const unsigned threads : {1U, 3U}) {
      const auto blob = ecq::encode_stream(cpu{.threads = threads}, codes, {.chunk_bits = 10, .trellis = walk});
      ASSERT_FALSE(blob);
      EXPECT_EQ(blob.error().code(), errc::invalid_argument);
      EXPECT_NE(blob.error().message().find(" at " + std::to_string(bad - codes.begin()) + " "), std::string::npos)
          << blob.error().message();
    }
  }
}

TEST(TrellisStreams, OptionsOutOfRangeAreRefused) {
  const codes_of_bytes codes(3000, 0);
  const auto refused = [&](const stream_options& options) {
    const auto blob = ecq::encode_stream(cpu{}, codes, options);
    return !blob && blob.error().code() == errc::invalid_argument;
  };
  EXPECT_FALSE(refused({.chunk_bits = 10, .trellis = trellis{3, 10}}));
  for (const unsigned state_bits : {0U, 1U, 6U, ~0U}) EXPECT_TRUE(refused({.trellis = trellis{state_bits, 10}}));
  for (const unsigned period_bits : {0U, 9U, 19U, ~0U}) EXPECT_TRUE(refused({.trellis = trellis{3, period_bits}}));
  EXPECT_TRUE(refused({.chunk_bits = 10, .trellis = trellis{3, 11}}));
  const bytes weights(3000);
  for (const auto format : {ecq::dtype::bf16, ecq::dtype::fp8_e4m3}) {
    const auto blob = ecq::encode_exponents(cpu{}, format, weights, {.trellis = trellis{3, 10}});
    ASSERT_FALSE(blob);
    EXPECT_EQ(blob.error().code(), errc::invalid_argument);
  }
}

/// Returns the library's verdict on a forged header. The decoder of the document must agree whether it is a stream.
errc verdict_with(bytes blob, unsigned kind, unsigned period_bits) {
  blob[45] = static_cast<std::byte>(kind);
  blob[46] = static_cast<std::byte>(period_bits);
  ecq_test::seal_header(blob);
  const auto stream = ecq::encoded_stream::parse(blob);
  EXPECT_EQ(stream.has_value(), ecq_test::format_decoder(blob).decode().has_value()) << kind << ' ' << period_bits;
  return stream ? errc::ok : stream.error().code();
}

TEST(TrellisStreams, HeadersThatLieAreRefused) {
  const bytes good = encoded<ecq::rans>(random_path({3, 10}, 5000, 2).codes, {.chunk_bits = 11});
  EXPECT_EQ(verdict_with(good, 0, 0), errc::ok);
  for (unsigned kind = 18; kind <= 21; ++kind) {
    EXPECT_EQ(verdict_with(good, kind, 10), errc::ok);
    EXPECT_EQ(verdict_with(good, kind, 11), errc::ok);
    for (const unsigned period_bits : {0U, 9U, 12U, 64U, 255U}) {
      EXPECT_EQ(verdict_with(good, kind, period_bits), errc::corrupt);
    }
  }
  EXPECT_EQ(verdict_with(good, 0, 10), errc::corrupt);
  for (const unsigned kind : {1U, 3U, 16U, 17U, 22U, 255U}) {
    EXPECT_EQ(verdict_with(good, kind, 10), errc::unsupported);
  }
  bytes reserved = good;
  reserved[47] = std::byte{1};
  EXPECT_EQ(verdict_with(reserved, 19, 10), errc::corrupt);
  for (const bool pairs : {false, true}) {
    const auto weights =
        ecq::encode_exponents(cpu{}, ecq::dtype::bf16, bytes(6000), {.chunk_bits = 11, .pairs = pairs});
    ASSERT_TRUE(weights);
    EXPECT_EQ(verdict_with(*weights, 19, 10), errc::corrupt);
  }
}

// Compares a committed stream. With ECQ_UPDATE_GOLDEN=1 in the environment, writes it anew, for a new format version.
template <class Coder>
void expect_golden(const std::string& name, std::size_t count, const stream_options& options) {
  const auto path = random_path(*options.trellis, count, 2);
  const auto file = ecq_test::golden("stream/trellis" + name + ".ecqs");
  const bytes blob = encoded<Coder>(path.codes, options);
  EXPECT_EQ(ecq::encoded_stream::parse(blob)->coder(), Coder::id);
  const std::string text(reinterpret_cast<const char*>(blob.data()), blob.size());
  if (std::getenv("ECQ_UPDATE_GOLDEN") != nullptr) ecq_test::write_file(file, text);
  EXPECT_EQ(ecq_test::read_file(file), text) << file;
  EXPECT_EQ(ecq_test::format_decoder(blob).decode(), path.codes) << file;
  EXPECT_EQ(decoded(blob, 0, count), path.codes) << file;
}

TEST(TrellisStreams, AreTheGoldenOnes) {
  expect_golden<ecq::huffman>("4_huffman", 2301, {.chunk_bits = 10, .trellis = trellis{2, 10}});
  expect_golden<ecq::rans>("8", 4501, {.chunk_bits = 12, .trellis = trellis{3, 11}});
  expect_golden<ecq::huffman_gaps>("8_gaps", 2301, {.chunk_bits = 11, .trellis = trellis{3, 10}});
  expect_golden<ecq::raw>("16_raw", 1301, {.chunk_bits = 11, .trellis = trellis{4, 10}});
  expect_golden<ecq::tans>("16_tans_pairs", 2301, {.chunk_bits = 10, .pairs = true, .trellis = trellis{4, 10}});
  expect_golden<ecq::rans>("32_narrow_pairs", 4501, {.chunk_bits = 12, .narrow_pairs = 1, .trellis = trellis{5, 12}});
}

}  // namespace
