#pragma once
// Tests for the kernels of every coder: they must give the codes, words and verdicts of the scalar definition.

#include <gtest/gtest.h>

#include <span>
#include <string>
#include <vector>

#include "ecq/base/instruction_set.hpp"
#include "ecq/base/lanes.hpp"
#include "ecq/base/little_endian.hpp"
#include "ecq/entropy/entropy_coder.hpp"
#include "ecq/entropy/symbol_map.hpp"
#include "support/codes.hpp"
#include "support/instruction_sets.hpp"

namespace ecq_test {

using ecq::instruction_set;

// Returns the bytes in memory of their own, with only those bytes behind them that decoders may read, so that a
// sanitizer detects all other reads.
inline std::vector<std::byte> padded(std::vector<std::byte> bytes) {
  bytes.resize(bytes.size() + ecq::stream_tail_bytes);
  bytes.shrink_to_fit();
  return bytes;
}

struct chunk_of_symbols {
  std::vector<std::byte> states;
  std::vector<std::byte> words;
  std::uint32_t word_count = 0;
  std::uint32_t symbols = 0;

  ecq::chunk_bytes view() const { return {states.data(), words.data(), word_count, symbols}; }
};

/// Case for the kernels of a coder: codes are bell(size, spread), all of which the table contains.
template <class Coder>
struct kernel_case {
  std::string name;
  typename Coder::table table;
  ecq::split_map map;
  unsigned spread;

