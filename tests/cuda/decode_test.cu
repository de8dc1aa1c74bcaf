#include "ecq/cuda/decode.cuh"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "cuda/device_memory.cuh"
#include "ecq/stream/encoded_stream.hpp"
#include "support/codes.hpp"
#include "support/trellis_path.hpp"

namespace {

using bytes = std::vector<std::byte>;
using ecq::dtype;

class DecodeOnDevice : public ecq_test::device_test {};

/// Returns bell-shaped elements: bytes, or with a `format` numbers whose exponents are like those of weights.
bytes elements_of(std::optional<dtype> format, std::size_t count) {
  const auto codes = ecq_test::code_source(count + 1).bell(count, 9);
  if (!format)
    return bytes(reinterpret_cast<const std::byte*>(codes.data()),
                 reinterpret_cast<const std::byte*>(codes.data()) + codes.size());
  bytes made(count * ecq::size_of(*format));
  ecq::visit_format(*format, [&]<class Format>() {
    for (std::size_t i = 0; i < count; ++i) {
      const auto code = Format::encode((static_cast<float>(codes[i]) - 127.5F) * 0.01F);
      std::memcpy(made.data() + i * sizeof code, &code, sizeof code);
    }
  });
  return made;
}

template <class Coder>
bytes encoded(std::optional<dtype> format, const bytes& elements, const ecq::stream_options& options = {}) {
  auto stream =
      format ? ecq::encode_exponents<Coder>(ecq::cpu{}, *format, elements, options)
             : ecq::encode_stream<Coder>(
                   ecq::cpu{}, {reinterpret_cast<const std::uint8_t*>(elements.data()), elements.size()}, options);
  EXPECT_TRUE(stream);
  return std::move(*stream);
}

struct decoded {
  ecq::result<void> verdict;
  bytes elements;
};

/// Decodes elements [first, first + count) of `blob` to memory that begins `shift` bytes after an aligned address.
/// `spoil` may change the bytes that were copied to the device.
template <class Spoil>
decoded decode(const bytes& blob, std::uint64_t first, std::uint64_t count, std::size_t shift, Spoil&& spoil) {
  const auto stream = ecq::encoded_stream::parse(blob);
  EXPECT_TRUE(stream);
  const auto image = ecq::device_image::of(*stream);
  EXPECT_TRUE(image);
  const ecq_test::device_memory memory(image->bytes());
  const ecq_test::device_memory out(count * stream->element_bytes() + shift);
  const ecq_test::device_memory flag(8);
  const ecq::cuda gpu;
  const ecq::device_verdict verdict(flag.data());
  const auto on_device = image->upload(gpu, memory.data());
  EXPECT_TRUE(on_device);
  spoil(*stream, memory.data());
  EXPECT_TRUE(verdict.clear(gpu));
  const auto launched = ecq::decode_elements(gpu, *on_device, first, {out.data() + shift, out.size() - shift}, verdict);
  EXPECT_TRUE(launched);
  auto told = verdict.wait(gpu);
  auto written = out.read();
  for (std::size_t i = 0; i < shift; ++i) EXPECT_EQ(written[i], std::byte{0x5A});
  written.erase(written.begin(), written.begin() + static_cast<std::ptrdiff_t>(shift));
  return {std::move(told), std::move(written)};
}

void leave_alone(const ecq::encoded_stream&, std::byte*) {}

template <class Coder>
void expect_round_trips(bool pairs = false) {
  for (const auto format :
       {std::optional<dtype>(), std::optional(dtype::fp32), std::optional(dtype::fp16), std::optional(dtype::bf16),
        std::optional(dtype::fp8_e4m3), std::optional(dtype::fp8_e5m2)}) {
    for (const std::size_t count : {1U, 5U, 127U, 128U, 1000U, 70001U}) {
      const bytes elements = elements_of(format, count);
      const auto got =
          decode(encoded<Coder>(format, elements, {.chunk_bits = 10, .pairs = pairs}), 0, count, 0, leave_alone);
      ASSERT_TRUE(got.verdict) << got.verdict.error().to_string();
      ASSERT_EQ(got.elements, elements) << count;
    }
  }
}

TEST_F(DecodeOnDevice, GivesBackWhatTheHostEncodedWithRans) { expect_round_trips<ecq::rans>(); }
TEST_F(DecodeOnDevice, GivesBackWhatTheHostEncodedWithTans) { expect_round_trips<ecq::tans>(); }
TEST_F(DecodeOnDevice, GivesBackWhatTheHostEncodedWithHuffman) { expect_round_trips<ecq::huffman>(); }
TEST_F(DecodeOnDevice, GivesBackWhatTheHostEncodedWithGapArrays) { expect_round_trips<ecq::huffman_gaps>(); }
TEST_F(DecodeOnDevice, GivesBackWhatTheHostStored) { expect_round_trips<ecq::raw>(); }

TEST_F(DecodeOnDevice, GivesBackPairsOfRans) { expect_round_trips<ecq::rans>(true); }
TEST_F(DecodeOnDevice, GivesBackPairsOfTans) { expect_round_trips<ecq::tans>(true); }
TEST_F(DecodeOnDevice, GivesBackPairsOfHuffman) { expect_round_trips<ecq::huffman>(true); }

template <class Coder>
void expect_narrow_pairs() {
  for (unsigned raw_bits = 0; raw_bits <= 7; ++raw_bits) {
    for (const std::size_t count : {1000U, 9999U, 20480U}) {
      const bytes elements = elements_of({}, count);
      const bytes blob = encoded<Coder>({}, elements, {.chunk_bits = 10, .narrow_pairs = raw_bits});
      for (const std::size_t first : {std::size_t{0}, count / 3}) {
        for (const std::size_t shift : {0U, 1U}) {
          const auto got = decode(blob, first, count - first, shift, leave_alone);
          ASSERT_TRUE(got.verdict) << got.verdict.error().to_string();
          ASSERT_TRUE(std::equal(got.elements.begin(), got.elements.end(),
                                 elements.begin() + static_cast<std::ptrdiff_t>(first)))
              << raw_bits << ", " << first << " of " << count;
        }
      }
    }
  }
}

TEST_F(DecodeOnDevice, GivesBackNarrowPairsOfRans) { expect_narrow_pairs<ecq::rans>(); }
TEST_F(DecodeOnDevice, GivesBackNarrowPairsOfTans) { expect_narrow_pairs<ecq::tans>(); }
TEST_F(DecodeOnDevice, GivesBackNarrowPairsOfHuffman) { expect_narrow_pairs<ecq::huffman>(); }

template <class Coder>
void expect_codes_on_a_trellis(const ecq::trellis& walk) {
  const auto path = ecq_test::random_path(walk, 5000, 2);
  const auto* const from = reinterpret_cast<const std::byte*>(path.codes.data());
  const bytes elements(from, from + path.codes.size());
  const ecq::stream_options pairings[] = {{}, {.pairs = true}, {.narrow_pairs = 0}, {.narrow_pairs = 2}};
  for (ecq::stream_options options : pairings) {
    options.chunk_bits = 11;
    options.trellis = walk;
    const bytes blob = encoded<Coder>({}, elements, options);
    for (const std::size_t first : {0U, 1500U}) {
      const auto got = decode(blob, first, elements.size() - first, first == 0 ? 0 : 1, leave_alone);
      ASSERT_TRUE(got.verdict) << got.verdict.error().to_string();
      ASSERT_TRUE(
          std::equal(got.elements.begin(), got.elements.end(), elements.begin() + static_cast<std::ptrdiff_t>(first)))
          << walk.state_bits << " bits of state, from " << first;
    }
  }
}

TEST_F(DecodeOnDevice, GivesBackCodesOnATrellis) {
  expect_codes_on_a_trellis<ecq::rans>({3, 11});
  expect_codes_on_a_trellis<ecq::tans>({2, 10});
  expect_codes_on_a_trellis<ecq::huffman>({4, 10});
  expect_codes_on_a_trellis<ecq::raw>({5, 10});
}

// Blocks decode parts of a chunk, whose states on the trellis they do not know.
TEST_F(DecodeOnDevice, RefusesGapArraysOnATrellis) {
  const bytes zeros(50000);
  const bytes blob = encoded<ecq::huffman_gaps>({}, zeros, {.trellis = ecq::trellis{}});
  const auto stream = ecq::encoded_stream::parse(blob);
  ASSERT_TRUE(stream && stream->trellis());
  ASSERT_EQ(stream->coder(), ecq::coder_id::huffman_gaps);
  const auto image = ecq::device_image::of(*stream);
  ASSERT_FALSE(image);
  EXPECT_EQ(image.error().to_string(), "unsupported: gap arrays on a trellis have no decoder on a device");
}

TEST_F(DecodeOnDevice, RefusesNarrowPairsOfGapArrays) {
  const bytes blob = encoded<ecq::huffman_gaps>({}, elements_of({}, 50000), {.narrow_pairs = 2});
  const auto stream = ecq::encoded_stream::parse(blob);
  ASSERT_TRUE(stream && stream->pairs());
  const auto image = ecq::device_image::of(*stream);
  ASSERT_FALSE(image);
  EXPECT_EQ(image.error().code(), ecq::errc::unsupported);
  // In a stream made for devices, such codes are single.
  const bytes single = encoded<ecq::huffman_gaps>({}, elements_of({}, 50000), {.goal = ecq::stream_goal::gpu});
  EXPECT_FALSE(ecq::encoded_stream::parse(single)->pairs());
}

template <class Coder>
void expect_codes_of_one_value_and_of_all_values() {
  for (const unsigned values : {1U, 2U, 200U, 256U}) {
    const auto codes = ecq_test::code_source(values).below(5000, values);
    const bytes elements(reinterpret_cast<const std::byte*>(codes.data()),
                         reinterpret_cast<const std::byte*>(codes.data()) + codes.size());
    const auto got = decode(encoded<Coder>({}, elements), 0, codes.size(), 0, leave_alone);
    ASSERT_TRUE(got.verdict);
    ASSERT_EQ(got.elements, elements) << values;
  }
}

TEST_F(DecodeOnDevice, GivesBackCodesOfOneValueAndOfAllValues) {
  expect_codes_of_one_value_and_of_all_values<ecq::rans>();
  expect_codes_of_one_value_and_of_all_values<ecq::huffman_gaps>();
}

template <class Coder>
void expect_any_range_at_any_address(bool pairs) {
  for (const auto format : {std::optional<dtype>(), std::optional(dtype::fp32), std::optional(dtype::bf16)}) {
    const std::size_t count = 5000;
    const std::size_t width = format ? ecq::size_of(*format) : 1;
    const bytes elements = elements_of(format, count);
    const bytes blob = encoded<Coder>(format, elements, {.chunk_bits = 10, .pairs = pairs});
    ASSERT_EQ(ecq::encoded_stream::parse(blob)->pairs(), pairs);
    for (const std::size_t first : {0U, 1U, 4U, 1024U, 1500U, 4999U}) {
      for (const std::size_t many : {0U, 1U, 3U, 1024U, 2600U}) {
        if (first + many > count) continue;
        for (const std::size_t shift : {0U, 1U, 4U}) {
          const auto got = decode(blob, first, many, shift * width, leave_alone);
          ASSERT_TRUE(got.verdict);
          const auto from = elements.begin() + static_cast<std::ptrdiff_t>(first * width);
          ASSERT_EQ(got.elements, bytes(from, from + static_cast<std::ptrdiff_t>(many * width)));
        }
      }
    }
  }
}

TEST_F(DecodeOnDevice, WritesAnyRangeToAnyAddress) {
  expect_any_range_at_any_address<ecq::rans>(false);
  expect_any_range_at_any_address<ecq::rans>(true);
  expect_any_range_at_any_address<ecq::huffman_gaps>(false);
}

template <class Coder>
void expect_the_table_of_each_chunk() {
  bytes elements = elements_of({}, 8192);
  for (std::size_t i = 4096; i < elements.size(); ++i) elements[i] = std::byte{7};
  const std::vector<std::uint16_t> classes = {0, 0, 1, 1, 2, 2, 2, 2};
  const bytes blob = encoded<Coder>({}, elements, {.chunk_bits = 10, .class_of_chunk = classes});
  const auto got = decode(blob, 0, elements.size(), 0, leave_alone);
  ASSERT_TRUE(got.verdict);
  ASSERT_EQ(got.elements, elements);
}

TEST_F(DecodeOnDevice, UsesTheTableOfEachChunk) {
  expect_the_table_of_each_chunk<ecq::rans>();
  expect_the_table_of_each_chunk<ecq::huffman_gaps>();
}

// Tables of a few bytes in a stream must not take more memory than is allowed.
template <class Coder>
void expect_no_more_entries_than_allowed() {
  const std::vector<std::uint16_t> classes = {0, 0, 1, 1};
  const bytes blob = encoded<Coder>({}, elements_of({}, 4096), {.chunk_bits = 10, .class_of_chunk = classes});
  const auto stream = ecq::encoded_stream::parse(blob);
  ASSERT_EQ(stream->table_count(), 2U);
  const auto whole = ecq::detail::device_tables::of(*stream);
  ASSERT_TRUE(whole);
  const std::size_t entries = static_cast<std::size_t>(whole->bytes() - 256) / sizeof(std::uint32_t);
  EXPECT_TRUE(ecq::detail::device_tables::of(*stream, entries));
  for (const std::size_t less : {entries - 1, entries / 4}) {
    const auto refused = ecq::detail::device_tables::of(*stream, less);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), ecq::errc::limit_exceeded);
  }
}

