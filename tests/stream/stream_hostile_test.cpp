#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>
#include <vector>

#include "ecq/stream/encoded_stream.hpp"
#include "stream/format_decoder.hpp"
#include "support/codes.hpp"
#include "support/seal.hpp"

namespace {

std::atomic<std::size_t> largest_allocation{0};

}  // namespace

// All allocations of this test program pass here, so that those whose size a forged stream dictates are seen. Not
// inlined: GCC takes a free() that it sees behind a `delete` for a mistake. The sanitizers' own forms must not be mixed
// with these: std::stable_sort, for one, allocates by the form that does not throw.
[[gnu::noinline]] void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  std::size_t seen = largest_allocation.load();
  while (seen < size && !largest_allocation.compare_exchange_weak(seen, size)) {
  }
  return std::malloc(size != 0 ? size : 1);
}
[[gnu::noinline]] void* operator new(std::size_t size) {
  if (void* memory = operator new(size, std::nothrow)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace {

using ecq_test::code_source;
using bytes = std::vector<std::byte>;

template <class Coder = ecq::rans>
bytes encode(std::span<const std::uint8_t> codes, const ecq::stream_options& options = {}) {
  auto blob = ecq::encode_stream<Coder>(ecq::cpu{}, codes, options);
  EXPECT_TRUE(blob);
  return std::move(*blob);
}

struct outcome {
  ecq::errc verdict = ecq::errc::ok;
  std::vector<std::uint8_t> codes;
};

// A hostile stream may claim up to 2^43 codes, so no more are decoded than its original could have.
outcome read(std::span<const std::byte> blob, bool verify_checksums = true) {
  largest_allocation = 0;
  const auto stream = ecq::encoded_stream::parse(blob);
  EXPECT_LE(largest_allocation.load(), blob.size() + 256);
  if (!stream) {
    EXPECT_FALSE(stream.error().message().empty());
    return {stream.error().code(), {}};
  }
  outcome got{ecq::errc::ok,
              std::vector<std::uint8_t>(static_cast<std::size_t>((std::min)(stream->size(), std::uint64_t{1} << 16)))};
  largest_allocation = 0;
  const auto done = ecq::decode_stream(ecq::cpu{}, *stream, 0, got.codes, {.verify_checksums = verify_checksums});
  // Memory for a direct table, and for a whole chunk of which only a part is asked for.
  EXPECT_LE(largest_allocation.load(),
            blob.size() + (std::max)(std::size_t{1} << 14, std::size_t{1} << stream->chunk_bits()));
  if (!done) got.verdict = done.error().code();
  return got;
}

// One of each kind: coded by alias table with raw bits, direct, constant, raw, empty, and with several tables.
std::vector<bytes> examples() {
  std::vector<bytes> all;
  all.push_back(encode(code_source(1).bell(500, 4)));
  all.push_back(encode(code_source(2).bell(1500, 30), {.chunk_bits = 10}));
  auto sparse = code_source(3).uniform(3000);
  for (std::size_t i = 0; i < sparse.size(); i += 2) sparse[i] = 0;
  all.push_back(encode(sparse));
  all.push_back(encode(std::vector<std::uint8_t>(200, 9)));
  all.push_back(encode(code_source(4).uniform(300)));
  all.push_back(encode({}));
  all.push_back(encode<ecq::tans>(code_source(6).bell(600, 4)));
  all.push_back(encode<ecq::huffman>(code_source(7).bell(600, 4)));
  all.push_back(encode<ecq::huffman_gaps>(code_source(8).bell(600, 4)));
  const std::vector<std::uint16_t> classes = {0, 1};
  auto two = code_source(5).bell(1024, 1);
  const auto more = code_source(5).bell(700, 6);
  two.insert(two.end(), more.begin(), more.end());
  all.push_back(encode(two, {.chunk_bits = 10, .class_of_chunk = classes}));
  return all;
}

TEST(HostileStream, IsRefusedWhenTruncatedAnywhere) {
  for (const bytes& good : examples()) {
    for (std::size_t size = 0; size < good.size(); ++size) {
      // A copy of its own, so that a sanitizer sees reads beyond the end.
      const bytes cut(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size));
      ASSERT_EQ(read(cut).verdict, ecq::errc::truncated) << size;
    }
    bytes longer = good;
    longer.resize(longer.size() + 64);
    EXPECT_EQ(read(longer).verdict, ecq::errc::corrupt);
  }
}

TEST(HostileStream, IsRefusedWithAnySingleBitFlipped) {
  for (const bytes& good : examples()) {
    const outcome expected = read(good);
    ASSERT_EQ(expected.verdict, ecq::errc::ok);
    bytes bad = good;
    for (std::size_t bit = 0; bit < 8 * good.size(); ++bit) {
      bad[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
      ASSERT_NE(read(bad).verdict, ecq::errc::ok) << "bit " << bit;
      read(bad, false);  // any result, but no access out of bounds
      bad[bit / 8] = good[bit / 8];
    }
  }
}

std::size_t section_at(const bytes& blob, ecq::section_kind kind) {
  return static_cast<std::size_t>(ecq::encoded_stream::parse(blob)->header().at(kind).offset);
}

template <class Word>
outcome read_with(bytes blob, std::size_t at, Word value) {
  ecq::store_le(&blob[at], value);
  ecq_test::seal_header(blob);
  outcome got = read(blob);
  read(blob, false);
  EXPECT_EQ(got.verdict == ecq::errc::ok, ecq_test::format_decoder(blob).decode().has_value()) << "at " << at;
  return got;
}

TEST(HostileStream, IsRefusedWhenItsHeaderLies) {
  const bytes good = encode(code_source(7).bell(2500, 1), {.chunk_bits = 10});
  ASSERT_EQ(read_with(good, 0, ecq::load_le<std::uint8_t>(&good[0])).verdict, ecq::errc::ok);
  using ecq::errc;
  EXPECT_EQ(read_with(good, 0, std::uint8_t{'e'}).verdict, errc::corrupt);
  EXPECT_EQ(read_with(good, 4, std::uint16_t{2}).verdict, errc::unsupported);
  EXPECT_EQ(read_with(good, 6, std::uint16_t{99}).verdict, errc::unsupported);
  EXPECT_EQ(read_with(good, 6, std::uint16_t{0}).verdict, errc::corrupt);
  EXPECT_EQ(read_with(good, 8, std::uint16_t{1}).verdict, errc::unsupported);
  for (unsigned bits = 1; bits < 256; ++bits) {
    EXPECT_EQ(read_with(good, 10, static_cast<std::uint8_t>(bits)).verdict, errc::corrupt);
  }
  EXPECT_EQ(read_with(good, 11, std::uint8_t{64}).verdict, errc::unsupported);
  for (const unsigned bits : {0U, 9U, 11U, 18U, 19U, 63U, 64U, 255U}) {
    EXPECT_EQ(read_with(good, 12, static_cast<std::uint8_t>(bits)).verdict, errc::corrupt);
  }
  EXPECT_EQ(read_with(good, 13, std::uint8_t{1}).verdict, errc::unsupported);
  for (const std::uint64_t symbols : {0ULL, 2048ULL, 3073ULL, 1ULL << 43}) {
    EXPECT_EQ(read_with(good, 16, std::uint64_t{symbols}).verdict, errc::corrupt);
  }
  for (const std::uint64_t symbols : {(1ULL << 43) + 1, 1'000'000'000'000'000'000ULL, ~0ULL}) {
    EXPECT_EQ(read_with(good, 16, std::uint64_t{symbols}).verdict, errc::limit_exceeded);
  }
  EXPECT_EQ(read_with(good, 16, std::uint64_t{2499}).verdict, errc::corrupt);
  for (const std::uint64_t chunks : {0ULL, 2ULL, 4ULL, 1ULL << 60, ~0ULL}) {
    EXPECT_EQ(read_with(good, 24, std::uint64_t{chunks}).verdict, errc::corrupt);
  }
  EXPECT_EQ(read_with(good, 32, std::uint64_t{good.size() + 64}).verdict, errc::truncated);
  EXPECT_EQ(read_with(good, 32, ~std::uint64_t{0}).verdict, errc::truncated);
  EXPECT_EQ(read_with(good, 32, std::uint64_t{good.size() - 64}).verdict, errc::corrupt);
  for (const std::uint32_t tables : {0U, 2U, 3U, 4U, 65536U, 65537U, ~0U}) {
    EXPECT_NE(read_with(good, 40, tables).verdict, errc::ok);
  }
  EXPECT_EQ(read_with(good, 44, std::uint8_t{1}).verdict, errc::corrupt);
  for (const unsigned sections : {0U, 1U, 3U, 5U, 64U, 65U, 65535U}) {
    EXPECT_NE(read_with(good, 14, static_cast<std::uint16_t>(sections)).verdict, errc::ok);
  }
}

TEST(HostileStream, IsRefusedWhenItsDirectoryLies) {
  const bytes good = encode(code_source(7).bell(2500, 1), {.chunk_bits = 10});
  const std::size_t sections = ecq::load_le<std::uint16_t>(&good[14]);
  for (std::size_t i = 0; i < sections; ++i) {
    const std::size_t entry = 64 + 24 * i;
    const auto offset = ecq::load_le<std::uint64_t>(&good[entry + 8]);
    const auto size = ecq::load_le<std::uint64_t>(&good[entry + 16]);
    for (const std::uint64_t wrong : {0ULL, 64ULL, 1ULL << 63, ~0ULL, ~0ULL - 63, 0ULL + good.size()}) {
      EXPECT_NE(read_with(good, entry + 8, std::uint64_t{wrong}).verdict, ecq::errc::ok);
      if (wrong == size) continue;
      EXPECT_NE(read_with(good, entry + 16, std::uint64_t{wrong}).verdict, ecq::errc::ok);
    }
    for (const std::uint64_t wrong : {offset - 64, offset + 64, offset + 1}) {
      EXPECT_NE(read_with(good, entry + 8, wrong).verdict, ecq::errc::ok);
    }
    for (const std::uint64_t wrong : {size - 1, size + 1, size + 16, size - 16, ~std::uint64_t{0} - offset + 1}) {
      EXPECT_NE(read_with(good, entry + 16, wrong).verdict, ecq::errc::ok);
    }
    for (const std::uint32_t kind : {0U, 1U, 2U, 3U, 4U, 5U, 6U, ~0U}) {
      if (kind == ecq::load_le<std::uint32_t>(&good[entry])) continue;
      EXPECT_NE(read_with(good, entry, kind).verdict, ecq::errc::ok);
    }
    EXPECT_EQ(read_with(good, entry + 4, std::uint32_t{3}).verdict, ecq::errc::unsupported);
  }
}

// Sections that a later version may add, and that an old reader may skip or must refuse.
TEST(HostileStream, UnknownSectionsAreSkippedUnlessRequired) {
  const auto codes = code_source(7).bell(2500, 1);
  bytes blob = encode(codes, {.chunk_bits = 10});
  const std::size_t sections = ecq::load_le<std::uint16_t>(&blob[14]);
  ASSERT_EQ(sections, 4U);
  const std::size_t entry = 64 + 24 * sections;
  const std::size_t offset = blob.size();  // behind the words, and their tail
  blob.resize(offset + 64 + 192);
  blob[offset] = std::byte{42};
  ecq::store_le(&blob[14], static_cast<std::uint16_t>(sections + 1));
  ecq::store_le(&blob[32], std::uint64_t{blob.size()});
  ecq::store_le(&blob[entry], std::uint32_t{99});
  ecq::store_le(&blob[entry + 8], std::uint64_t{offset});
  ecq::store_le(&blob[entry + 16], std::uint64_t{64});
  const outcome skipped = read_with(blob, entry + 4, std::uint32_t{0});
  EXPECT_EQ(skipped.verdict, ecq::errc::ok);
  EXPECT_EQ(skipped.codes, codes);
  EXPECT_EQ(read_with(blob, entry + 4, std::uint32_t{1}).verdict, ecq::errc::unsupported);
}

TEST(HostileStream, IsRefusedWhenItsIndexLies) {
  const bytes good = encode(code_source(7).bell(2500, 1), {.chunk_bits = 10});
  const std::size_t index = section_at(good, ecq::section_kind::chunk_index);
  for (std::size_t record = 0; record < 4; ++record) {
    const std::size_t at = index + 16 * record;
    const auto first = ecq::load_le<std::uint64_t>(&good[at]);
    for (const std::uint64_t wrong : {first + 1, first - 1, first + 100, first + (std::uint64_t{1} << 63),
                                      std::uint64_t{2000}, ~std::uint64_t{0}}) {
      EXPECT_NE(read_with(good, at, wrong).verdict, ecq::errc::ok) << record << ' ' << wrong;
    }
    EXPECT_NE(read_with(good, at + 8, std::uint32_t{12345}).verdict, ecq::errc::ok);
    EXPECT_EQ(read_with(good, at + 12, std::uint16_t{1}).verdict, ecq::errc::corrupt);
    EXPECT_EQ(read_with(good, at + 14, std::uint16_t{1}).verdict, ecq::errc::corrupt);
  }
}

TEST(HostileStream, IsRefusedWhenItsTablesLie) {
  const bytes good = encode(code_source(7).bell(2500, 1), {.chunk_bits = 10});
  const std::size_t tables = section_at(good, ecq::section_kind::tables);
  const auto count = ecq::load_le<std::uint16_t>(&good[tables + 2]);
  for (std::size_t at = tables; at < tables + ecq::rans_table::record_bytes(count); ++at) {
    for (const unsigned wrong : {0U, 1U, 2U, 63U, 255U}) {
      if (good[at] == static_cast<std::byte>(wrong)) continue;
      const outcome got = read_with(good, at, static_cast<std::uint8_t>(wrong));
      // Other symbols in ascending order are as valid, and give other codes.
      const bool symbol = at >= tables + 4 && at < tables + 4 + count;
      if (!symbol) {
        EXPECT_NE(got.verdict, ecq::errc::ok) << at - tables;
      }
    }
  }
}

// Forged states and words are refused or give codes, by both decoders alike.
template <class Coder>
void expect_that_both_decoders_agree_on_liars() {
  const bytes good = encode<Coder>(code_source(7).bell(700, 4));
  const auto stream = ecq::encoded_stream::parse(good);
  ASSERT_TRUE(stream);
  const std::size_t states = section_at(good, ecq::section_kind::states);
  const std::size_t words = section_at(good, ecq::section_kind::words);
  const std::size_t end = words + 2 * stream->chunk(0).word_count;
  ASSERT_EQ(stream->coder(), Coder::id);
  code_source random(11);
  for (int round = 0; round < 500; ++round) {
    bytes bad = good;
    for (int change = 0; change < 1 + round % 3; ++change) {
      const bool state = round % 2 == 0 && Coder::state_bytes != 0;
      const std::size_t at =
          state ? states + random.next() % (Coder::state_bytes + 1) : words + random.next() % (end - words);
      bad[at] = static_cast<std::byte>(random.next());
    }
    ecq_test::seal(bad);
    const outcome got = read(bad);
    const auto second = ecq_test::format_decoder(bad).decode();
    ASSERT_EQ(got.verdict == ecq::errc::ok, second.has_value());
    if (second) {
      ASSERT_EQ(got.codes, *second);
    }
  }
}

TEST(HostileStream, ChunksOfALiarDecodeOrAreRefused) {
  expect_that_both_decoders_agree_on_liars<ecq::rans>();
  expect_that_both_decoders_agree_on_liars<ecq::tans>();
  expect_that_both_decoders_agree_on_liars<ecq::huffman>();
  expect_that_both_decoders_agree_on_liars<ecq::huffman_gaps>();
}

// Forged table records, and other coders for the right ones.
TEST(HostileStream, TablesOfALiarDecodeOrAreRefused) {
  for (const bytes& good :
       {encode<ecq::tans>(code_source(6).bell(300, 2)), encode<ecq::huffman>(code_source(7).bell(300, 2)),
        encode<ecq::huffman_gaps>(code_source(7).bell(300, 2))}) {
    const std::size_t tables = section_at(good, ecq::section_kind::tables);
    const auto stream = ecq::encoded_stream::parse(good);
    for (std::size_t at = tables; at < tables + stream->header().at(ecq::section_kind::tables).size; ++at) {
      for (const unsigned wrong : {0U, 1U, 2U, 3U, 17U, 255U}) read_with(good, at, static_cast<std::uint8_t>(wrong));
    }
    for (const unsigned coder : {0U, 1U, 2U, 3U, 4U, 5U}) read_with(good, 6, static_cast<std::uint16_t>(coder));
  }
}

TEST(HostileStream, NoiseIsRefused) {
  code_source random(12);
  const bytes good = encode(code_source(7).bell(700, 4));
  for (int round = 0; round < 2000; ++round) {
    bytes noise(random.next() % 1024);
    for (std::byte& byte : noise) byte = static_cast<std::byte>(random.next());
    for (std::size_t i = 0; i < noise.size() && i < good.size() && i < random.next() % 256; ++i) noise[i] = good[i];
    ASSERT_NE(read(noise).verdict, ecq::errc::ok);
  }
}

}  // namespace
