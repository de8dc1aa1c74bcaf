#include "ecq/entropy/join_elements.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "ecq/entropy/rans/rans.hpp"
#include "ecq/stream/bit_io.hpp"
#include "entropy/chunk_kernels.hpp"
#include "support/instruction_sets.hpp"

namespace {

struct joined_outcome {
  std::vector<ecq::errc> verdicts;
  std::vector<std::vector<std::byte>> elements;
};

template <class Split>
joined_outcome decode_joined(const ecq::rans::decoder& decoder, unsigned bits,
                             std::span<const ecq_test::chunk_of_symbols> chunks,
                             std::span<const std::vector<std::byte>> raw, ecq::instruction_set set) {
  constexpr std::size_t width = sizeof(typename Split::element);
  constexpr std::size_t odd = 3;  // elements need not be aligned
  joined_outcome got;
  std::vector<ecq::chunk_bytes> views;
  std::vector<ecq::element_target> targets;
  for (const ecq_test::chunk_of_symbols& chunk : chunks) {
    views.push_back(chunk.view());
    got.elements.emplace_back(odd + width * chunk.symbols);
  }
  for (std::size_t i = 0; i < chunks.size(); ++i) targets.push_back({raw[i].data(), got.elements[i].data() + odd});
  got.verdicts.resize(chunks.size());
  decoder.decode_joined(views, ecq::element_join::of<Split>(bits), targets, got.verdicts, set);
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    const std::size_t joined = targets[i].joined;
    EXPECT_EQ(joined % ecq::group_symbols, 0U);
    ecq::join_elements<Split>(bits, targets[i].symbols(width, chunks[i].symbols) + joined,
                              raw[i].data() + joined / 8 * bits, chunks[i].symbols - joined,
                              targets[i].elements + joined * width, set);
    got.elements[i].erase(got.elements[i].begin(), got.elements[i].begin() + odd);
  }
  return got;
}

// Covers every format, every number of raw bits and alias tables of both sizes, with whole and damaged chunks.
TEST(JoinElements, InsideTheKernelsOfRans) {
  const auto check = [&]<class Split>() {
    using element = typename Split::element;
    ecq_test::code_source random(5);
    for (unsigned dropped = 0; dropped < Split::symbol_bits; ++dropped) {
      for (const unsigned spread : {4U, 14U}) {
        const unsigned bits = ecq::low_bits<Split> + dropped;
        const ecq::split_map map = {dropped, Split::symbol_bits};
        std::vector<std::vector<std::byte>> expected;
        std::vector<std::vector<std::uint8_t>> symbols;
        ecq::histogram coded;
        for (const std::size_t size : {1000U, 1024U, 1300U, 1024U, 640U, 1024U, 1024U}) {
          std::vector<element> values;
          for (const std::uint8_t bell : ecq_test::code_source(size).bell(size, spread)) {
            const std::uint32_t symbol = (bell - 128U + 20U) & ((1U << Split::symbol_bits) - 1U);
            const std::uint32_t low = static_cast<std::uint32_t>(random.next()) & ((1U << ecq::low_bits<Split>)-1U);
            values.push_back(Split::restore(static_cast<element>((symbol << ecq::low_bits<Split>) | low)));
          }
          const auto bytes = std::as_bytes(std::span(values));
          expected.emplace_back(bytes.begin(), bytes.end());
          auto& extracted = symbols.emplace_back(size);
          ecq::extract_symbols<Split>(bytes.data(), size, extracted.data());
          for (const std::uint8_t symbol : extracted) ++coded.counts[symbol >> dropped];
        }
        if (coded.distinct() > ecq::alias_table::max_buckets) continue;
        const ecq::rans_table table = {.mapping = ecq::slot_mapping::alias,
                                       .bucket_bits = coded.distinct() > 32 ? 6U : 5U,
                                       .frequencies = ecq::normalize_frequencies(coded, 16)};
        std::vector<ecq_test::chunk_of_symbols> chunks;
        std::vector<std::vector<std::byte>> raw;
        for (std::size_t i = 0; i < symbols.size(); ++i) {
          chunks.push_back(ecq_test::encode<ecq::rans>({"", table, map, spread}, symbols[i]));
          auto& packed = raw.emplace_back(static_cast<std::size_t>(ecq::raw_bytes(symbols[i].size(), bits)));
          ecq::pack_raw_bits<Split>(bits, expected[i].data(), symbols[i].size(), packed.data());
          packed = ecq_test::padded(packed);
        }
        const ecq::rans::decoder decoder(table, map);
        for (int damage = 0; damage < 3; ++damage) {
          const auto sought = decode_joined<Split>(decoder, bits, chunks, raw, ecq::instruction_set::scalar);
          if (damage == 0) {
            ASSERT_EQ(sought.elements, expected) << sizeof(element) << ' ' << bits;
          }
          for (const ecq::instruction_set set : ecq_test::machine_sets()) {
            const auto got = decode_joined<Split>(decoder, bits, chunks, raw, set);
            ASSERT_EQ(got.verdicts, sought.verdicts) << sizeof(element) << ' ' << bits << ' ' << name_of(set);
            for (std::size_t i = 0; i < chunks.size(); ++i) {
              if (sought.verdicts[i] != ecq::errc::ok) continue;
              ASSERT_EQ(got.elements[i], sought.elements[i]) << sizeof(element) << ' ' << bits << ' ' << name_of(set);
            }
          }
          ecq_test::chunk_of_symbols& victim = chunks[random.next() % chunks.size()];
          if (victim.word_count != 0) victim.words[random.next() % victim.word_count] ^= std::byte{1};
          if (damage == 1) victim.word_count /= 2;
        }
      }
    }
  };
  check.template operator()<ecq::byte_split>();
  check.template operator()<ecq::exponent_split<ecq::fp8_e4m3>>();
  check.template operator()<ecq::exponent_split<ecq::fp8_e5m2>>();
  check.template operator()<ecq::exponent_split<ecq::fp16>>();
  check.template operator()<ecq::exponent_split<ecq::bf16>>();
  check.template operator()<ecq::exponent_split<ecq::fp32>>();
}

}  // namespace
