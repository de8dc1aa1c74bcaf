// Laws of every entropy coder (entropy/entropy_coder.hpp).

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "ecq/analysis/code_statistics.hpp"
#include "ecq/entropy/entropy_coder.hpp"
#include "ecq/stream/bit_io.hpp"
#include "ecq/stream/every_coder.hpp"
#include "ecq/stream/stream_view.hpp"
#include "support/coded_chunk.hpp"
#include "support/codes.hpp"
#include "support/policies.hpp"

namespace {

using ecq::errc;
using ecq_test::code_source;
using ecq_test::coded_chunk;
using ecq_test::decoded_chunk;

std::vector<std::vector<std::uint8_t>> code_sets() {
  code_source source(5);
  std::vector<std::vector<std::uint8_t>> sets = {{7},
                                                 {0, 255},
                                                 std::vector<std::uint8_t>(1000, 200),
                                                 source.bell(1, 3),
                                                 source.bell(127, 3),
                                                 source.bell(128, 10),
                                                 source.bell(129, 31),
                                                 source.bell(20000, 1),
                                                 source.bell(20001, 14),
                                                 source.bell(20003, 31),
                                                 source.uniform(20000),
                                                 source.below(5000, 2)};
  std::vector<std::uint8_t> rare(30000, 1);
  rare[12345] = 2;
  sets.push_back(rare);
  return sets;
}

ecq::histogram counts_of(std::span<const std::uint8_t> codes) {
  ecq::histogram counts;
  counts.add(codes);
  return counts;
}

/// Returns the codes that the coder decodes, joined with the raw bits, which no coder sees.
template <class Coder>
decoded_chunk decode_whole(const coded_chunk<Coder>& chunk, const typename Coder::table& table, ecq::split_map map) {
  return chunk.decode_by([&](const ecq::chunk_bytes& bytes, const std::byte* raw, std::uint8_t* out) {
    const errc verdict = typename Coder::decoder(table, map).decode(bytes, out);
    ecq::merge_raw_bits(map, raw, {out, bytes.symbols});
    return verdict;
  });
}

template <class Coder>
class EntropyCoderLaws : public testing::Test {
  static_assert(ecq::entropy_coder<Coder>);
  static_assert(ecq::decodable_on<Coder, ecq::cpu>);
};

TYPED_TEST_SUITE(EntropyCoderLaws, ecq_test::all_coders, ecq_test::policy_names);

TYPED_TEST(EntropyCoderLaws, DecodesWhatItEncoded) {
  for (const auto& codes : code_sets()) {
    const std::vector<ecq::histogram> classes = {counts_of(codes)};
    const auto plan = TypeParam::plan(classes);
    ASSERT_EQ(plan.tables.size(), 1U);
    const coded_chunk<TypeParam> coded(plan.tables[0], plan.map, codes);
    EXPECT_LE(coded.word_count(), codes.size());
    const auto [verdict, decoded] = decode_whole(coded, plan.tables[0], plan.map);
    EXPECT_EQ(verdict, errc::ok);
    EXPECT_EQ(decoded, codes);
  }
}

TYPED_TEST(EntropyCoderLaws, TablesReadBackAndDecodeTheSame) {
  for (const auto& codes : code_sets()) {
    const std::vector<ecq::histogram> classes = {counts_of(codes)};
    const auto plan = TypeParam::plan(classes);
    std::vector<std::byte> section(3, std::byte{0xee});
    plan.tables[0].append_to(section);
    const std::size_t end = section.size();
    section.push_back(std::byte{0xee});
    std::size_t position = 3;
    const auto table = TypeParam::table::read(section, position, plan.map);
    ASSERT_TRUE(table) << table.error().message();
    EXPECT_EQ(position, end);
    const coded_chunk<TypeParam> coded(plan.tables[0], plan.map, codes);
    EXPECT_EQ(coded.decode(*table, plan.map), coded.decode(plan.tables[0], plan.map));
    std::vector<std::byte> again(3, std::byte{0xee});
    table->append_to(again);
    EXPECT_TRUE(std::equal(again.begin(), again.end(), section.begin(), section.end() - 1));
  }
}

TYPED_TEST(EntropyCoderLaws, TruncatedTablesAreRefused) {
  const auto codes = code_source(3).bell(10000, 20);
  const std::vector<ecq::histogram> classes = {counts_of(codes)};
  const auto plan = TypeParam::plan(classes);
  std::vector<std::byte> section;
  plan.tables[0].append_to(section);
  for (std::size_t length = 0; length < section.size(); ++length) {
    std::size_t position = 0;
    EXPECT_FALSE(TypeParam::table::read(std::span(section).first(length), position, plan.map)) << length;
  }
}

TYPED_TEST(EntropyCoderLaws, EveryClassGetsATable) {
  code_source source(8);
  const auto narrow = source.bell(4000, 2), wide = source.bell(4000, 25);
  const std::vector<ecq::histogram> classes = {counts_of(narrow), counts_of(wide)};
  const auto plan = TypeParam::plan(classes);
  ASSERT_EQ(plan.tables.size(), 2U);
  for (const auto& [table, codes] : {std::pair{plan.tables[0], narrow}, std::pair{plan.tables[1], wide}}) {
    const coded_chunk<TypeParam> coded(table, plan.map, codes);
    const auto [verdict, decoded] = decode_whole(coded, table, plan.map);
    EXPECT_EQ(verdict, errc::ok);
    EXPECT_EQ(decoded, codes);
  }
}

TYPED_TEST(EntropyCoderLaws, ComesNearTheEntropy) {
  for (const unsigned spread : {1U, 5U, 14U, 31U}) {
    const auto codes = code_source(spread).bell(std::size_t{1} << 17, spread);
    const std::vector<ecq::histogram> classes = {counts_of(codes)};
    const auto plan = TypeParam::plan(classes);
    const coded_chunk<TypeParam> coded(plan.tables[0], plan.map, codes);
    const double bits =
        plan.map.bits + 16.0 * static_cast<double>(coded.word_count()) / static_cast<double>(codes.size());
    const double entropy = ecq::analyse_codes(codes).entropy;
    EXPECT_GE(bits, entropy - 0.01);
    // A Huffman code gives each symbol whole bits; the shares of the symbols bound the cost of that. Gap arrays add a
    // little more than 4 bits to every 64.
    const double slack = TypeParam::id == ecq::coder_id::huffman        ? 0.09
                         : TypeParam::id == ecq::coder_id::huffman_gaps ? 0.09 + 0.07 * entropy
                                                                        : 0.03;
    EXPECT_LE(bits, TypeParam::id == ecq::coder_id::raw ? 8 : entropy + slack);
  }
}

// A decoder accepts only what the encoder writes for the codes that come out, so that no two chunks mean the same.
TYPED_TEST(EntropyCoderLaws, AcceptsNothingButWhatTheEncoderWrites) {
  const auto codes = code_source(4).bell(3000, 14);
  const std::vector<ecq::histogram> classes = {counts_of(codes)};
  const auto plan = TypeParam::plan(classes);
  const coded_chunk<TypeParam> coded(plan.tables[0], plan.map, codes);
  code_source noise(77);
  int refused = 0;
  for (int repetition = 0; repetition < 300; ++repetition) {
    SCOPED_TRACE(repetition);
    coded_chunk<TypeParam> damaged = coded;
    auto& target = repetition % 2 == 0 ? damaged.states : damaged.words;
    if (!target.empty()) target[noise.next() % target.size()] ^= static_cast<std::byte>(1U << (noise.next() % 8));
    if (repetition % 5 == 0) damaged.words.resize(2 * (noise.next() % (coded.word_count() + 1)));
    if (repetition % 7 == 0) damaged.symbols = 1 + static_cast<std::uint32_t>(noise.next() % 5000);
    const decoded_chunk out = damaged.decode(plan.tables[0], plan.map);
    if (out.verdict != errc::ok) {
      EXPECT_EQ(out.verdict, errc::corrupt);
      ++refused;
      continue;
    }
    const coded_chunk<TypeParam> again(plan.tables[0], plan.map, out.codes);
    EXPECT_EQ(again.states, damaged.states);
    EXPECT_EQ(again.words, damaged.words);
  }
  EXPECT_TRUE(TypeParam::id == ecq::coder_id::raw || refused > 100) << refused;
}

TEST(EntropyCoders, NamesAndIdsAreUnique) {
  std::set<std::string_view> names;
  std::set<ecq::coder_id> ids;
  ecq_test::for_each_policy(ecq_test::all_coders{}, [&]<class Coder>() {
    EXPECT_TRUE(names.insert(Coder::name).second) << Coder::name;
    // The streams of rans_direct are streams of rans.
    if (!std::is_same_v<Coder, ecq::rans_direct>) {
      EXPECT_TRUE(ids.insert(Coder::id).second) << Coder::name;
    }
  });
  for (unsigned number = 0; number < 256; ++number) {
    const auto id = static_cast<ecq::coder_id>(number);
    const bool known = ecq::with_coder(id, [](auto) -> ecq::result<void> { return {}; }).has_value();
    EXPECT_EQ(known, ids.contains(id)) << "coder " << number << ": streams name it, or the list does, alone";
  }
}

}  // namespace
