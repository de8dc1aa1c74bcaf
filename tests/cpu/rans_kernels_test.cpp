#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ecq/entropy/rans.hpp"
#include "ecq/stream/bit_io.hpp"
#include "support/codes.hpp"

namespace {

using ecq::instruction_set;
using ecq_test::code_source;

std::vector<instruction_set> all_sets() {
  std::vector<instruction_set> sets;
  for (const auto set : {instruction_set::scalar, instruction_set::avx2, instruction_set::avx512}) {
    if (set <= ecq::machine_instruction_set()) sets.push_back(set);
  }
  return sets;
}

// Bytes of their own, with the bytes behind them that decoders may read: a sanitizer sees any others.
std::vector<std::byte> padded(std::vector<std::byte> bytes) {
  bytes.resize(bytes.size() + ecq::stream_tail_bytes);
  bytes.shrink_to_fit();
  return bytes;
}

struct coded_chunk {
  std::vector<std::byte> states;
  std::vector<std::byte> words;
  std::uint32_t word_count = 0;
  std::uint32_t symbols = 0;

  ecq::chunk_bytes view() const { return {states.data(), words.data(), word_count, symbols}; }
};

coded_chunk encode(const ecq::rans_table& table, ecq::split_map map, std::span<const std::uint8_t> codes) {
  coded_chunk chunk;
  std::vector<std::byte> states(ecq::rans::state_bytes);
  std::vector<std::uint16_t> buffer(codes.size());
  const std::size_t count = ecq::rans::encoder(table, map).encode(codes, states.data(), buffer);
  std::vector<std::byte> words(2 * count);
  for (std::size_t i = 0; i < count; ++i) ecq::store_le(&words[2 * i], buffer[buffer.size() - count + i]);
  chunk.states = padded(states);
  chunk.words = padded(words);
  chunk.word_count = static_cast<std::uint32_t>(count);
  chunk.symbols = static_cast<std::uint32_t>(codes.size());
  return chunk;
}

struct table_case {
  std::string name;
  ecq::rans_table table;
  ecq::split_map map;
  unsigned spread;
};

std::vector<table_case> all_cases() {
  std::vector<table_case> cases;
  const auto add = [&](const char* name, unsigned buckets, unsigned direct_bits, unsigned raw_bits, unsigned spread) {
    auto codes = code_source(9).bell(60000, spread);
    for (unsigned code = 128 - 2 * spread; code <= 128 + 2 * spread; ++code) {
      codes.push_back(static_cast<std::uint8_t>(code));  // the rarest too
    }
    ecq::histogram coded;
    for (const std::uint8_t code : codes) ++coded.counts[code >> raw_bits];
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
  add("direct 12", 0, 12, 0, 31);
  add("direct 14", 0, 14, 1, 31);
  add("constant", 5, 0, 4, 0);
  return cases;
}

struct outcome {
  std::vector<std::vector<std::uint8_t>> codes;
  std::vector<ecq::errc> verdicts;
};

outcome decode(const table_case& with, std::span<const coded_chunk> chunks, instruction_set set) {
  outcome got;
  std::vector<ecq::chunk_bytes> views;
  std::vector<std::uint8_t*> targets;
  for (const coded_chunk& chunk : chunks) {
    views.push_back(chunk.view());
    got.codes.emplace_back(chunk.symbols);
  }
  for (auto& codes : got.codes) targets.push_back(codes.data());
  got.verdicts.resize(chunks.size(), ecq::errc::out_of_memory);
  ecq::rans::decoder(with.table, with.map).decode_many(views, targets.data(), got.verdicts, set);
  return got;
}

std::vector<std::uint8_t> coded_parts(std::vector<std::uint8_t> codes, ecq::split_map map) {
  for (std::uint8_t& code : codes) code = map.join(map.coded(code), 0);
  return codes;
}

TEST(RansKernels, DecodeEveryLengthAndNumberOfChunks) {
  for (const table_case& with : all_cases()) {
    std::vector<coded_chunk> chunks;
    std::vector<std::vector<std::uint8_t>> expected;
    for (std::size_t size = 1; size <= 300; ++size) {
      const auto codes = code_source(size).bell(size, with.spread);
      chunks.push_back(encode(with.table, with.map, codes));
      expected.push_back(coded_parts(codes, with.map));
    }
    for (const instruction_set set : all_sets()) {
      for (std::size_t count = 1; count <= 9; ++count) {
        for (std::size_t first = 0; first + count <= chunks.size(); first += count) {
          const outcome got = decode(with, std::span(chunks).subspan(first, count), set);
          for (std::size_t i = 0; i < count; ++i) {
            ASSERT_EQ(got.verdicts[i], ecq::errc::ok) << with.name << ' ' << name_of(set) << ' ' << first + i;
            ASSERT_EQ(got.codes[i], expected[first + i]) << with.name << ' ' << name_of(set) << ' ' << first + i;
          }
        }
      }
    }
  }
}

TEST(RansKernels, DecodeLongChunksOfDifferentLengths) {
  for (const table_case& with : all_cases()) {
    std::vector<coded_chunk> chunks;
    std::vector<std::vector<std::uint8_t>> expected;
    for (const std::size_t size : {8192U, 20001U, 8192U, 8192U, 127U, 8192U, 5000U}) {
      const auto codes = code_source(size).bell(size, with.spread);
      chunks.push_back(encode(with.table, with.map, codes));
      expected.push_back(coded_parts(codes, with.map));
    }
    for (const instruction_set set : all_sets()) {
      const outcome got = decode(with, chunks, set);
      for (std::size_t i = 0; i < chunks.size(); ++i) {
        EXPECT_EQ(got.verdicts[i], ecq::errc::ok) << with.name << ' ' << name_of(set) << ' ' << i;
        EXPECT_EQ(got.codes[i], expected[i]) << with.name << ' ' << name_of(set) << ' ' << i;
      }
    }
  }
}

// Damaged chunks are refused by all kernels or by none, whatever lies beside them.
TEST(RansKernels, AgreeOnDamagedChunks) {
  code_source random(11);
  for (const table_case& with : all_cases()) {
    std::vector<coded_chunk> good;
    for (std::size_t i = 0; i < 5; ++i) {
      good.push_back(encode(with.table, with.map, code_source(i).bell(256 + 64 * i, with.spread)));
    }
    for (int round = 0; round < 2500; ++round) {
      std::vector<coded_chunk> chunks = good;
      for (std::size_t i = 0; i < chunks.size(); ++i) {
        coded_chunk& chunk = chunks[i];
        const auto change = [&](std::vector<std::byte>& bytes, std::size_t size) {
          if (size != 0) bytes[random.next() % size] ^= static_cast<std::byte>(1 + random.next() % 255);
        };
        switch (random.next() % 8) {
          case 0: change(chunk.states, ecq::rans::state_bytes); break;
          case 1:
          case 2: change(chunk.words, std::size_t{2} * chunk.word_count); break;
          case 3:
            for (std::size_t at = 0; at < ecq::rans::state_bytes; ++at) {
              chunk.states[at] = static_cast<std::byte>(random.next());
            }
            break;
          case 4: {  // fewer words, the others gone
            if (chunk.word_count == 0) break;
            chunk.word_count = static_cast<std::uint32_t>(random.next() % chunk.word_count);
            chunk.words.resize(std::size_t{2} * chunk.word_count);
            chunk.words = padded(chunk.words);
            break;
          }
          case 5: chunk.symbols = static_cast<std::uint32_t>(1 + random.next() % 700); break;
          case 6: chunk.words[0] ^= std::byte{1}; break;
          default: break;  // stays whole
        }
      }
      const outcome expected = decode(with, chunks, instruction_set::scalar);
      for (const instruction_set set : all_sets()) {
        const outcome got = decode(with, chunks, set);
        ASSERT_EQ(got.verdicts, expected.verdicts) << with.name << ' ' << name_of(set) << ' ' << round;
        for (std::size_t i = 0; i < chunks.size(); ++i) {
          if (expected.verdicts[i] == ecq::errc::ok) {
            ASSERT_EQ(got.codes[i], expected.codes[i]) << with.name << ' ' << name_of(set) << ' ' << round;
          }
        }
      }
    }
  }
}

// Two chunks at a time, and an odd one: every pair of lengths around whole groups, and long ones.
TEST(RansKernels, EncodeTheSameWords) {
  for (const table_case& with : all_cases()) {
    std::vector<std::vector<std::uint8_t>> codes;
    for (std::size_t size = 1; size <= 300; ++size) codes.push_back(code_source(size).bell(size, with.spread));
    for (const std::size_t size : {70001U, 65536U, 8192U}) codes.push_back(code_source(size).bell(size, with.spread));
    const ecq::rans::encoder encoder(with.table, with.map);
    for (const instruction_set set : all_sets()) {
      std::vector<std::span<const std::uint8_t>> views(codes.begin(), codes.end());
      std::vector<std::vector<std::byte>> states(codes.size(), std::vector<std::byte>(ecq::rans::state_bytes));
      std::vector<std::vector<std::uint16_t>> words;
      std::vector<std::byte*> state_targets;
      for (auto& each : states) state_targets.push_back(each.data());
      for (const auto& each : codes) words.emplace_back(each.size());
      const std::vector<std::span<std::uint16_t>> word_targets(words.begin(), words.end());
      std::vector<std::size_t> counts(codes.size());
      encoder.encode_many(views, state_targets.data(), word_targets, counts, set);
      for (std::size_t i = 0; i < codes.size(); ++i) {
        std::vector<std::byte> expected_states(ecq::rans::state_bytes);
        std::vector<std::uint16_t> expected(codes[i].size());
        const std::size_t count = encoder.encode(codes[i], expected_states.data(), expected);
        ASSERT_EQ(counts[i], count) << with.name << ' ' << name_of(set) << ' ' << codes[i].size();
        ASSERT_EQ(states[i], expected_states) << with.name << ' ' << name_of(set) << ' ' << codes[i].size();
        ASSERT_TRUE(std::equal(expected.end() - static_cast<std::ptrdiff_t>(count), expected.end(),
                               words[i].end() - static_cast<std::ptrdiff_t>(count)))
            << with.name << ' ' << name_of(set) << ' ' << codes[i].size();
      }
    }
  }
}

}  // namespace
