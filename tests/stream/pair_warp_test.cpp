#include "ecq/stream/pair_warp.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "ecq/stream/encoded_stream.hpp"
#include "support/codes.hpp"
#include "support/decode_by_warp.hpp"
#include "support/host_warp.hpp"
#include "support/policies.hpp"

namespace {

using bytes = std::vector<std::byte>;
using content = std::optional<ecq::dtype>;
using ecq_test::code_source;

constexpr content contents[] = {ecq::dtype::fp32,     ecq::dtype::fp16,     ecq::dtype::bf16,
                                ecq::dtype::fp8_e4m3, ecq::dtype::fp8_e5m2, std::nullopt};

/// Returns elements whose symbols lie up to 2 * `spread` to each side of one of them; all other bits are noise.
bytes elements_of(content format, std::size_t count, unsigned spread) {
  code_source random(count + spread);
  const auto symbols = random.bell(count, spread);
  return ecq::visit_split(format, [&]<class Split>() {
    using element = typename Split::element;
    bytes made(count * sizeof(element));
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint64_t symbol = symbols[i] - 128U + (1U << (Split::symbol_bits - 1));
      const std::uint64_t low = random.next() & ((std::uint64_t{1} << ecq::low_bits<Split>)-1);
      const auto value = Split::restore(static_cast<element>((symbol << ecq::low_bits<Split>) | low));
      std::memcpy(made.data() + i * sizeof(element), &value, sizeof(element));
    }
    return made;
  });
}

template <class Coder>
bytes encoded(content format, const bytes& elements, ecq::stream_options options) {
  options.pairs = !options.narrow_pairs;
  auto made = format
                  ? ecq::encode_exponents<Coder>(ecq::cpu{}, *format, elements, options)
                  : ecq::encode_stream<Coder>(
                        ecq::cpu{}, {reinterpret_cast<const std::uint8_t*>(elements.data()), elements.size()}, options);
  EXPECT_TRUE(made);
  return std::move(*made);
}

template <class Coder>
class PairWarp : public testing::Test {};
using coders = testing::Types<ecq::rans, ecq::tans, ecq::huffman>;
TYPED_TEST_SUITE(PairWarp, coders, ecq_test::policy_names);

// Joins all elements chunk by chunk, and a range of them, beside which nothing is written.
TYPED_TEST(PairWarp, JoinsWhatWasEncoded) {
  std::size_t coded = 0;
  for (const content format : contents) {
    for (const unsigned spread : {2U, 5U}) {
      for (const std::size_t count : {1U, 4097U, 4098U, 4105U, 4351U, 4352U, 4353U, 5119U}) {
        const bytes elements = elements_of(format, count, spread);
        const bytes blob = encoded<TypeParam>(format, elements, {.chunk_bits = 10});
        const auto stream = ecq::encoded_stream::parse(blob);
        ASSERT_TRUE(stream);
        if (stream->coder() != TypeParam::id) continue;  // nothing was gained
        ++coded;
        const std::size_t width = stream->element_bytes();
        bool escaped = false;
        for (std::uint64_t index = 0; index < stream->chunk_count(); ++index) {
          const auto pairs = ecq_test::pairs_of_chunk(*stream, index);
          escaped = escaped || pairs.escape_count != 0;
          const std::byte* const expected = elements.data() + (index << 10) * width;
          const auto table = stream->template table<TypeParam>(stream->record(index).table);
          for (const bool aligned : {true, false}) {
            for (const std::uint32_t part : {0U, 1U}) {
              const std::uint32_t first = part * pairs.symbols / 5;
              const std::uint32_t last = pairs.symbols - part * pairs.symbols / 7;
              bytes got(pairs.symbols * width, std::byte{0xA5});
              bytes wanted = got;
              std::copy(expected + first * width, expected + last * width,
                        wanted.begin() + static_cast<std::ptrdiff_t>(first * width));
              const auto verdict = ecq::visit_split(format, [&]<class Split>() {
                return ecq_test::decode_pairs_by_warp<Split>(TypeParam{}, table, stream->chunk(index),
                                                             stream->nibbles(), pairs, stream->raw_bits(index).data(),
                                                             {got.data(), first, last, aligned});
              });
              ASSERT_EQ(verdict, ecq::errc::ok);
              ASSERT_EQ(got, wanted) << width << " bytes, " << spread << ", " << index << " of " << count;
            }
          }
        }
        EXPECT_EQ(escaped, stream->nibbles().has_escape());
      }
    }
  }
  EXPECT_GT(coded, 40U);
}