TEST(DeviceTables, TakeNoMoreMemoryThanIsAllowed) {
  expect_no_more_entries_than_allowed<ecq::rans>();
  expect_no_more_entries_than_allowed<ecq::tans>();
  expect_no_more_entries_than_allowed<ecq::huffman_gaps>();
}

// Chunks of gap arrays have stretches of some thousand codes. Here the last one has only a few, one begins amid a
// group, and some code words are longer than a look-up sees.
TEST_F(DecodeOnDevice, DecodesChunksOfManyBlocks) {
  auto codes = ecq_test::code_source(5).bell(60001, 2);
  for (std::size_t i = 0; i < codes.size(); i += 997) codes[i] = static_cast<std::uint8_t>(i / 997);
  const bytes elements(reinterpret_cast<const std::byte*>(codes.data()),
                       reinterpret_cast<const std::byte*>(codes.data()) + codes.size());
  const bytes blob = encoded<ecq::huffman_gaps>({}, elements, {.chunk_bits = 16});
  ASSERT_EQ(decode(blob, 0, elements.size(), 0, leave_alone).elements, elements);
}

// Expects the host's verdict for damaged states and words.
template <class Coder>
void expect_verdicts_of_the_host(std::size_t count = 3000, unsigned chunk_bits = 10, std::uint64_t stride = 7) {
  const bytes elements = elements_of({}, count);
  const bytes good = encoded<Coder>({}, elements, {.chunk_bits = chunk_bits});
  const auto stream = ecq::encoded_stream::parse(good);
  ASSERT_TRUE(stream);
  for (const auto kind : {ecq::section_kind::states, ecq::section_kind::words}) {
    const ecq::section part = stream->header().at(kind);
    for (std::uint64_t at = 0; at < part.size; at += stride) {
      bytes bad = good;
      bad[part.offset + at] ^= static_cast<std::byte>(1U << (at % 8));
      const auto parsed = ecq::encoded_stream::parse(bad);
      ASSERT_TRUE(parsed);
      bytes expected(elements.size());
      const auto defined = ecq::decode_elements(ecq::cpu{}, *parsed, 0, expected, {.verify_checksums = false});
      const auto got = decode(bad, 0, elements.size(), 0, leave_alone);
      ASSERT_EQ(got.verdict.has_value(), defined.has_value());
      if (defined) {
        ASSERT_EQ(got.elements, expected);
      } else {
        ASSERT_EQ(got.verdict.error().code(), defined.error().code());
      }
    }
  }
}

