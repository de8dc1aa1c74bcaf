// Damaged streams of every coder give an error or codes, and all decoders agree. ECQ_TEST_MUTATIONS is the number of
// damaged streams in all (see tests/CMakeLists.txt: a million, fewer where they run slowly).

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "fuzz/stream_mutator.hpp"
#include "fuzz/stream_readers.hpp"
#include "support/codes.hpp"
#include "support/files.hpp"
#include "support/trellis_path.hpp"
#include "support/weights.hpp"

namespace {

using bytes = std::vector<std::byte>;
using ecq_test::code_source;
using ecq_test::stream_fate;

struct coder_case {
  ecq::coder_id id;
  std::string name;
};

std::vector<coder_case> all_coders() {
  std::vector<coder_case> all;
  for (unsigned id = 0; id < 256; ++id) {
    // Other ids are an error, and add nothing.
    static_cast<void>(ecq::with_coder(static_cast<ecq::coder_id>(id), [&]<class Coder>(Coder) -> ecq::result<void> {
      all.push_back({Coder::id, std::string(Coder::name)});
      return {};
    }));
  }
  return all;
}

template <class Coder>
std::vector<bytes> own_streams() {
  std::vector<bytes> all;
  const auto add = [&](ecq::result<bytes> made) { all.push_back(std::move(*made)); };
  const ecq::cpu backend;
  add(ecq::encode_stream<Coder>(backend, code_source(1).bell(260, 2)));
  add(ecq::encode_stream<Coder>(backend, code_source(2).bell(1100, 6), {.chunk_bits = 10}));
  add(ecq::encode_stream<Coder>(backend, code_source(3).bell(1200, 12), {.chunk_bits = 11}));
  add(ecq::encode_stream<Coder>(backend, code_source(7).bell(5200, 3), {.chunk_bits = 10}));  // many side by side
  add(ecq::encode_stream<Coder>(backend, std::vector<std::uint8_t>(300, 9)));
  // 256 symbols, then 40 whose number no split reduces; one of them occurs most of the time.
  auto wide = code_source(4).uniform(1500);
  auto scattered = code_source(8).below(1500, 40);
  for (std::size_t i = 0; i < wide.size(); ++i) {
    wide[i] = i % 8 != 0 ? std::uint8_t{0} : wide[i];
    scattered[i] = i % 4 != 0 ? std::uint8_t{0} : static_cast<std::uint8_t>(scattered[i] * 37U & 0xFFU);
  }
  add(ecq::encode_stream<Coder>(backend, wide));
  add(ecq::encode_stream<Coder>(backend, scattered));
  auto two = code_source(5).bell(1024, 1);
  for (const std::uint8_t code : code_source(6).bell(400, 8)) two.push_back(code);
  const std::vector<std::uint16_t> classes = {0, 1};
  add(ecq::encode_stream<Coder>(backend, two, {.chunk_bits = 10, .class_of_chunk = classes}));
  const auto weights = ecq_test::gaussian(1, 1100, 7, 0.02F);
  for (const auto format :
       {ecq::dtype::fp32, ecq::dtype::fp16, ecq::dtype::bf16, ecq::dtype::fp8_e4m3, ecq::dtype::fp8_e5m2}) {
    bytes elements(weights.size() * ecq::size_of(format));
    ecq::visit_format(format, [&]<class Format>() {
      for (std::size_t i = 0; i < weights.size(); ++i) {
        const auto code = Format::encode(weights[i] * (sizeof(typename Format::code_type) == 1 ? 50.0F : 1.0F));
        std::memcpy(elements.data() + i * sizeof code, &code, sizeof code);
      }
    });
    add(ecq::encode_exponents<Coder>(backend, format, elements));
    add(ecq::encode_exponents<Coder>(backend, format, elements, {.pairs = true}));
  }
  add(ecq::encode_stream<Coder>(backend, code_source(9).bell(2301, 6), {.chunk_bits = 10, .pairs = true}));
  for (unsigned raw_bits = 0; raw_bits < 4; ++raw_bits) {
    auto codes = code_source(10 + raw_bits).bell(2301, (1U << raw_bits) / 2 + 1);
    for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<std::uint8_t>(codes[i] + (i % 90 == 7) * 50);
    add(ecq::encode_stream<Coder>(backend, codes, {.chunk_bits = 10, .narrow_pairs = raw_bits}));
  }
  for (unsigned state_bits = ecq::trellis::min_state_bits; state_bits <= ecq::trellis::max_state_bits; ++state_bits) {
    const ecq::trellis walk{state_bits, 10};
    ecq::stream_options options{.chunk_bits = 11, .trellis = walk};
    if (state_bits % 2 != 0) options.narrow_pairs = 1;
    add(ecq::encode_stream<Coder>(backend, ecq_test::random_path(walk, 2301, 2).codes, options));
  }
  return all;
}

/// Returns small streams of a coder: its own of every kind, and the golden ones.
std::vector<bytes> streams_of(ecq::coder_id id) {
  std::vector<bytes> all;
  EXPECT_TRUE(ecq::with_coder(id, [&]<class Coder>(Coder) -> ecq::result<void> {
    all = own_streams<Coder>();
    return {};
  }));
  std::set<std::filesystem::path> files;  // folders have no order
  for (const auto& entry : std::filesystem::directory_iterator(ecq_test::golden("stream"))) files.insert(entry.path());
  for (const auto& file : files) {
    const auto text = ecq_test::read_file(file);
    const auto golden = ecq_test::as_bytes(text);
    all.emplace_back(golden.begin(), golden.end());
  }
  std::erase_if(all, [&](const bytes& blob) {
    const auto stream = ecq::encoded_stream::parse(blob);
    return !stream || stream->coder() != id || stream->size() > 5200;
  });
  return all;
}

class StreamMutations : public testing::TestWithParam<coder_case> {};

TEST_P(StreamMutations, AreRefusedOrDecodedAlikeByAll) {
  const auto streams = streams_of(GetParam().id);
  ASSERT_GE(streams.size(), 2U);
  const std::size_t each = ECQ_TEST_MUTATIONS / all_coders().size() / streams.size() + 1;
  ecq_test::stream_mutator mutator(2026);
  ecq_test::stream_readers readers;
  std::size_t fates[3] = {};
  for (std::size_t which = 0; which < streams.size(); ++which) {
    ASSERT_EQ(readers.read_sealed(streams[which]).fate, stream_fate::accepted) << "stream " << which;
    for (std::size_t round = 0; round < each; ++round) {
      bytes bad = streams[which];
      mutator.mutate(bad);
      // The decoder written from the document takes a hundred times as long as all others.
      const bool by_the_document = round % 128 == 0;
      by_the_document ? ecq_test::seal(bad) : ecq_test::seal_header(bad);
      const auto got = by_the_document ? readers.read_sealed(bad) : readers.read(bad);
      ++fates[static_cast<std::size_t>(got.fate)];
      ASSERT_EQ(got.disagreement, "") << "stream " << which << ", round " << round;
    }
  }
  const auto seen = [&](stream_fate fate) { return fates[static_cast<std::size_t>(fate)]; };
  EXPECT_GT(seen(stream_fate::refused_by_parser), 0U);
  EXPECT_GT(seen(stream_fate::accepted), 0U);
  // Raw streams leave nothing for decoders to refuse.
  EXPECT_EQ(seen(stream_fate::refused_by_decoders) > 0, GetParam().id != ecq::coder_id::raw);
}

INSTANTIATE_TEST_SUITE_P(All, StreamMutations, testing::ValuesIn(all_coders()),
                         [](const auto& of) { return of.param.name; });

}  // namespace