// Codes of narrow pairs get their raw bits; they are complete once they are split.
TYPED_TEST(PairWarp, AddsTheRawBitsOfNarrowPairs) {
  for (unsigned raw_bits = 0; raw_bits <= 7; ++raw_bits) {
    for (const std::size_t count : {4097U, 4352U, 5119U}) {
      const bytes elements = elements_of({}, count, 5 + 2 * raw_bits);
      const ecq::stream_options how = {.chunk_bits = 10, .narrow_pairs = raw_bits, .few_pairs = count % 2 == 0};
      const bytes blob = encoded<TypeParam>({}, elements, how);
      const auto stream = ecq::encoded_stream::parse(blob);
      ASSERT_TRUE(stream);
      if (stream->coder() != TypeParam::id) continue;  // nothing was gained
      for (std::uint64_t index = 0; index < stream->chunk_count(); ++index) {
        const auto pairs = ecq_test::pairs_of_chunk(*stream, index);
        EXPECT_EQ(pairs.raw_bits, raw_bits);
        const auto table = stream->template table<TypeParam>(stream->record(index).table);
        for (const std::uint32_t first : {0U, pairs.symbols / 5}) {
          bytes got(pairs.symbols, std::byte{0xA5});
          bytes wanted = got;
          std::copy_n(elements.begin() + static_cast<std::ptrdiff_t>((index << 10) + first), pairs.symbols - first,
                      wanted.begin() + first);
          const auto verdict = ecq_test::decode_pairs_by_warp<ecq::byte_split>(
              TypeParam{}, table, stream->chunk(index), stream->nibbles(), pairs, stream->raw_bits(index).data(),
              {got.data(), first, pairs.symbols, first == 0});
          ASSERT_EQ(verdict, ecq::errc::ok);
          ASSERT_EQ(got, wanted) << raw_bits << " raw bits, " << index << " of " << count;
        }
      }
    }
  }
}

/// Hands `pairs` to a sink of pairs as symbols; each lane gets those that a decoder would hand it.
template <ecq::warp_sink<ecq::host_warp> Sink>
void feed(const std::vector<std::uint8_t>& pairs, Sink& sink) {
  for (std::uint32_t first = 0; first < pairs.size(); first += ecq::group_symbols) {
    const auto codes = ecq::host_lanes::each([&](std::uint32_t lane) {
      std::uint32_t four = 0;
      for (std::uint32_t i = 0; i < 4; ++i) {
        // Bytes behind the last pair are undefined.
        const std::size_t at = first + 4 * lane + i;
        four |= (at < pairs.size() ? std::uint32_t{pairs[at]} : 0xFFU) << (8 * i);
      }
      return four;
    });
    const auto left = static_cast<std::uint32_t>(pairs.size()) - first;
    ecq::detail::fetch_ahead<ecq::host_warp>(sink, first / ecq::group_symbols);
    sink(codes, first / ecq::group_symbols, (std::min)(left, ecq::group_symbols));
  }
}

