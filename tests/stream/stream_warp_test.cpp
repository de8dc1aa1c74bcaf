#include "ecq/stream/stream_warp.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "ecq/stream/element_warp.hpp"
#include "ecq/stream/encoded_stream.hpp"
#include "ecq/stream/pair_warp.hpp"
#include "support/codes.hpp"
#include "support/host_warp.hpp"
#include "support/policies.hpp"
#include "support/trellis_path.hpp"
#include "support/word_ring.hpp"

namespace {

using bytes = std::vector<std::byte>;
using ecq::host_warp;

/// A stream and its tables as they would lie on a device.
struct laid_out {
  bytes blob;
  std::vector<ecq::warp_table> tables;
  std::vector<std::uint32_t> entries;
  ecq::warp_stream stream;

  template <class Coder>
  laid_out(Coder, std::span<const std::uint8_t> codes, const ecq::stream_options& options)
      : laid_out(std::move(*ecq::encode_stream<Coder>(ecq::cpu{}, codes, options))) {}

  explicit laid_out(bytes encoded) : blob(std::move(encoded)) {
    const auto parsed = ecq::encoded_stream::parse(blob);
    // Small streams are stored, whatever coder they were meant for.
    EXPECT_TRUE(ecq::with_coder(parsed->coder(), [&]<class Coder>(Coder) -> ecq::result<void> {
      if constexpr (ecq::has_warp_table<Coder>) {
        for (std::uint32_t i = 0; i < parsed->table_count(); ++i) {
          tables.push_back(ecq::append_warp_table(parsed->table<Coder>(i), parsed->map(), entries));
        }
      }
      return {};
    }));
    stream = ecq::warp_stream_at(parsed->header(), blob.data());
    stream.tables = tables.data();
    stream.entries = entries.data();
  }

