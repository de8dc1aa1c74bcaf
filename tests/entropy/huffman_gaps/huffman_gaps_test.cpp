#include "ecq/entropy/huffman_gaps/huffman_gaps.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ecq/base/lanes.hpp"
#include "support/coded_chunk.hpp"
#include "support/codes.hpp"
#include "support/decode_by_warp.hpp"

namespace {

using ecq_test::code_source;
using table = ecq::huffman_gaps::table;

// Decodes in one pass, and in two phases by the body of a group of threads; both must agree.
struct decoders {
  decoders(const table& by, ecq::split_map with) : code(by), map(with), once(by, with) {}

  table code;
  ecq::split_map map;
  ecq::huffman_gaps::decoder once;
};

using coded_chunk = ecq_test::coded_chunk<ecq::huffman_gaps>;

bool stored(const coded_chunk& chunk) { return chunk.word_count() == ecq::huffman_gaps::stored_words(chunk.symbols); }

ecq_test::decoded_chunk decode(const coded_chunk& chunk, const decoders& by) {
  auto once = chunk.decode(by.once);
  // Raw bits are 0, as the other decoder leaves them.
  const std::vector<std::byte> raw(chunk.symbols + ecq::stream_tail_bytes);
  const auto group = chunk.decode_by([&](const ecq::chunk_bytes& bytes, const std::byte*, std::uint8_t* out) {
    return *ecq_test::decode_by_warp<ecq::byte_split>(ecq::huffman_gaps{}, by.code, by.map, bytes,
                                                      {raw.data(), by.map.bits}, reinterpret_cast<std::byte*>(out));
  });
  EXPECT_EQ(once.verdict, group.verdict);
  if (once.verdict == ecq::errc::ok) {
    EXPECT_EQ(once.codes, group.codes);
  }
  return once;
}

struct table_case {
  std::string name;
  table code;
  ecq::split_map map;
  std::vector<std::uint8_t> codes;
};

// Returns a case of `symbols` exponents from `first` down, each half as common as the one before. The commonest may be
// that of infinity and NaN.
table_case halving(const char* name, unsigned symbols, unsigned limit, unsigned first) {
  ecq::histogram coded;
  std::vector<std::uint8_t> codes;
  for (unsigned i = 0; i < symbols; ++i) {
    const auto symbol = static_cast<std::uint8_t>(first - i);
    coded.counts[symbol] = i < 60 ? std::uint64_t{1} << (60 - i) : 1;
    codes.insert(codes.end(), 1 + (i < 15 ? 16384U >> i : 0U), symbol);
  }
  code_source random(symbols);
  for (std::size_t i = codes.size() - 1; i > 0; --i) std::swap(codes[i], codes[random.next() % (i + 1)]);
  return {name, table::of(coded, ecq::limited_code_lengths(coded, limit)), {0}, codes};
}

std::vector<table_case> all_cases() {
  std::vector<table_case> cases;
  const auto add = [&](const char* name, std::vector<std::uint8_t> codes, unsigned raw_bits) {
    ecq::histogram coded;
    for (const std::uint8_t code : codes) ++coded.counts[code >> raw_bits];
    cases.push_back({name, table::of(coded, ecq::limited_code_lengths(coded, 16)), {raw_bits}, codes});
  };
  code_source source(3);
  add("one symbol", std::vector<std::uint8_t>(700, 255), 0);
  add("two symbols", source.below(60000, 2), 0);
  add("bell", source.bell(20000, 4), 0);
  add("bell, 3 raw bits", source.bell(20000, 31), 3);
  add("256 symbols", source.uniform(2000), 0);
  cases.push_back(halving("FP8 exponents", 16, 16, 15));
  cases.push_back(halving("gaps of 5 bits", 33, 32, 255));
  cases.push_back(halving("all exponents, 32 bits", 256, 32, 255));
  cases.push_back(halving("all exponents, 16 bits", 256, 16, 255));
  return cases;
}

TEST(HuffmanGaps, DecodesWhatItEncodedAtEveryLength) {
  for (const table_case& with : all_cases()) {
    const decoders by(with.code, with.map);
    const auto expect_round_trip = [&](std::span<const std::uint8_t> codes) {
      const auto [verdict, decoded] = decode({with.code, with.map, codes}, by);
      ASSERT_EQ(verdict, ecq::errc::ok) << with.name << ' ' << codes.size();
      for (std::size_t i = 0; i < codes.size(); ++i) {
        ASSERT_EQ(decoded[i], codes[i] >> with.map.bits << with.map.bits) << with.name << ' ' << codes.size();
      }
    };
    for (std::size_t size = 1; size <= 300; ++size) expect_round_trip(std::span(with.codes).subspan(size, size));
    expect_round_trip(with.codes);
  }
}

TEST(HuffmanGaps, TakesWindowsGapsAndPositions) {
  const auto with = all_cases()[1];  // a bit per code
  const coded_chunk chunk(with.code, with.map, with.codes);
  const std::size_t windows = (60000 + 63) / 64;
  EXPECT_EQ(chunk.words.size(), 4 + 4 * ((windows + 255) / 256) + 2 * ((4 * windows + 15) / 16) + 8 * windows);
  EXPECT_EQ(ecq::load_le<std::uint32_t>(&chunk.words[8]), 64U * 256U);
}

TEST(HuffmanGaps, StoresWhatWouldGrow) {
  const auto with = all_cases()[4];
  EXPECT_TRUE(stored({with.code, with.map, with.codes}));
  // The rarest codes of the table, with 32 bits each.
  const auto rare = all_cases()[6];
  EXPECT_TRUE(stored({rare.code, rare.map, std::vector<std::uint8_t>(5000, 255 - 32)}));
}

// Every change to header, positions, gaps and padding is detected; changed code words give other codes or are refused.
TEST(HuffmanGaps, RefusesHeadersPositionsAndGapsThatLie) {
  for (const table_case& with : all_cases()) {
    const decoders by(with.code, with.map);
    const coded_chunk good(with.code, with.map, with.codes);
    if (stored(good) || with.code.count == 1) continue;
    const auto windows = ecq::load_le<std::uint32_t>(good.words.data());
    const std::size_t code_words = good.words.size() - std::size_t{8} * windows;
    for (std::size_t bit = 0; bit < 8 * code_words; bit += 1 + bit / 40) {
      coded_chunk bad = good;
      bad.words[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
      ASSERT_EQ(decode(bad, by).verdict, ecq::errc::corrupt) << with.name << ' ' << bit;
    }
    for (const std::size_t kept : {std::size_t{0}, std::size_t{2}, std::size_t{4}, code_words, good.words.size() - 2}) {
      coded_chunk bad = good;
      bad.words.resize(kept);
      ASSERT_EQ(decode(bad, by).verdict, ecq::errc::corrupt) << with.name << ' ' << kept;
    }
    coded_chunk more = good;
    more.symbols += 64;
    EXPECT_EQ(decode(more, by).verdict, ecq::errc::corrupt) << with.name;
    coded_chunk longer = good;
    longer.words.resize(good.words.size() + 8);
    EXPECT_EQ(decode(longer, by).verdict, ecq::errc::corrupt) << with.name;
  }
}

TEST(HuffmanGaps, DamagedCodeWordsAreSafe) {
  for (const table_case& with : all_cases()) {
    const decoders by(with.code, with.map);
    const coded_chunk good(with.code, with.map, std::span(with.codes).first(600));
    for (std::size_t bit = 0; bit < 8 * good.words.size(); ++bit) {
      coded_chunk bad = good;
      bad.words[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
      decode(bad, by);
    }
    code_source random(3);
    for (int round = 0; round < 100; ++round) {
      coded_chunk noise = good;
      for (std::size_t at = 4; at < noise.words.size(); ++at) noise.words[at] = static_cast<std::byte>(random.next());
      decode(noise, by);
    }
  }
}

// Damages code words, gaps and positions of chunks that have several stretches.
TEST(HuffmanGaps, JudgesDamageToManyStretchesAsTheTwoPhasesDo) {
  for (const table_case& with : all_cases()) {
    const decoders by(with.code, with.map);
    const coded_chunk good(with.code, with.map, with.codes);
    if (stored(good) || with.code.count == 1) continue;
    code_source random(17);
    for (int round = 0; round < 24; ++round) {
      coded_chunk bad = good;
      for (int changes = round % 3; changes >= 0; --changes) {
        bad.words[random.next() % bad.words.size()] ^= static_cast<std::byte>(1U << (random.next() % 8));
      }
      bad.symbols -= round % 4 == 0 ? static_cast<std::uint32_t>(random.next() % 3) : 0U;
      decode(bad, by);
    }
  }
}

TEST(HuffmanGaps, DecodesChunksSideBySideAsAlone) {
  for (const table_case& with : all_cases()) {
    const decoders by(with.code, with.map);
    std::vector<coded_chunk> parts;
    std::size_t at = 0;
    for (const std::size_t size : {std::size_t{1}, std::size_t{300}, std::size_t{0}, std::size_t{40}}) {
      const std::size_t count = size != 0 ? size : with.codes.size() - at - 40;
      parts.emplace_back(with.code, with.map, std::span(with.codes).subspan(at, count));
      at += count;
    }
    for (std::size_t damaged = 0; damaged <= parts.size(); ++damaged) {
      std::vector<coded_chunk> chunks = parts;
      // Damages the byte in the middle of the chunk's words.
      if (damaged < parts.size()) chunks[damaged].words[chunks[damaged].words.size() / 2] ^= std::byte{0x55};
      std::vector<ecq::chunk_bytes> views;
      std::vector<std::vector<std::uint8_t>> outs;
      std::vector<std::uint8_t*> targets;
      for (coded_chunk& chunk : chunks) {
        outs.emplace_back(chunk.symbols);
        views.push_back({nullptr, nullptr, static_cast<std::uint32_t>(chunk.words.size() / 2), chunk.symbols});
      }
      for (std::size_t i = 0; i < chunks.size(); ++i) {
        chunks[i].words.resize(chunks[i].words.size() + ecq::stream_tail_bytes);
        views[i].words = chunks[i].words.data();
        targets.push_back(outs[i].data());
      }
      std::vector<ecq::errc> verdicts(chunks.size(), ecq::errc::unsupported);
      by.once.decode_many(views, targets.data(), verdicts, ecq::instruction_set::automatic);
      for (std::size_t i = 0; i < chunks.size(); ++i) {
        std::vector<std::uint8_t> alone(chunks[i].symbols);
        EXPECT_EQ(verdicts[i], by.once.decode(views[i], alone.data())) << with.name << ' ' << damaged << ' ' << i;
        if (verdicts[i] == ecq::errc::ok) {
          EXPECT_EQ(outs[i], alone) << with.name << ' ' << damaged << ' ' << i;
        }
      }
    }
  }
}

}  // namespace