  std::vector<std::uint8_t> codes(std::size_t size) const { return code_source(size).bell(size, spread); }
};

/// Returns the codes from which to make the table of a case of `spread`: common codes as often as they occur, and the
/// rarest too.
inline std::vector<std::uint8_t> sample_codes(unsigned spread) {
  auto codes = code_source(9).bell(60000, spread);
  for (unsigned code = 128 - 2 * spread; code <= 128 + 2 * spread; ++code) {
    codes.push_back(static_cast<std::uint8_t>(code));
  }
  return codes;
}

template <class Coder>
chunk_of_symbols encode(const kernel_case<Coder>& with, std::span<const std::uint8_t> codes) {
  chunk_of_symbols chunk;
  std::vector<std::byte> states(Coder::state_bytes);
  std::vector<std::uint16_t> buffer(codes.size());
  const std::size_t count = typename Coder::encoder(with.table, with.map).encode(codes, states.data(), buffer);
  std::vector<std::byte> words(2 * count);
  for (std::size_t i = 0; i < count; ++i) ecq::store_le(&words[2 * i], buffer[buffer.size() - count + i]);
  chunk.states = padded(states);
  chunk.words = padded(words);
  chunk.word_count = static_cast<std::uint32_t>(count);
  chunk.symbols = static_cast<std::uint32_t>(codes.size());
  return chunk;
}

struct outcome {
  std::vector<std::vector<std::uint8_t>> codes;
  std::vector<ecq::errc> verdicts;
};

template <class Coder>
outcome decode(const kernel_case<Coder>& with, std::span<const chunk_of_symbols> chunks, instruction_set set) {
  outcome got;
  std::vector<ecq::chunk_bytes> views;
  std::vector<std::uint8_t*> targets;
  for (const chunk_of_symbols& chunk : chunks) {
    views.push_back(chunk.view());
    got.codes.emplace_back(chunk.symbols);
  }
  for (auto& codes : got.codes) targets.push_back(codes.data());
  got.verdicts.resize(chunks.size(), ecq::errc::out_of_memory);
  typename Coder::decoder(with.table, with.map).decode_many(views, targets.data(), got.verdicts, set);
  return got;
}

inline std::vector<std::uint8_t> coded_parts(std::vector<std::uint8_t> codes, ecq::split_map map) {
  for (std::uint8_t& code : codes) code = map.join(map.coded(code), 0);
  return codes;
}

template <class Coder>
void expect_every_length_and_number_of_chunks(const std::vector<kernel_case<Coder>>& cases) {
  for (const kernel_case<Coder>& with : cases) {
    std::vector<chunk_of_symbols> chunks;
    std::vector<std::vector<std::uint8_t>> expected;
    for (std::size_t size = 1; size <= 300; ++size) {
      const auto codes = with.codes(size);
      chunks.push_back(encode(with, codes));
      expected.push_back(coded_parts(codes, with.map));
    }
    for (const instruction_set set : machine_sets()) {
      for (const std::size_t count : {1U, 2U, 3U, 4U, 5U, 6U, 7U, 8U, 9U, 17U}) {
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

template <class Coder>
void expect_long_chunks_of_different_lengths(const std::vector<kernel_case<Coder>>& cases) {
  for (const kernel_case<Coder>& with : cases) {
    std::vector<chunk_of_symbols> chunks;
    std::vector<std::vector<std::uint8_t>> expected;
    for (const std::size_t size : {8192U, 20001U, 8192U, 8192U, 127U, 8192U, 5000U}) {
      const auto codes = with.codes(size);
      chunks.push_back(encode(with, codes));
      expected.push_back(coded_parts(codes, with.map));
    }
    for (const instruction_set set : machine_sets()) {
      const outcome got = decode(with, chunks, set);
      for (std::size_t i = 0; i < chunks.size(); ++i) {
        EXPECT_EQ(got.verdicts[i], ecq::errc::ok) << with.name << ' ' << name_of(set) << ' ' << i;
        EXPECT_EQ(got.codes[i], expected[i]) << with.name << ' ' << name_of(set) << ' ' << i;
      }
    }
  }
}

/// Expects every kernel to accept or refuse a damaged chunk as the scalar definition does, whatever lies beside it.
template <class Coder>
void expect_agreement_on_damaged_chunks(const std::vector<kernel_case<Coder>>& cases) {
  code_source random(11);
  for (const kernel_case<Coder>& with : cases) {
    std::vector<chunk_of_symbols> good;
    for (std::size_t i = 0; i < 5; ++i) {
      good.push_back(encode(with, code_source(i).bell(256 + 64 * i, with.spread)));
    }
    for (int round = 0; round < 1000; ++round) {
      std::vector<chunk_of_symbols> chunks = good;
      for (std::size_t i = 0; i < chunks.size(); ++i) {
        chunk_of_symbols& chunk = chunks[i];
        const auto change = [&](std::vector<std::byte>& bytes, std::size_t size) {
          if (size != 0) bytes[random.next() % size] ^= static_cast<std::byte>(1 + random.next() % 255);
        };
        switch (random.next() % 8) {
          case 0: change(chunk.states, Coder::state_bytes); break;
          case 1:
          case 2: change(chunk.words, std::size_t{2} * chunk.word_count); break;
          case 3:
            for (std::size_t at = 0; at < Coder::state_bytes; ++at) {
              chunk.states[at] = static_cast<std::byte>(random.next());
            }
            break;
          case 4: {  // fewer words; the others are removed
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
      for (const instruction_set set : machine_sets()) {
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

/// Expects encode_many() to write the states and words of encode(), for an odd number of chunks: of every length up to
/// 300, and long ones.
template <class Coder>
void expect_the_same_words(const std::vector<kernel_case<Coder>>& cases) {
  for (const kernel_case<Coder>& with : cases) {
    std::vector<std::vector<std::uint8_t>> codes;
    for (std::size_t size = 1; size <= 300; ++size) codes.push_back(with.codes(size));
    for (const std::size_t size : {70001U, 65536U, 8192U}) codes.push_back(with.codes(size));
    const typename Coder::encoder encoder(with.table, with.map);
    for (const instruction_set set : machine_sets()) {
      std::vector<std::span<const std::uint8_t>> views(codes.begin(), codes.end());
      std::vector<std::vector<std::byte>> states(codes.size(), std::vector<std::byte>(Coder::state_bytes));
      std::vector<std::vector<std::uint16_t>> words;
      std::vector<std::byte*> state_targets;
      for (auto& each : states) state_targets.push_back(each.data());
      for (const auto& each : codes) words.emplace_back(each.size());
      const std::vector<std::span<std::uint16_t>> word_targets(words.begin(), words.end());
      std::vector<std::size_t> counts(codes.size());
      encoder.encode_many(views, state_targets.data(), word_targets, counts, set);
      for (std::size_t i = 0; i < codes.size(); ++i) {
        std::vector<std::byte> expected_states(Coder::state_bytes);
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

}  // namespace ecq_test
