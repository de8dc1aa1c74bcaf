// Symbols in pairs of nibbles: every coder, every format.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "ecq/stream/encoded_stream.hpp"
#include "ecq/stream/pair_io.hpp"
#include "stream/format_decoder.hpp"
#include "support/codes.hpp"
#include "support/files.hpp"
#include "support/instruction_sets.hpp"
#include "support/policies.hpp"
#include "support/seal.hpp"
#include "support/weights.hpp"

namespace {

using ecq::cpu;
using ecq::dtype;
using ecq::errc;
using ecq::nibble_list;
using ecq_test::code_source;
using bytes = std::vector<std::byte>;

/// Content of a stream: weights of a format, or codes.
using content = std::optional<dtype>;
constexpr content contents[] = {dtype::fp32, dtype::fp16, dtype::bf16, dtype::fp8_e4m3, dtype::fp8_e5m2, std::nullopt};

std::string name_of(content format) { return format ? std::string(ecq::to_string(*format)) : "codes"; }
std::size_t width_of(content format) { return format ? ecq::size_of(*format) : 1; }
unsigned exponent_bits_of(content format) {
  return ecq::visit_split(format, []<class Split>() { return unsigned{Split::symbol_bits}; });
}

template <class Coder>
ecq::result<bytes> encode(const cpu& backend, content format, std::span<const std::byte> elements,
                          ecq::stream_options options = {}) {
  options.pairs = true;
  if (format) return ecq::encode_exponents<Coder>(backend, *format, elements, options);
  return ecq::encode_stream<Coder>(backend, {reinterpret_cast<const std::uint8_t*>(elements.data()), elements.size()},
                                   options);
}

bytes decoded(const bytes& blob, std::uint64_t first, std::uint64_t count, const cpu& backend = {}) {
  const auto stream = ecq::encoded_stream::parse(blob);
  EXPECT_TRUE(stream) << stream.error().to_string();
  bytes out(static_cast<std::size_t>(count) * stream->element_bytes());
  const auto done = ecq::decode_elements(backend, *stream, first, out);
  EXPECT_TRUE(done) << done.error().to_string();
  return out;
}

/// Returns elements whose symbols are `symbols`; all other bits are noise.
bytes elements_of(content format, std::span<const std::uint8_t> symbols) {
  code_source noise(symbols.size());
  return ecq::visit_split(format, [&]<class Split>() {
    using element = typename Split::element;
    bytes made(symbols.size() * sizeof(element));
    for (std::size_t i = 0; i < symbols.size(); ++i) {
      const std::uint64_t low = noise.next() & ((std::uint64_t{1} << ecq::low_bits<Split>)-1);
      const auto value =
          Split::restore(static_cast<element>((std::uint64_t{symbols[i]} << ecq::low_bits<Split>) | low));
      std::memcpy(made.data() + i * sizeof(element), &value, sizeof(element));
    }
    return made;
  });
}

/// Returns symbols around the middle of those of a format; some are escaped if it has more than 16.
std::vector<std::uint8_t> bell(content format, std::size_t count, unsigned spread = 4) {
  const unsigned bits = exponent_bits_of(format);
  auto symbols = code_source(count + spread).bell(count, bits == 4 ? 2 : spread);
  for (std::uint8_t& symbol : symbols) {
    symbol = static_cast<std::uint8_t>((symbol - 128U + (1U << (bits - 1))) & ((1U << bits) - 1U));
  }
  return symbols;
}

/// Returns symbols that even a short stream codes well: shares of 3/4, 3/16, ..., and now and then any other one.
std::vector<std::uint8_t> peaked(content format, std::size_t count) {
  const unsigned bits = exponent_bits_of(format);
  code_source random(count);
  std::vector<std::uint8_t> symbols(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t noise = random.next();
    const auto common = static_cast<unsigned>(std::countr_zero(noise | (1U << 20))) / 2;
    symbols[i] = static_cast<std::uint8_t>((i % 40 == 7 ? noise >> 32 : common + 2) & ((1U << bits) - 1U));
  }
  return symbols;
}

template <class Coder>
class PairStream : public testing::Test {};
using coders = testing::Types<ecq::rans, ecq::tans, ecq::huffman, ecq::huffman_gaps>;
TYPED_TEST_SUITE(PairStream, coders, ecq_test::policy_names);

TYPED_TEST(PairStream, BringsEveryPatternBack) {
  for (const content format : contents) {
    // All patterns of 8 and 16 bits, in disorder, and most elements one of a few, so that coding pays.
    const std::size_t width = width_of(format);
    const std::size_t patterns = width == 1 ? 256 : 65536;
    const std::size_t rare = width == 1 ? 8 : 4;  // one in this many
    bytes elements(rare * patterns * width);
    for (std::size_t i = 0; i < rare * patterns; ++i) {
      const auto pattern = static_cast<std::uint32_t>(i % rare == 0 ? i / rare * 40503 % patterns : i % 3);
      for (std::size_t byte = 0; byte < width; ++byte) {
        const bool high = width != 4 || byte >= 2;
        elements[i * width + byte] =
            high ? static_cast<std::byte>((pattern >> (8 * (byte - (width == 4 ? 2 : 0)))) & 0xFFU) : std::byte{9};
      }
    }
    const auto blob = encode<TypeParam>(cpu{}, format, elements);
    ASSERT_TRUE(blob) << blob.error().to_string();
    const auto stream = ecq::encoded_stream::parse(*blob);
    ASSERT_TRUE(stream) << stream.error().to_string();
    EXPECT_TRUE(stream->pairs());
    EXPECT_EQ(stream->coder(), TypeParam::id);
    EXPECT_EQ(stream->format(), format);
    EXPECT_EQ(stream->nibbles().has_escape(), exponent_bits_of(format) > 4);
    for (const auto isa : ecq_test::machine_sets()) {
      EXPECT_EQ(decoded(*blob, 0, rare * patterns, cpu{.isa = isa}), elements) << name_of(format);
    }
  }
}

TYPED_TEST(PairStream, BringsEverySizeAndRangeBack) {
  for (const content format : contents) {
    const std::size_t width = width_of(format);
    for (const std::size_t count : {0U, 1U, 2U, 255U, 1023U, 1025U, 4999U}) {
      const bytes elements = elements_of(format, bell(format, count));
      const auto blob = encode<TypeParam>(cpu{}, format, elements, {.chunk_bits = 10});
      ASSERT_TRUE(blob) << blob.error().to_string();
      EXPECT_EQ(ecq::encoded_stream::parse(*blob)->size(), count);
      EXPECT_EQ(*encode<TypeParam>(cpu{.threads = 3}, format, elements, {.chunk_bits = 10}), *blob);
      for (std::size_t first = 0; first <= count; first += 1 + count / 5) {
        for (const std::size_t length : {std::size_t{0}, (count - first) / 3, count - first}) {
          const auto begin = elements.begin() + static_cast<std::ptrdiff_t>(first * width);
          EXPECT_EQ(decoded(*blob, first, length, cpu{.threads = 2}),
                    bytes(begin, begin + static_cast<std::ptrdiff_t>(length * width)))
              << name_of(format) << ", " << first << " + " << length << " of " << count;
        }
      }
    }
  }
}

// Chunks without escapes beside one of escapes alone, and a stream of odd length with one symbol.
TYPED_TEST(PairStream, TakesChunksOfEscapesAlone) {
  std::vector<std::uint8_t> symbols;
  for (unsigned i = 0; i < 4096; ++i) symbols.push_back(static_cast<std::uint8_t>(100 + i % 15));
  symbols.insert(symbols.end(), 200, 77);
  symbols.insert(symbols.end(), 56, 255);
  std::vector<std::uint16_t> classes = {0, 0, 0, 0, 1};
  const bytes elements = elements_of(dtype::bf16, symbols);
  const auto blob = encode<TypeParam>(cpu{}, dtype::bf16, elements, {.chunk_bits = 10, .class_of_chunk = classes});
  ASSERT_TRUE(blob) << blob.error().to_string();
  const auto stream = ecq::encoded_stream::parse(*blob);
  ASSERT_TRUE(stream && stream->pairs());
  EXPECT_EQ(stream->escapes(3).size(), 0U);
  EXPECT_EQ(stream->escapes(4).size(), 256U);
  EXPECT_EQ(decoded(*blob, 0, symbols.size()), elements);
  EXPECT_EQ(decoded(*blob, 4290, 40), bytes(elements.begin() + 2 * 4290, elements.begin() + 2 * 4330));
  const bytes constant = elements_of(dtype::bf16, std::vector<std::uint8_t>(3001, 200));
  const auto small = encode<TypeParam>(cpu{}, dtype::bf16, constant);
  EXPECT_EQ(ecq::encoded_stream::parse(*small)->coder(), TypeParam::id);
  EXPECT_EQ(decoded(*small, 0, 3001), constant);
}

TYPED_TEST(PairStream, IsReadByTheDecoderOfTheDocument) {
  for (const content format : contents) {
    for (const auto& symbols : {bell(format, 9401, 2), peaked(format, 4801)}) {
      const bytes elements = elements_of(format, symbols);
      const auto blob = encode<TypeParam>(cpu{}, format, elements, {.chunk_bits = 12});
      EXPECT_TRUE(ecq::encoded_stream::parse(*blob)->pairs()) << name_of(format);
      const auto read = ecq_test::format_decoder(*blob).decode();
      ASSERT_TRUE(read) << name_of(format);
      if constexpr (std::endian::native == std::endian::little) {
        EXPECT_TRUE(std::ranges::equal(std::as_bytes(std::span(*read)), elements)) << name_of(format);
      }
    }
  }
}

TYPED_TEST(PairStream, FallsBackToRawWhereNothingIsGained) {
  for (const content format : contents) {
    const auto noise = code_source(5).uniform(4000);
    const auto blob = encode<TypeParam>(cpu{}, format, std::as_bytes(std::span(noise)));
    const auto stream = ecq::encoded_stream::parse(*blob);
    ASSERT_TRUE(stream);
    EXPECT_EQ(stream->coder(), ecq::coder_id::raw);
    EXPECT_FALSE(stream->pairs());
    EXPECT_TRUE(std::ranges::equal(decoded(*blob, 0, stream->size()), std::as_bytes(std::span(noise))));
  }
}

TEST(PairStreams, OfCoderRawAreThoseOfSingleSymbols) {
  const bytes elements = elements_of(dtype::bf16, bell(dtype::bf16, 1000));
  EXPECT_EQ(*encode<ecq::raw>(cpu{}, dtype::bf16, elements),
            *ecq::encode_exponents<ecq::raw>(cpu{}, dtype::bf16, elements));
}

TEST(PairStreams, SmallestOfTakesPairs) {
  const bytes elements = elements_of(dtype::fp8_e4m3, bell(dtype::fp8_e4m3, 50'000));
  const auto blob = encode<ecq::smallest_any>(cpu{}, dtype::fp8_e4m3, elements);
  ASSERT_TRUE(blob);
  EXPECT_EQ(blob->size(), (std::min)({encode<ecq::rans>(cpu{}, dtype::fp8_e4m3, elements)->size(),
                                      encode<ecq::tans>(cpu{}, dtype::fp8_e4m3, elements)->size(),
                                      encode<ecq::huffman>(cpu{}, dtype::fp8_e4m3, elements)->size()}));
  EXPECT_EQ(decoded(*blob, 0, 50'000), elements);
}

// N(0, 1) in FP8: 2.545 bits of exponent. A Huffman code gives whole bits to two symbols instead of one.
TEST(PairStreams, CostLittleMoreThanTheEntropy) {
  bytes elements;
  for (const float value : ecq_test::gaussian(1, 1U << 18, 5, 1.0F)) {
    elements.push_back(std::byte{ecq::fp8_e4m3::encode(value)});
  }
  const auto bits = [&](const ecq::result<bytes>& blob) {
    return 8.0 * static_cast<double>(blob->size()) / static_cast<double>(elements.size()) - 4;
  };
  const auto format = dtype::fp8_e4m3;
  EXPECT_LT(bits(encode<ecq::rans>(cpu{}, format, elements, {.chunk_bits = 16})), 2.545 + 0.04);
  EXPECT_LT(bits(encode<ecq::tans>(cpu{}, format, elements, {.chunk_bits = 16})), 2.545 + 0.04);
  EXPECT_LT(bits(encode<ecq::huffman>(cpu{}, format, elements, {.chunk_bits = 16})),
            bits(ecq::encode_exponents<ecq::huffman>(cpu{}, format, elements, {.chunk_bits = 16})) - 0.02);
}

// For any pairs, lists and escapes, every instruction set gives the symbols of the definition, or its refusal.
TEST(SplitPairs, KernelsDoAsTheDefinition) {
  code_source random(17);
  std::size_t refused = 0;
  for (int round = 0; round < 3000; ++round) {
    const std::size_t count = 1 + random.next() % 700;
    ecq::histogram counts;
    const unsigned distinct = round % 4 == 0 ? 16 : 40;
    for (unsigned i = 0; i < distinct; ++i) counts.counts[3 + 5 * i] = 1 + random.next() % 9;
    const auto list = nibble_list::of(counts, 8);
    // Runs of escapes and runs without.
    std::vector<std::uint8_t> pairs((count + 1) / 2);
    std::size_t needed = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const bool escape = random.next() % (i % 256 < 128 ? 100 : 3) == 0;
      const unsigned nibble = escape ? 15 : static_cast<unsigned>(random.next() % 15);
      pairs[i / 2] = static_cast<std::uint8_t>(pairs[i / 2] | (nibble << (4 * (i % 2))));
      needed += escape && list.has_escape() ? 1U : 0U;
    }
    if (round % 16 == 1) pairs.back() ^= 0x30;
    std::size_t there = needed;
    if (round % 8 == 2) there += 1;
    if (round % 8 == 3) there -= needed != 0 ? 1 : 0;
    bytes escapes(there);
    const unsigned limit = round % 5 == 4 ? 31 : 32;  // symbols have 5 bits; in some rounds, an escape may be no symbol
    for (std::byte& value : escapes) value = static_cast<std::byte>(random.next() % (round % 5 == 4 ? 33 : limit));
    const auto split = [&](ecq::instruction_set isa) {
      std::vector<std::uint8_t> symbols(count, 0xEE);
      // In every other round, pairs are where a decoder puts them.
      const auto at_end = symbols.end() - static_cast<std::ptrdiff_t>(pairs.size());
      if (round % 2 == 0) std::copy(pairs.begin(), pairs.end(), at_end);
      ecq::detail::escape_cursor cursor{escapes.data(), escapes.data() + escapes.size(), 31};
      const bool valid =
          ecq::detail::split_pairs(list, round % 2 == 0 ? &*at_end : pairs.data(), count, symbols.data(), cursor, isa);
      if (!valid) symbols.clear();
      return std::tuple(valid, valid ? cursor.left() : 0, symbols);
    };
    const auto defined = split(ecq::instruction_set::scalar);
    refused += std::get<0>(defined) ? 0U : 1U;
    for (const auto isa : ecq_test::machine_sets()) EXPECT_EQ(split(isa), defined) << round << ' ' << name_of(isa);
  }
  EXPECT_GT(refused, 300U);
  EXPECT_LT(refused, 2000U);
}

/// Returns the verdict on a stream with escapes after `change`, with correct checksums. The second decoder must agree.
template <class Change>
errc verdict(const bytes& good, Change&& change) {
  bytes bad = good;
  const auto stream = ecq::encoded_stream::parse(good);
  change(bad, stream->header());
  ecq_test::seal(bad);
  const auto parsed = ecq::encoded_stream::parse(bad);
  const auto second = ecq_test::format_decoder(bad).decode();
  if (!parsed) {
    EXPECT_FALSE(second);
    return parsed.error().code();
  }
  bytes out(static_cast<std::size_t>(parsed->size()) * parsed->element_bytes());
  const auto done = ecq::decode_elements(cpu{}, *parsed, 0, out);
  EXPECT_EQ(done.has_value(), second.has_value());
  return done ? errc::ok : done.error().code();
}

TEST(HostilePairs, LiesAreFound) {
  const auto format = dtype::fp16;
  const auto good = encode<ecq::rans>(cpu{}, format, elements_of(format, peaked(format, 2501)), {.chunk_bits = 10});
  ASSERT_TRUE(good);
  const auto at = [](const ecq::stream_header& header, ecq::section_kind kind) {
    return static_cast<std::size_t>(header.at(kind).offset);
  };
  const auto nothing = [](bytes&, const ecq::stream_header&) {};
  ASSERT_EQ(verdict(*good, nothing), errc::ok);
  const auto in_header = [&](std::size_t place, unsigned value) {
    return verdict(*good, [&](bytes& bad, const auto&) { bad[place] = static_cast<std::byte>(value); });
  };
  for (const unsigned map : {0U, 1U, 3U}) EXPECT_NE(in_header(8, map), errc::ok) << map;
  for (const unsigned bits : {0U, 10U, 12U, 16U, 17U}) EXPECT_EQ(in_header(10, bits), errc::corrupt) << bits;
  for (const unsigned type : {0U, 1U, 3U, 4U, 5U}) EXPECT_EQ(in_header(44, type), errc::corrupt) << type;
  EXPECT_EQ(in_header(44, 6), errc::unsupported);
  EXPECT_EQ(in_header(6, 0), errc::corrupt);

  const auto nibbles = ecq::section_kind::nibbles;
  for (std::size_t i = 0; i < 16; ++i) {
    for (const unsigned wrong : {0U, 7U, 31U, 32U, 255U}) {
      const auto got = verdict(
          *good, [&](bytes& bad, const auto& header) { bad[at(header, nibbles) + i] = static_cast<std::byte>(wrong); });
      const bool same = (*good)[at(ecq::encoded_stream::parse(*good)->header(), nibbles) + i] == std::byte(wrong);
      const bool other_symbol = got == errc::ok && wrong < 32;
      EXPECT_TRUE(same || other_symbol || got == errc::corrupt) << i << ' ' << wrong;
      if (wrong >= 32 || (i == 15 && wrong != 0)) {
        EXPECT_EQ(got, errc::corrupt) << i << ' ' << wrong;
      }
    }
  }
  for (std::size_t chunk = 0; chunk <= 3; ++chunk) {
    for (const std::uint64_t change :
         {std::uint64_t{1}, ~std::uint64_t{0}, std::uint64_t{1} << 63, std::uint64_t{5000}}) {
      const auto moved = verdict(*good, [&](bytes& bad, const auto& header) {
        std::byte* const offset = &bad[at(header, nibbles) + 16 + 8 * chunk];
        ecq::store_le(offset, ecq::load_le<std::uint64_t>(offset) + change);
      });
      EXPECT_EQ(moved, errc::corrupt) << chunk << ' ' << change;
    }
  }
  // Escapes may have any 5 bits, which give other numbers, but nothing else.
  const auto escape = [&](unsigned value) {
    return verdict(*good, [&](bytes& bad, const auto& header) {
      bad[at(header, ecq::section_kind::escapes)] = static_cast<std::byte>(value);
    });
  };
  EXPECT_EQ(escape(31), errc::ok);
  EXPECT_EQ(escape(32), errc::corrupt);
  EXPECT_EQ(escape(255), errc::corrupt);
}

// The upper nibble of an odd last pair must be 0. A table that has no other pair sets it.
TEST(HostilePairs, OddOnesHaveNoNeighbour) {
  const auto format = dtype::fp8_e4m3;
  const auto good =
      encode<ecq::rans>(cpu{}, format, elements_of(format, std::vector<std::uint8_t>(1, 5)), {.chunk_bits = 10});
  const auto odd =
      encode<ecq::rans>(cpu{}, format, elements_of(format, std::vector<std::uint8_t>(1024, 0)), {.chunk_bits = 10});
  ASSERT_TRUE(good && odd);
  const auto with_pair = [&](std::uint64_t numbers, unsigned pair) {
    return verdict(*odd, [&](bytes& bad, const ecq::stream_header& header) {
      const auto part = header.at(ecq::section_kind::raw_bits);
      ecq::store_le(&bad[16], numbers);
      for (std::size_t entry = 64; entry < 64 + header.directory_bytes; entry += 24) {
        if (ecq::load_le<std::uint32_t>(&bad[entry]) != 4) continue;
        ecq::store_le(&bad[entry + 16], ecq::raw_bytes(numbers, 4));
      }
      // The rest of the raw bits is padding now.
      for (std::size_t i = static_cast<std::size_t>(numbers) / 2; i < part.size; ++i) {
        bad[static_cast<std::size_t>(part.offset) + i] = std::byte{0};
      }
      bad[static_cast<std::size_t>(header.at(ecq::section_kind::tables).offset) + 4] = static_cast<std::byte>(pair);
    });
  };
  EXPECT_EQ(with_pair(1024, 0x11), errc::ok);
  EXPECT_EQ(with_pair(1023, 0x01), errc::ok);
  EXPECT_EQ(with_pair(1023, 0x11), errc::corrupt);
}

TEST(HostilePairs, EveryFlippedBitIsFound) {
  const auto format = dtype::fp8_e5m2;
  const bytes elements = elements_of(format, peaked(format, 1401));
  for (const auto& good : {encode<ecq::rans>(cpu{}, format, elements, {.chunk_bits = 10}),
                           encode<ecq::huffman_gaps>(cpu{}, format, elements, {.chunk_bits = 10})}) {
    ASSERT_TRUE(good && ecq::encoded_stream::parse(*good)->nibbles().has_escape());
    for (std::size_t bit = 0; bit < 8 * good->size(); ++bit) {
      bytes bad = *good;
      bad[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
      const auto stream = ecq::encoded_stream::parse(bad);
      if (!stream) continue;
      bytes out(elements.size());
      EXPECT_FALSE(ecq::decode_elements(cpu{}, *stream, 0, out)) << bit;
      // Without checksums, any result is allowed, but no access out of bounds.
      static_cast<void>(ecq::decode_elements(cpu{}, *stream, 0, out, {.verify_checksums = false}));
    }
  }
}

// Compares a committed stream: this version writes it byte for byte, and every later version must read it. With
// ECQ_UPDATE_GOLDEN=1 in the environment, writes it anew, for a new format version.
template <class Coder>
void expect_golden(const std::string& name, content format) {
  const bytes elements = elements_of(format, peaked(format, 1501));
  const auto path = ecq_test::golden("stream/pairs_" + name + ".ecqs");
  const auto blob = encode<Coder>(cpu{}, format, elements, {.chunk_bits = 10});
  ASSERT_TRUE(blob) << blob.error().to_string();
  EXPECT_EQ(ecq::encoded_stream::parse(*blob)->coder(), Coder::id);
  if (std::getenv("ECQ_UPDATE_GOLDEN") != nullptr) {
    ecq_test::write_file(path, {reinterpret_cast<const char*>(blob->data()), blob->size()});
  }
  EXPECT_EQ(ecq_test::read_file(path), std::string(reinterpret_cast<const char*>(blob->data()), blob->size())) << path;
  const auto read = ecq_test::format_decoder(*blob).decode();
  ASSERT_TRUE(read) << path;
  if constexpr (std::endian::native == std::endian::little) {
    EXPECT_TRUE(std::ranges::equal(std::as_bytes(std::span(*read)), elements)) << path;
  }
}

TEST(PairStreams, GoldenOnesAreWrittenByteForByteAndReadByBothDecoders) {
  for (const content format : contents) expect_golden<ecq::rans>(name_of(format), format);
  expect_golden<ecq::tans>("tans", dtype::bf16);
  expect_golden<ecq::huffman>("huffman", dtype::bf16);
  expect_golden<ecq::huffman_gaps>("gaps", dtype::bf16);
}

}  // namespace
