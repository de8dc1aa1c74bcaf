// Pairs of the high parts of codes: every coder, every number of raw bits.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "ecq/compressor.hpp"
#include "ecq/decompress.hpp"
#include "ecq/stream/encoded_stream.hpp"
#include "ecq/stream/narrow_pairs.hpp"
#include "stream/format_decoder.hpp"
#include "support/codes.hpp"
#include "support/files.hpp"
#include "support/instruction_sets.hpp"
#include "support/policies.hpp"
#include "support/seal.hpp"
#include "support/weights.hpp"

namespace {

using ecq::cpu;
using ecq::errc;
using ecq::instruction_set;
using ecq::stream_goal;
using ecq_test::code_source;
using bytes = std::vector<std::byte>;
using codes_of_bytes = std::vector<std::uint8_t>;

/// Returns codes of Int8 in a bell around 0; one in `rare` is arbitrary.
codes_of_bytes signed_bell(std::size_t count, unsigned spread, unsigned rare = 50) {
  code_source random(count + spread);
  codes_of_bytes codes = random.bell(count, spread);
  for (std::uint8_t& code : codes) {
    code = static_cast<std::uint8_t>(random.next() % rare == 0 ? random.next() >> 32 : code - 128U);
  }
  return codes;
}

/// Returns the codes of Int8 of weights times `scale`.
codes_of_bytes quantised(const std::vector<float>& weights, float scale) {
  codes_of_bytes codes;
  for (const float weight : weights) {
    codes.push_back(static_cast<std::uint8_t>(std::clamp(std::lround(weight * scale), -127L, 127L)));
  }
  return codes;
}

template <class Coder>
bytes encoded(const codes_of_bytes& codes, ecq::stream_options options, const cpu& backend = {}) {
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

double bits_per_code(const bytes& blob, const codes_of_bytes& codes) {
  return 8.0 * static_cast<double>(blob.size()) / static_cast<double>(codes.size());
}

template <class Coder>
class NarrowPairs : public testing::Test {};
using coders = testing::Types<ecq::rans, ecq::rans_direct, ecq::tans, ecq::huffman, ecq::huffman_gaps>;
TYPED_TEST_SUITE(NarrowPairs, coders, ecq_test::policy_names);

TYPED_TEST(NarrowPairs, BringsEverySizeAndRangeBack) {
  for (unsigned raw_bits = 0; raw_bits <= 7; ++raw_bits) {
    for (const std::size_t count : {0U, 1U, 2U, 255U, 1023U, 1025U, 5999U}) {
      const auto codes = signed_bell(count, (1U << raw_bits) / 2 + 1);
      const ecq::stream_options options = {.chunk_bits = 10, .narrow_pairs = raw_bits};
      const bytes blob = encoded<TypeParam>(codes, options);
      EXPECT_EQ(encoded<TypeParam>(codes, options, cpu{.threads = 3}), blob);
      for (std::size_t first = 0; first <= count; first += 1 + count / 5) {
        for (const std::size_t length : {std::size_t{0}, (count - first) / 3, count - first}) {
          const auto begin = codes.begin() + static_cast<std::ptrdiff_t>(first);
          EXPECT_EQ(decoded(blob, first, length, cpu{.threads = 2}),
                    codes_of_bytes(begin, begin + static_cast<std::ptrdiff_t>(length)))
              << raw_bits << " raw bits, " << first << " + " << length << " of " << count;
        }
      }
    }
  }
}

TYPED_TEST(NarrowPairs, DecodeAlikeWithEveryInstructionSet) {
  for (unsigned raw_bits = 0; raw_bits <= 4; ++raw_bits) {
    for (const unsigned rare : {3U, 50U, 5000U, std::numeric_limits<unsigned>::max()}) {
      const auto codes = signed_bell(120'001, (1U << raw_bits) / 2 + 1, rare);
      const bytes blob = encoded<TypeParam>(codes, {.chunk_bits = 13, .narrow_pairs = raw_bits});
      const auto stream = ecq::encoded_stream::parse(blob);
      ASSERT_TRUE(stream);
      if (rare >= 50) {
        ASSERT_EQ(stream->coder(), TypeParam::id);
        EXPECT_TRUE(stream->pairs());
        EXPECT_EQ(stream->header().raw_bits(), raw_bits);
      }
      for (const auto isa : ecq_test::machine_sets()) {
        EXPECT_EQ(decoded(blob, 0, codes.size(), cpu{.isa = isa}), codes) << raw_bits << ", one in " << rare;
      }
    }
  }
}

TYPED_TEST(NarrowPairs, AreReadByTheDecoderOfTheDocument) {
  for (unsigned raw_bits = 0; raw_bits <= 4; ++raw_bits) {
    for (const std::size_t count : {1500U, 4801U}) {
      for (const bool few : {false, true}) {
        const auto codes = signed_bell(count, (1U << raw_bits) + 1);
        const bytes blob = encoded<TypeParam>(codes, {.chunk_bits = 10, .narrow_pairs = raw_bits, .few_pairs = few});
        EXPECT_EQ(ecq_test::format_decoder(blob).decode(), codes) << raw_bits;
      }
    }
  }
}

// Codes of rare pairs are escaped, though they have nibbles, and keep their raw bits.
TYPED_TEST(NarrowPairs, MayBeFew) {
  for (unsigned raw_bits = 0; raw_bits <= 7; ++raw_bits) {
    for (const std::size_t count : {0U, 1U, 2U, 1025U, 70'001U}) {
      for (const unsigned rare : {50U, 5000U, std::numeric_limits<unsigned>::max()}) {
        const auto codes = signed_bell(count, (1U << raw_bits) + 1, rare);
        const ecq::stream_options options = {.chunk_bits = 12, .narrow_pairs = raw_bits, .few_pairs = true};
        const bytes blob = encoded<TypeParam>(codes, options);
        EXPECT_EQ(encoded<TypeParam>(codes, options, cpu{.threads = 3}), blob);
        for (const auto isa : ecq_test::machine_sets()) {
          EXPECT_EQ(decoded(blob, 0, codes.size(), cpu{.isa = isa}), codes) << raw_bits << ", one in " << rare;
        }
        const auto stream = ecq::encoded_stream::parse(blob);
        if (stream->coder() != TypeParam::id || count == 0) continue;
        const auto& table = stream->template table<TypeParam>(0);
        if constexpr (requires { table.frequencies.count; }) {
          EXPECT_LE(table.frequencies.count, 32U) << raw_bits << ", one in " << rare;
        }
      }
    }
  }
}

TYPED_TEST(NarrowPairs, OfSeveralClassesHaveATableEach) {
  codes_of_bytes codes = signed_bell(4096, 2, 300);
  for (const std::uint8_t code : signed_bell(4096, 1, 900)) codes.push_back(code);
  for (const std::uint8_t code : signed_bell(777, 3, 100)) codes.push_back(code);
  const std::vector<std::uint16_t> classes = {9, 9, 9, 9, 4, 4, 4, 4, 9};
  const bytes blob = encoded<TypeParam>(codes, {.chunk_bits = 10, .class_of_chunk = classes, .goal = stream_goal::cpu});
  const auto stream = ecq::encoded_stream::parse(blob);
  ASSERT_TRUE(stream);
  EXPECT_EQ(stream->table_count(), 2U);
  EXPECT_EQ(decoded(blob, 0, codes.size()), codes);
}

// One code for a whole model: table, list and raw bits follow from the shared counts, whatever a stream holds.
TYPED_TEST(NarrowPairs, OfSharedCountsHaveTheSameTableAndList) {
  const std::vector<codes_of_bytes> parts = {signed_bell(40'001, 4, 5000), signed_bell(50'000, 1, 6000),
                                             codes_of_bytes(20'001, 255)};
  ecq::histogram joint;
  for (const auto& part : parts) joint.add(part);
  std::optional<ecq::stream_header> first;
  bytes tables;
  for (const auto& part : parts) {
    const bytes blob = encoded<TypeParam>(part, {.shared_counts = &joint, .goal = stream_goal::cpu});
    const auto stream = ecq::encoded_stream::parse(blob);
    ASSERT_TRUE(stream && stream->coder() == TypeParam::id);
    EXPECT_EQ(decoded(blob, 0, part.size()), part);
    const auto section = stream->header().bytes_of(blob, ecq::section_kind::tables);
    if (!first) tables = bytes(section.begin(), section.end()), first = stream->header();
    EXPECT_TRUE(std::ranges::equal(section, tables));
    EXPECT_EQ(stream->header().pairs, first->pairs);
    EXPECT_EQ(stream->header().raw_bits(), first->raw_bits());
  }
}

TYPED_TEST(NarrowPairs, AreStoredRawWhereNothingIsGained) {
  const auto codes = code_source(5).uniform(4000);
  EXPECT_EQ(encoded<TypeParam>(codes, {.goal = stream_goal::cpu}), encoded<TypeParam>(codes, {}));
  EXPECT_EQ(ecq::encoded_stream::parse(encoded<TypeParam>(codes, {.narrow_pairs = 2}))->coder(), ecq::coder_id::raw);
}

TEST(NarrowPairing, HasAtMostSixtyFourPairs) {
  for (unsigned raw_bits = 0; raw_bits <= 7; ++raw_bits) {
    for (const unsigned distinct : {0U, 1U, 8U, 9U, 15U, 16U, 17U, 100U, 256U}) {
      for (const unsigned step : {1U, 7U}) {
        ecq::histogram counts;
        code_source random(distinct);
        for (unsigned i = 0; i < distinct; ++i) counts.counts[(200 + i * step) % 256] = 1 + random.next() % 1000;
        const auto pairing = ecq::detail::narrow_pairing(counts, raw_bits);
        std::vector<bool> used(16);
        bool escaped = false;
        for (std::size_t code = 0; code < 256; ++code) {
          if (counts.counts[code] == 0) continue;
          const unsigned nibble = pairing.nibbles[code];
          used[nibble] = true;
          EXPECT_LT(pairing.raw[code], 1U << raw_bits);
          if (nibble != 15 || !pairing.list.has_escape()) {
            EXPECT_EQ((pairing.list.symbols[nibble] + pairing.raw[code]) % 256, code);
          } else {
            EXPECT_EQ(pairing.raw[code], 0);
            escaped = true;
          }
        }
        EXPECT_EQ(pairing.list.has_escape(), escaped);
        EXPECT_LE(std::count(used.begin(), used.end(), true), 8);
        if (distinct <= 8) {
          EXPECT_FALSE(escaped);
        }
        EXPECT_TRUE(ecq::nibble_list::read(std::as_bytes(std::span<const std::uint8_t, 16>(pairing.list.symbols)), 8));
      }
    }
  }
}

// No code of sign and magnitude is minus zero, so that runs of negative ones begin after it.
TEST(NarrowPairing, LeavesMinusZeroOut) {
  ecq::histogram counts;
  for (unsigned magnitude = 0; magnitude < 14; ++magnitude) {
    counts.counts[magnitude] = 10000U >> (magnitude / 2);
    if (magnitude != 0) counts.counts[128 + magnitude] = 10000U >> (magnitude / 2);
  }
  const auto pairing = ecq::detail::narrow_pairing(counts, 2);
  EXPECT_FALSE(pairing.list.has_escape());
  EXPECT_EQ(pairing.nibbles[0x81], pairing.nibbles[0x84]);
  EXPECT_EQ(pairing.raw[0x81], 0);
}

// Codes at 2.1, 3, 4, 5 and 6 bits: the number of raw bits follows the rate, and pairs cost no more than is allowed.
TEST(NarrowPairingFigures, FollowsTheRateAndCostsLittle) {
  const float scales[] = {1.04F, 1.93F, 3.86F, 7.7F, 15.4F};
  for (unsigned raw_bits = 0; raw_bits < 5; ++raw_bits) {
    const auto codes = quantised(ecq_test::gaussian(1, 1U << 20, 3, 1.0F), scales[raw_bits]);
    const bytes single = encoded<ecq::rans>(codes, {});
    const bytes pairs = encoded<ecq::rans>(codes, {.goal = stream_goal::cpu});
    const auto stream = ecq::encoded_stream::parse(pairs);
    ASSERT_TRUE(stream && stream->pairs()) << raw_bits;
    EXPECT_EQ(stream->header().raw_bits(), raw_bits);
    EXPECT_EQ(stream->table<ecq::rans>(0).mapping, ecq::slot_mapping::alias) << raw_bits;
    EXPECT_LE(bits_per_code(pairs, codes), bits_per_code(single, codes) + 0.07) << raw_bits;
    const auto heavy = quantised(ecq_test::student_t4(1, 1U << 20, 3, 1.0F), scales[raw_bits]);
    EXPECT_LE(bits_per_code(encoded<ecq::rans>(heavy, {.goal = stream_goal::cpu}), heavy),
              bits_per_code(encoded<ecq::rans>(heavy, {}), heavy) + 0.1)
        << raw_bits;
    // The number of raw bits is the best one.
    for (unsigned other = 0; other < 8; ++other) {
      EXPECT_GE(encoded<ecq::rans>(codes, {.narrow_pairs = other}).size() + 64, pairs.size()) << other;
    }
  }
}

// Codes at 1.5, 1.8 and 2.8 bits have more than 32 pairs, the rarest of which cost next to nothing as escapes.
TEST(NarrowPairing, EscapesRarePairsWhereThatCostsNextToNothing) {
  for (const auto& [scale, raw_bits] : {std::pair(0.6F, 0U), {0.75F, 0U}, {1.58F, 1U}}) {
    const auto codes = quantised(ecq_test::gaussian(1, 1U << 20, 3, 1.0F), scale);
    const bytes few = encoded<ecq::rans>(codes, {.goal = stream_goal::cpu});
    const bytes many = encoded<ecq::rans>(codes, {.narrow_pairs = raw_bits});
    const auto stream = ecq::encoded_stream::parse(few);
    ASSERT_TRUE(stream && stream->pairs()) << scale;
    EXPECT_EQ(stream->header().raw_bits(), raw_bits);
    EXPECT_EQ(stream->table<ecq::rans>(0).bucket_bits, 5U) << scale;
    EXPECT_EQ(ecq::encoded_stream::parse(many)->table<ecq::rans>(0).bucket_bits, 6U) << scale;
    EXPECT_GT(stream->header().at(ecq::section_kind::escapes).size, 0U) << scale;
    EXPECT_LE(stream->header().at(ecq::section_kind::escapes).size, codes.size() / 400) << scale;
    EXPECT_LE(bits_per_code(few, codes), bits_per_code(many, codes) + 0.01) << scale;
    EXPECT_EQ(decoded(few, 0, codes.size()), codes);
  }
}

TEST(NarrowPairing, IsOnlyTakenWhereAskedFor) {
  const auto codes = quantised(ecq_test::gaussian(1, 1U << 16, 3, 1.0F), 2.0F);
  EXPECT_FALSE(ecq::encoded_stream::parse(encoded<ecq::rans>(codes, {}))->pairs());
  EXPECT_EQ(encoded<ecq::rans>(codes, {.goal = stream_goal::size}), encoded<ecq::rans>(codes, {}));
  // Exponents have no narrow pairs.
  const auto elements = std::as_bytes(std::span(codes));
  EXPECT_EQ(*ecq::encode_exponents<ecq::rans>(cpu{}, ecq::dtype::bf16, elements, {.goal = stream_goal::cpu}),
            *ecq::encode_exponents<ecq::rans>(cpu{}, ecq::dtype::bf16, elements));
  EXPECT_EQ(ecq::encode_exponents<ecq::rans>(cpu{}, ecq::dtype::bf16, elements, {.narrow_pairs = 1}).error().code(),
            errc::invalid_argument);
  EXPECT_EQ(ecq::encode_stream<ecq::rans>(cpu{}, codes, {.narrow_pairs = 8}).error().code(), errc::invalid_argument);
  EXPECT_EQ(ecq::encode_stream<ecq::rans>(cpu{}, codes, {.pairs = true, .narrow_pairs = 1}).error().code(),
            errc::invalid_argument);
  EXPECT_EQ(ecq::encode_stream<ecq::rans>(cpu{}, codes, {.few_pairs = true}).error().code(), errc::invalid_argument);
  const ecq::histogram counts;
  const ecq::stream_options few = {.shared_counts = &counts, .narrow_pairs = 1, .few_pairs = true};
  EXPECT_EQ(ecq::encode_stream<ecq::rans>(cpu{}, codes, few).error().code(), errc::invalid_argument);
}

// Where codes have many high parts, pairs cost more than is allowed.
TEST(NarrowPairing, IsLeftWhereItCostsTooMuch) {
  codes_of_bytes codes = code_source(9).uniform(1U << 16);
  for (std::size_t i = 0; i < codes.size(); i += 2) codes[i] = static_cast<std::uint8_t>(codes[i] & 0xF8U);
  EXPECT_EQ(encoded<ecq::rans>(codes, {.goal = stream_goal::cpu}), encoded<ecq::rans>(codes, {}));
}

// Escapes take time: at most one code in a hundred is one, although more would take fewer bits.
TEST(NarrowPairing, TakesFewEscapes) {
  for (const unsigned rare : {30U, 60U, 90U, 200U, 1000U}) {
    const auto codes = signed_bell(1U << 17, 1, rare);
    const auto blob = encoded<ecq::rans>(codes, {.goal = stream_goal::cpu});
    const auto stream = ecq::encoded_stream::parse(blob);
    EXPECT_LE(stream->header().at(ecq::section_kind::escapes).size, codes.size() / 100) << rare;
    EXPECT_EQ(stream->pairs(), rare > 100) << rare;
    EXPECT_EQ(decoded(blob, 0, codes.size()), codes);
  }
}

TEST(NarrowPairing, ServesQuantisedWeights) {
  const auto weights = ecq_test::gaussian(96, 1024);
  const ecq::matrix_view<const float> matrix(weights.data(), 96, 1024);
  for (const float bits : {2.2F, 3.0F, 4.0F}) {
    ecq::compressor<ecq::fp8_e4m3> codec{{.target_bits = bits}};
    codec.stream.goal = stream_goal::cpu;
    const auto packed = codec.compress(matrix);
    ASSERT_TRUE(packed) << packed.error().to_string();
    EXPECT_NEAR(packed->bits_per_weight(), bits, 0.021);
    const auto stream = ecq::encoded_stream::parse(packed->stream);
    EXPECT_TRUE(stream->pairs()) << bits;
    std::vector<float> all(weights.size());
    std::vector<float> some(7 * 1024);
    ASSERT_TRUE(ecq::decompress(cpu{}, *packed, 0, ecq::matrix_view<float>(all.data(), 96, 1024)));
    auto decoder = ecq::block_decoder::open(*packed, ecq::coders<ecq::rans>);
    ASSERT_TRUE(decoder && decoder->decode(cpu{}, 0, 33, ecq::matrix_view<float>(some.data(), 7, 1024)));
    EXPECT_TRUE(std::equal(some.begin(), some.end(), all.begin() + 33 * 1024));
  }
}

/// Returns the library's verdict on a stream after `change`, with correct checksums. The second decoder must agree.
template <class Change>
errc verdict(const bytes& good, Change&& change) {
  bytes bad = good;
  change(bad, ecq::encoded_stream::parse(good)->header());
  ecq_test::seal(bad);
  const auto parsed = ecq::encoded_stream::parse(bad);
  const auto second = ecq_test::format_decoder(bad).decode();
  if (!parsed) {
    EXPECT_FALSE(second);
    return parsed.error().code();
  }
  codes_of_bytes out(static_cast<std::size_t>(parsed->size()));
  const auto done = ecq::decode_stream(cpu{}, *parsed, 0, out);
  EXPECT_EQ(done.has_value(), second.has_value());
  return done ? errc::ok : done.error().code();
}

TEST(HostileNarrowPairs, LiesAreFound) {
  const bytes good = encoded<ecq::rans>(signed_bell(2501, 3), {.chunk_bits = 10, .narrow_pairs = 2});
  ASSERT_TRUE(ecq::encoded_stream::parse(good)->nibbles().has_escape());
  const auto at = [](const ecq::stream_header& header, ecq::section_kind kind) {
    return static_cast<std::size_t>(header.at(kind).offset);
  };
  EXPECT_EQ(verdict(good, [](bytes&, const auto&) {}), errc::ok);
  const auto in_header = [&](std::size_t place, unsigned value) {
    return verdict(good, [&](bytes& bad, const auto&) { bad[place] = static_cast<std::byte>(value); });
  };
  for (const unsigned bits : {0U, 1U, 3U, 7U, 8U, 255U}) EXPECT_EQ(in_header(10, bits), errc::corrupt) << bits;
  for (const unsigned format : {1U, 3U, 4U, 5U}) EXPECT_EQ(in_header(44, format), errc::corrupt) << format;
  // Any byte is valid as a symbol and as an escape.
  const auto put = [&](ecq::section_kind kind, std::size_t place, unsigned value) {
    return verdict(
        good, [&](bytes& bad, const auto& header) { bad[at(header, kind) + place] = static_cast<std::byte>(value); });
  };
  EXPECT_EQ(put(ecq::section_kind::nibbles, 14, 255), errc::ok);
  EXPECT_EQ(put(ecq::section_kind::nibbles, 14, 0), errc::corrupt);
  EXPECT_EQ(put(ecq::section_kind::nibbles, 15, 1), errc::corrupt);
  for (const unsigned escape : {0U, 64U, 255U}) EXPECT_EQ(put(ecq::section_kind::escapes, 0, escape), errc::ok);
  for (const std::size_t chunk : {0U, 1U, 3U}) {
    EXPECT_EQ(put(ecq::section_kind::nibbles, 16 + 8 * chunk, 200), errc::corrupt) << chunk;
  }
}

TEST(HostileNarrowPairs, EveryFlippedBitIsFound) {
  const auto codes = signed_bell(1401, 3);
  for (const bytes& good : {encoded<ecq::rans>(codes, {.chunk_bits = 10, .narrow_pairs = 2}),
                            encoded<ecq::tans>(codes, {.chunk_bits = 10, .narrow_pairs = 1}),
                            encoded<ecq::huffman_gaps>(codes, {.chunk_bits = 10, .narrow_pairs = 3})}) {
    ASSERT_TRUE(ecq::encoded_stream::parse(good)->pairs());
    for (std::size_t bit = 0; bit < 8 * good.size(); ++bit) {
      bytes bad = good;
      bad[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
      const auto stream = ecq::encoded_stream::parse(bad);
      if (!stream) continue;
      codes_of_bytes out(codes.size());
      EXPECT_FALSE(ecq::decode_stream(cpu{}, *stream, 0, out)) << bit;
      // Without checksums, any result is allowed, but no access out of bounds.
      static_cast<void>(ecq::decode_stream(cpu{}, *stream, 0, out, {.verify_checksums = false}));
    }
  }
}

// Compares a committed stream: this version writes it byte for byte, and every later version must read it. With
// ECQ_UPDATE_GOLDEN=1 in the environment, writes it anew, for a new format version.
template <class Coder>
void expect_golden(const std::string& name, unsigned raw_bits, const codes_of_bytes& codes, unsigned chunk_bits = 10,
                   bool few = false) {
  const auto path = ecq_test::golden("stream/pairs_codes_" + name + ".ecqs");
  const bytes blob = encoded<Coder>(codes, {.chunk_bits = chunk_bits, .narrow_pairs = raw_bits, .few_pairs = few});
  EXPECT_EQ(ecq::encoded_stream::parse(blob)->coder(), Coder::id);
  const std::string text(reinterpret_cast<const char*>(blob.data()), blob.size());
  if (std::getenv("ECQ_UPDATE_GOLDEN") != nullptr) ecq_test::write_file(path, text);
  EXPECT_EQ(ecq_test::read_file(path), text) << path;
  EXPECT_EQ(ecq_test::format_decoder(blob).decode(), codes) << path;
}

TEST(NarrowPairStreams, GoldenOnesAreWrittenByteForByteAndReadByBothDecoders) {
  for (unsigned raw_bits = 0; raw_bits <= 4; ++raw_bits) {
    const auto codes = signed_bell(raw_bits < 4 ? 1501 : 5001, (1U << raw_bits) / 2 + 1, 40);
    expect_golden<ecq::rans>("raw" + std::to_string(raw_bits), raw_bits, codes);
  }
  // Escapes of codes that have nibbles, with raw bits.
  expect_golden<ecq::rans>("few", 1, signed_bell(3001, 2, 300), 11, true);
  const auto codes = signed_bell(1501, 3, 40);
  expect_golden<ecq::tans>("tans", 2, codes);
  expect_golden<ecq::huffman>("huffman", 2, codes);
  expect_golden<ecq::huffman_gaps>("gaps", 2, codes);
  // Pairs in three stretches, and a second chunk so short that its pairs are stored, of which the last has one code.
  expect_golden<ecq::huffman_gaps>("gaps_stretches", 0, signed_bell(16384, 1, 40), 14);
  codes_of_bytes even;
  for (std::size_t i = 0; i < 1037; ++i) even.push_back(static_cast<std::uint8_t>(i % 8 * 8 + i / 8 % 8));
  expect_golden<ecq::huffman_gaps>("gaps_stored", 3, even);
}

}  // namespace