TEST_F(DecodeOnDevice, RejectsWhatTheHostRejectsOfRans) { expect_verdicts_of_the_host<ecq::rans>(); }
TEST_F(DecodeOnDevice, RejectsWhatTheHostRejectsOfTans) { expect_verdicts_of_the_host<ecq::tans>(); }
TEST_F(DecodeOnDevice, RejectsWhatTheHostRejectsOfHuffman) { expect_verdicts_of_the_host<ecq::huffman>(); }
TEST_F(DecodeOnDevice, RejectsWhatTheHostRejectsOfGapArrays) {
  expect_verdicts_of_the_host<ecq::huffman_gaps>();
  expect_verdicts_of_the_host<ecq::huffman_gaps>(20000, 15, 301);
}

// An error found in a step of a chunk must not depend on a warp that is already in the next step. There each warp has
// four times as many codes, and the position of the second block is wrong by the difference.
TEST_F(DecodeOnDevice, FindsTheSameWrongInAllWarpsOfABlock) {
  constexpr std::size_t few = 8 * 4096;  // 8 blocks of code words of 4 bits
  bytes elements(few + 8 * 16384);       // and 8 blocks of code words of 1 bit
  for (std::size_t i = 0; i < few; ++i) elements[i] = static_cast<std::byte>(1 + i % 8);
  bytes blob = encoded<ecq::huffman_gaps>({}, elements, {.chunk_bits = 18});
  ASSERT_EQ(decode(blob, 0, elements.size(), 0, leave_alone).elements, elements);
  std::byte* const position =
      blob.data() + ecq::encoded_stream::parse(blob)->header().at(ecq::section_kind::words).offset + 8;
  ASSERT_EQ(ecq::load_le<std::uint32_t>(position), 4096U);
  ecq::store_le(position, std::uint32_t{4096 + 4096 - 1024});
  const auto got = decode(blob, 0, elements.size(), 0, leave_alone);
  ASSERT_FALSE(got.verdict);
  EXPECT_EQ(got.verdict.error().code(), ecq::errc::corrupt) << got.verdict.error().to_string();
}