  /// Returns elements [first, last), decoded chunk by chunk, with 0xEE where the stream is bad. `verdict` tells of
  /// that; without it, the test fails.
  template <class Coding>
  bytes decode(std::uint64_t first, std::uint64_t last, ecq::errc* verdict = nullptr) const {
    const ecq::chunk_decoder<host_warp, Coding> decoder(stream, entries.data(), ecq_test::word_ring());
    bytes out(last - first, std::byte{0xEE});
    for (std::uint64_t chunk = 0; chunk < stream.chunks; ++chunk) {
      const auto outcome = decoder(chunk, [&](const ecq::stream_chunk& found, auto&& into) {
        const auto target = ecq::target_in<host_warp>(found.begin, found.begin + found.elements, first, last,
                                                      out.data(), 1, stream.pairs != 0 ? 8 : 4);
        if (found.begin >= last || found.begin + found.elements <= first) return ecq::errc::ok;
        if (stream.pairs != 0) {
          ecq::warp_pair_sink<host_warp, ecq::byte_split> sink(found.pairs, found.raw, target, found.walk);
          const ecq::errc decoded = into(sink);
          return decoded != ecq::errc::ok ? decoded : sink.verdict();
        }
        return into(ecq::warp_element_sink<host_warp, ecq::byte_split>{found.raw, found.raw_bits, target, found.walk});
      });
      if (verdict != nullptr && outcome != ecq::errc::ok) *verdict = outcome;
      if (verdict == nullptr) {
        EXPECT_EQ(outcome, ecq::errc::ok) << chunk;
      }
    }
    return out;
  }
};

bytes as_bytes(std::span<const std::uint8_t> codes) {
  const auto view = std::as_bytes(codes);
  return {view.begin(), view.end()};
}

TEST(StreamWarp, DecodesAnyRangeByTheKernelOfACodingAndByThatOfAny) {
  const auto codes = ecq_test::code_source(1).bell(5000, 9);
  const laid_out on_device(ecq::rans{}, codes, {.chunk_bits = 10});
  ASSERT_EQ(on_device.tables.size(), 1U);
  for (const std::uint64_t first : {0U, 3U, 1024U, 2000U, 4999U}) {
    for (const std::uint64_t last : {1U, 1025U, 2048U, 5000U}) {
      if (first >= last) continue;
      const bytes expected = as_bytes(std::span(codes).subspan(first, last - first));
      const auto decoded = ecq::visit_coding(
          on_device.tables[0].coding, [&]<class Coding>(Coding) { return on_device.decode<Coding>(first, last); });
      ASSERT_EQ(decoded, expected) << first << " to " << last;
      ASSERT_EQ(on_device.decode<ecq::any_coding>(first, last), expected) << first << " to " << last;
    }
  }
}

TEST(StreamWarp, UsesTheTableOfEachChunk) {
  auto codes = ecq_test::code_source(2).bell(8192, 9);
  std::fill(codes.begin() + 4096, codes.end(), std::uint8_t{7});
  const std::vector<std::uint16_t> classes = {0, 0, 1, 1, 2, 2, 2, 2};
  const laid_out on_device(ecq::rans{}, codes, {.chunk_bits = 10, .class_of_chunk = classes});
  ASSERT_GT(on_device.tables.size(), 1U);
  ASSERT_EQ(on_device.decode<ecq::any_coding>(0, codes.size()), as_bytes(codes));
}

template <class Coder>
class StreamWarpOnATrellis : public testing::Test {};
using coders = testing::Types<ecq::rans, ecq::tans, ecq::huffman, ecq::raw>;
TYPED_TEST_SUITE(StreamWarpOnATrellis, coders, ecq_test::policy_names);

/// Returns options for single codes, pairs, and narrow pairs with and without raw bits, on every trellis, some with
/// several periods per chunk.
std::vector<ecq::stream_options> options_on_a_trellis() {
  std::vector<ecq::stream_options> all;
  for (const ecq::trellis& walk : {ecq::trellis{2, 10}, {3, 10}, {3, 11}, {4, 11}, {5, 10}}) {
    all.push_back({.chunk_bits = 11, .trellis = walk});
    all.push_back({.chunk_bits = 11, .pairs = true, .trellis = walk});
    for (const unsigned raw_bits : {0U, 2U}) {
      all.push_back({.chunk_bits = 11, .narrow_pairs = raw_bits, .trellis = walk});
    }
  }
  return all;
}

TYPED_TEST(StreamWarpOnATrellis, GivesCodesOfAnyRange) {
  for (const ecq::stream_options& options : options_on_a_trellis()) {
    for (const std::size_t count : {1U, 127U, 2047U, 2049U, 4300U}) {
      const auto path = ecq_test::random_path(*options.trellis, count, 2);
      const laid_out on_device(TypeParam{}, path.codes, options);
      for (const std::uint64_t first : {0U, 3U, 1024U, 2176U}) {
        for (const std::uint64_t last : {std::uint64_t{1}, std::uint64_t{2300}, std::uint64_t{count}}) {
          if (first >= last || last > count) continue;
          ASSERT_EQ(on_device.decode<ecq::any_coding>(first, last),
                    as_bytes(std::span(path.codes).subspan(first, last - first)))
              << options.trellis->state_bits << " bits of state, " << first << " to " << last << " of " << count;
        }
      }
    }
  }
}

// Damage is detected where the host detects it, and damage that is not detected gives the same codes.
TYPED_TEST(StreamWarpOnATrellis, RejectsWhatTheHostRejects) {
  for (const ecq::stream_options& options : options_on_a_trellis()) {
    const auto path = ecq_test::random_path(*options.trellis, 3000, 2);
    const laid_out good(TypeParam{}, path.codes, options);
    const auto parsed = ecq::encoded_stream::parse(good.blob);
    for (const auto kind : {ecq::section_kind::states, ecq::section_kind::words, ecq::section_kind::raw_bits}) {
      const ecq::section part = parsed->header().at(kind);
      for (std::uint64_t at = 0; at < part.size; at += part.size / 6 + 1) {
        bytes bad = good.blob;
        bad[part.offset + at] ^= static_cast<std::byte>(1U << (at % 8));
        bytes expected(path.codes.size());
        const auto defined = ecq::decode_elements(ecq::cpu{}, *ecq::encoded_stream::parse(bad), 0, expected,
                                                  {.verify_checksums = false});
        ecq::errc verdict = ecq::errc::ok;
        const bytes got = laid_out(bad).decode<ecq::any_coding>(0, expected.size(), &verdict);
        ASSERT_EQ(verdict, defined ? ecq::errc::ok : defined.error().code());
        if (defined) {
          ASSERT_EQ(got, expected);
        }
      }
    }
  }
}

TEST(StreamWarp, HasKernelsForWhatStreamsAreMadeOf) {
  const auto has_own = [](std::optional<ecq::warp_coding> coding) {
    return ecq::visit_coding(coding, []<class Coding>(Coding) { return Coding::one_table; });
  };
  for (const auto coding : {ecq::warp_coding::rans_alias, ecq::warp_coding::rans_direct, ecq::warp_coding::tans,
                            ecq::warp_coding::huffman}) {
    EXPECT_TRUE(has_own(coding));
  }
  for (const auto coding : {ecq::warp_coding::raw, ecq::warp_coding::constant, ecq::warp_coding::rans_wide,
                            ecq::warp_coding::tans_constant}) {
    EXPECT_FALSE(has_own(coding));
  }
  EXPECT_FALSE(has_own({}));
}

// Whatever a record says, a chunk that is found lies in the stream; the last chunk is shorter.
TEST(StreamWarp, FindsNoChunkBeyondTheStream) {
  const auto codes = ecq_test::code_source(3).bell(2500, 9);
  laid_out on_device(ecq::rans{}, codes, {.chunk_bits = 10});
  ecq::stream_chunk found;
  ASSERT_EQ(ecq::find_chunk<host_warp>(on_device.stream, 2, found), ecq::errc::ok);
  EXPECT_EQ(found.begin, 2048U);
  EXPECT_EQ(found.elements, 452U);
  const bytes good = on_device.blob;
  const auto index = static_cast<std::size_t>(on_device.stream.index - on_device.blob.data());
  for (std::uint64_t number = 0; number < on_device.stream.chunks; ++number) {
    for (std::size_t bit = 0; bit < 16 * 16; ++bit) {
      std::copy(good.begin(), good.end(), on_device.blob.begin());
      on_device.blob[index + 16 * number + bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
      if (ecq::find_chunk<host_warp>(on_device.stream, number, found) != ecq::errc::ok) continue;
      const std::byte* const end = on_device.stream.words + 2 * on_device.stream.word_count;
      EXPECT_GE(found.coded.words, on_device.stream.words);
      EXPECT_LE(found.coded.words + 2 * found.coded.word_count, end);
      EXPECT_LE(found.coded.word_count, found.elements);
      EXPECT_LT(found.table, on_device.stream.table_count);
    }
  }
  const std::uint64_t huge = ~std::uint64_t{0};
  std::memcpy(on_device.blob.data() + index, &huge, sizeof huge);
  EXPECT_EQ(ecq::find_chunk<host_warp>(on_device.stream, 0, found), ecq::errc::corrupt);
}

}  // namespace