// For any pairs, lists and escapes, wrong ones among them, symbols and verdict are those of the definition.
TEST(PairWarpSink, DoesAsTheDefinition) {
  code_source random(23);
  std::size_t refused = 0;
  for (int round = 0; round < 1500; ++round) {
    const auto count = static_cast<std::uint32_t>(1 + random.next() % 700);
    ecq::histogram counts;
    const bool narrow = round % 5 == 4;  // symbols of 5 bits
    const unsigned distinct = round % 4 == 0 ? 16 : 30;
    for (unsigned i = 0; i < distinct; ++i) counts.counts[narrow ? i : 3 + 8 * i] = 1 + random.next() % 9;
    const auto list = ecq::nibble_list::of(counts, narrow ? 5 : 8);
    std::vector<std::uint8_t> pairs((count + 1) / 2);
    std::size_t needed = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const bool escape = random.next() % (i % 256 < 128 ? 300 : 3) == 0;
      const unsigned nibble = escape ? 15 : static_cast<unsigned>(random.next() % 15);
      pairs[i / 2] = static_cast<std::uint8_t>(pairs[i / 2] | (nibble << (4 * (i % 2))));
      needed += escape && list.has_escape() ? 1U : 0U;
    }
    if (round % 16 == 1) pairs.back() ^= 0x30;
    const std::size_t there = needed + (round % 8 == 2 ? 1 : 0) - (round % 8 == 3 && needed != 0 ? 1 : 0);
    bytes escapes(there);
    for (std::byte& value : escapes) value = static_cast<std::byte>(random.next() % (narrow ? 33 : 256));
    const auto check = [&]<class Split>() {
      bytes expected(count * sizeof(typename Split::element));
      bytes raw(expected.size() + ecq::stream_tail_bytes);
      for (std::byte& value : raw) value = static_cast<std::byte>(random.next() & 0xFFU);
      const ecq::errc defined = ecq::join_pairs<Split>(list, pairs.data(), raw.data(), escapes, count, expected.data());
      bytes got(expected.size());
      ecq::warp_pair_sink<ecq::host_warp, Split> sink(
          {ecq::warp_nibbles::of(list), escapes.data(), static_cast<std::uint32_t>(there), count}, raw.data(),
          {got.data(), 0, count, round % 2 == 0});
      feed(pairs, sink);
      ASSERT_EQ(sink.verdict(), defined) << round;
      refused += defined == ecq::errc::ok ? 0U : 1U;
      if (defined == ecq::errc::ok) {
        ASSERT_EQ(got, expected) << round;
      }
    };
    if (narrow) {
      check.template operator()<ecq::exponent_split<ecq::fp16>>();
      check.template operator()<ecq::exponent_split<ecq::fp8_e5m2>>();
    } else {
      check.template operator()<ecq::exponent_split<ecq::bf16>>();
      check.template operator()<ecq::exponent_split<ecq::fp32>>();
      check.template operator()<ecq::byte_split>();
    }
  }
  EXPECT_GT(refused, 300U);
  EXPECT_LT(refused, 2000U);
}

void expect_single_codes(std::uint32_t count, unsigned raw_bits) {
  ecq::histogram counts;
  for (unsigned symbol = 0; symbol < 40; ++symbol) counts.counts[6 * symbol] = 40 - symbol;
  const auto list = ecq::nibble_list::of(counts, 8);
  code_source source(count + raw_bits);
  const auto symbols = source.below(count, 17);
  std::vector<std::uint8_t> codes(count);
  for (std::uint32_t i = 0; i < count; ++i) codes[i] = static_cast<std::uint8_t>(6 * symbols[i]);
  std::vector<std::uint8_t> pairs((count + 1) / 2);
  bytes escapes;
  ecq::detail::pair_symbols(ecq::detail::symbol_pairing(list), codes, pairs.data(), escapes);
  alignas(16) std::byte raw[1024] = {};
  for (std::uint32_t bit = 0; bit < count * raw_bits; ++bit) {
    if (source.next() % 2 == 0) continue;
    raw[bit / 8] |= static_cast<std::byte>(1U << (bit % 8));
    codes[bit / raw_bits] = static_cast<std::uint8_t>(codes[bit / raw_bits] + (1U << (bit % raw_bits)));
  }
  bytes got(count);
  ecq::warp_element_sink<ecq::host_warp, ecq::byte_split> single{nullptr, 0, {got.data(), 0, count, true}};
  ecq::warp_pair_codes<ecq::host_warp, decltype(single)> sink(
      {ecq::warp_nibbles::of(list), escapes.data(), static_cast<std::uint32_t>(escapes.size()), count, raw_bits}, raw,
      single);
  feed(pairs, sink);
  EXPECT_EQ(sink.verdict(), ecq::errc::ok);
  EXPECT_TRUE(std::ranges::equal(std::as_bytes(std::span(codes)), got)) << count << ", " << raw_bits << " raw bits";
}

// Codes are passed on in groups of 128, as from a stream without pairs and raw bits.
TEST(PairWarpCodes, ComeToASinkOfSingleCodes) {
  for (const std::uint32_t count : {1U, 2U, 7U, 127U, 128U, 129U, 200U, 256U, 384U, 385U, 640U, 1000U}) {
    for (const unsigned raw_bits : {0U, 1U, 2U, 7U}) expect_single_codes(count, raw_bits);
  }
}

}  // namespace