/// Decodes chunks of 1024 elements into shared memory of the block, and copies them from there to `out`.
template <ecq::element_split Split, bool Pairs>
__global__ void decode_into_shared(ecq::warp_stream stream, std::byte* out, unsigned long long* verdict) {
  constexpr std::uint32_t width = ecq::element_bits<Split> / 8;
  auto* const shared = ecq::detail::dynamic_shared<std::byte>();
  const ecq::device_chunk_decoder<ecq::any_coding> decode(stream, shared + 1024 * width);
  for (std::uint64_t chunk = 0; chunk < stream.chunks; ++chunk) {
    std::uint32_t elements = 0;
    const ecq::errc outcome = decode(chunk, [&](const ecq::stream_chunk& found, auto&& into) {
      elements = found.elements;
      const ecq::chunk_target target = {shared, 0, elements, true};
      if constexpr (Pairs) {
        ecq::warp_pair_sink<ecq::device_warp_to_shared, Split> sink(found.pairs, found.raw, target);
        const ecq::errc decoded = into(sink);
        return decoded != ecq::errc::ok ? decoded : sink.verdict();
      } else {
        return into(ecq::warp_element_sink<ecq::device_warp_to_shared, Split>{found.raw, found.raw_bits, target});
      }
    });
    if (outcome != ecq::errc::ok) ecq::detail::report_failure(verdict, outcome, chunk);
    __syncwarp();
    for (std::uint32_t i = threadIdx.x; i < elements * width; i += 32) out[chunk * 1024 * width + i] = shared[i];
    __syncwarp();
  }
}

template <bool Pairs>
void expect_decoding_into_shared_memory() {
  const bytes elements = elements_of(dtype::bf16, 5001);
  const bytes blob = encoded<ecq::rans>(dtype::bf16, elements, {.chunk_bits = 10, .pairs = Pairs});
  const auto parsed = ecq::encoded_stream::parse(blob);
  ASSERT_TRUE(parsed);
  const auto image = ecq::device_image::of(*parsed);
  ASSERT_TRUE(image);
  const ecq_test::device_memory memory(image->bytes());
  const ecq_test::device_memory out(elements.size());
  const ecq_test::device_memory flag(8);
  const ecq::cuda gpu;
  const ecq::device_verdict verdict(flag.data());
  const auto stream = image->upload(gpu, memory.data());
  ASSERT_TRUE(stream);
  ASSERT_EQ(stream->view.pairs != 0, Pairs);
  ASSERT_TRUE(verdict.clear(gpu));
  using decoder = ecq::device_chunk_decoder<ecq::any_coding>;
  const auto launched = ecq::detail::launch(gpu, "testing", &decode_into_shared<ecq::exponent_split<ecq::bf16>, Pairs>,
                                            {1, 32, 2 * std::size_t{1024} + decoder::shared_bytes(0, 32)}, stream->view,
                                            out.data(), verdict.memory());
  ASSERT_TRUE(launched) << launched.error().to_string();
  const auto told = verdict.wait(gpu);
  ASSERT_TRUE(told) << told.error().to_string();
  EXPECT_EQ(out.read(), elements);
}

// Kernels of users may need whole weights where all their threads reach them.
TEST_F(DecodeOnDevice, DecodesIntoMemoryThatABlockShares) {
  expect_decoding_into_shared_memory<false>();
  expect_decoding_into_shared_memory<true>();
}

// An index that is damaged after the host has checked it must not send a warp out of the stream.
template <class Coder>
void expect_an_index_to_be_checked() {
  const bytes elements = elements_of({}, 3000);
  const bytes blob = encoded<Coder>({}, elements, {.chunk_bits = 10});
  for (const std::uint64_t word : {std::uint64_t{1} << 20, std::uint64_t{1} << 62, ~std::uint64_t{0}}) {
    for (const std::uint64_t record : {0U, 1U, 3U}) {
      const auto got = decode(blob, 0, elements.size(), 0, [&](const ecq::encoded_stream& stream, std::byte* memory) {
        std::byte* const at =
            memory + stream.header().at(ecq::section_kind::chunk_index).offset + record * ecq::chunk_record::bytes;
        ASSERT_EQ(cudaMemcpy(at, &word, sizeof word, cudaMemcpyHostToDevice), cudaSuccess);
      });
      ASSERT_FALSE(got.verdict);
      EXPECT_EQ(got.verdict.error().code(), ecq::errc::corrupt);
    }
  }
}

TEST_F(DecodeOnDevice, ChecksTheIndexWhereItLies) {
  expect_an_index_to_be_checked<ecq::rans>();
  expect_an_index_to_be_checked<ecq::huffman_gaps>();
}

// Likewise, damaged positions of escapes may be those of other chunks, or of none.
TEST_F(DecodeOnDevice, ChecksWhereEscapesLie) {
  bytes elements = elements_of(dtype::bf16, 3000);
  for (std::size_t i = 0; i < 3000; i += 25) elements[2 * i + 1] = static_cast<std::byte>(i / 25);
  const bytes blob = encoded<ecq::rans>(dtype::bf16, elements, {.chunk_bits = 10, .pairs = true});
  const auto parsed = ecq::encoded_stream::parse(blob);
  ASSERT_TRUE(parsed->pairs() && parsed->nibbles().has_escape());
  ASSERT_EQ(decode(blob, 0, 3000, 0, leave_alone).elements, elements);
  for (const std::uint64_t first : {std::uint64_t{1} << 20, std::uint64_t{1} << 62, ~std::uint64_t{0}}) {
    for (const std::uint64_t chunk : {0U, 1U, 3U}) {
      const auto got = decode(blob, 0, 3000, 0, [&](const ecq::encoded_stream& stream, std::byte* memory) {
        std::byte* const at = memory + stream.header().at(ecq::section_kind::nibbles).offset + 16 + 8 * chunk;
        ASSERT_EQ(cudaMemcpy(at, &first, sizeof first, cudaMemcpyHostToDevice), cudaSuccess);
      });
      ASSERT_FALSE(got.verdict);
      EXPECT_EQ(got.verdict.error().code(), ecq::errc::corrupt);
    }
  }
}

TEST_F(DecodeOnDevice, NamesARangeBeyondTheStream) {
  const bytes blob = encoded<ecq::rans>({}, elements_of({}, 100));
  const auto stream = ecq::encoded_stream::parse(blob);
  const auto image = ecq::device_image::of(*stream);
  const ecq_test::device_memory memory(image->bytes());
  const auto on_device = image->upload({}, memory.data());
  ASSERT_TRUE(on_device);
  const auto got =
      ecq::decode_elements(ecq::cuda{}, *on_device, 50, {memory.data(), 51}, ecq::device_verdict(memory.data()));
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code(), ecq::errc::invalid_argument);
}

}  // namespace
