#include "ecq/stream/encode_group.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <vector>

#include "ecq/entropy/rans/rans.hpp"
#include "ecq/stream/encoded_stream.hpp"
#include "support/codes.hpp"
#include "support/elements.hpp"
#include "support/host_warp.hpp"

namespace {

using bytes = std::vector<std::byte>;
using ecq::dtype;
using ecq_test::bytes_of;
using ecq_test::elements_of;
using ecq_test::encoded_elements;
using ecq_test::stream_formats;
using ecq_test::width_of;

/// Memory of exactly `size` bytes, aligned to 64, with `guard` bytes before and behind it that must not change.
class aligned_memory {
 public:
  explicit aligned_memory(std::uint64_t size, std::size_t guard = 0)
      : size_(static_cast<std::size_t>(size)),
        guard_(guard),
        memory_(static_cast<std::byte*>(::operator new(size_ + 2 * guard, alignment))) {
    std::fill_n(memory_.get(), size_ + 2 * guard, canary);
  }
  std::byte* data() const { return memory_.get() + guard_; }
  void expect_guarded() const {
    for (std::size_t i = 0; i < guard_; ++i) {
      EXPECT_EQ(memory_.get()[i], canary) << guard_ - i << " bytes before the beginning";
      EXPECT_EQ(data()[size_ + i], canary) << i << " bytes behind the end";
    }
  }

  static constexpr std::byte canary{0x5A};

 private:
  static constexpr std::align_val_t alignment{64};
  struct release {
    void operator()(std::byte* memory) const { ::operator delete(memory, alignment); }
  };

  std::size_t size_;
  std::size_t guard_;
  std::unique_ptr<std::byte[], release> memory_;
};

struct encoded {
  bytes stream;  ///< of the length that the steps report
  std::uint64_t needed = 0;
};

/// Encodes by all steps, one after another, into a buffer of `room` bytes between two canaries.
template <ecq::element_split Split>
encoded encode_by_steps(std::optional<dtype> format, const bytes& elements, unsigned chunk_bits, std::uint64_t room,
                        ecq::stream_goal goal = ecq::stream_goal::size, bool direct = false) {
  constexpr std::size_t width = sizeof(typename Split::element);
  const std::uint64_t size = elements.size() / width;
  const std::uint64_t chunks = ecq::chunks_of(size, chunk_bits);
  const aligned_memory in(elements.size());
  const aligned_memory out(room, 64);
  const aligned_memory words((2 * size + 7) / 8 * 8, 64);
  std::copy(elements.begin(), elements.end(), in.data());
  std::vector<std::uint64_t> counts(256);
  std::vector<std::uint32_t> word_counts(static_cast<std::size_t>(chunks));
  std::vector<std::uint16_t> slots(ecq::alias_slot_count);
  std::uint64_t stream_bytes = ~std::uint64_t{0};
  ecq::encode_plan plan;
  std::memset(static_cast<void*>(&plan), static_cast<int>(aligned_memory::canary), sizeof plan);
  const ecq::encode_job job = {
      .elements = in.data(),
      .size = size,
      .chunks = chunks,
      .out = out.data(),
      .out_bytes = room,
      .stream_bytes = &stream_bytes,
      .counts = counts.data(),
      .plan = &plan,
      .slots = slots.data(),
      .word_counts = word_counts.data(),
      .words = words.data(),
      .chunk_bits = chunk_bits,
      .format = format ? static_cast<std::uint8_t>(*format) : std::uint8_t{0},
      .element_bytes = width,
      .never_coded_bits = ecq::low_bits<Split>,
      .most_raw_bits = static_cast<std::uint8_t>(ecq::most_raw_bits(goal, ecq::coder_id::rans)),
      .direct = direct};
  const ecq::host_group group;
  for (const std::uint64_t part : {1U, 0U, 2U}) {
    std::uint32_t counters[256] = {};
    ecq::count_elements<Split>(group, job, part, 3, counters);
    ecq::collect_counts(group, counters, 1, job);
  }
  if (size != 0) {
    std::vector<ecq::rans_split_work> works(ecq::rans_splits);
    ecq::detail::alias_work aliases;
    for (unsigned raw_bits = 0; raw_bits < ecq::rans_splits; ++raw_bits) {
      ecq::weigh_rans_split(group, job.counts, raw_bits, direct, works[raw_bits]);
    }
    auto& all = *reinterpret_cast<ecq::rans_split_work(*)[ecq::rans_splits]>(works.data());
    ecq::choose_encoding(group, all, aliases, job);
  }
  // Without elements nothing is planned.
  const std::uint32_t addend = size != 0 ? plan.coder.division.addend() : 0;
  const ecq::warp_encode_table table = {plan.coder.entries, slots.data(), addend};
  for (std::uint64_t chunk = 0; chunk < chunks; ++chunk) ecq::encode_chunk<ecq::host_warp, Split>(table, job, chunk);
  encoded made;
  made.needed = ecq::lay_out_stream(group, job);
  for (std::uint64_t chunk = 0; chunk < chunks; ++chunk) ecq::place_chunk<Split>(group, job, chunk);
  ecq::finish_stream(group, job);
  out.expect_guarded();
  words.expect_guarded();
  EXPECT_LE(stream_bytes, room);
  made.stream.assign(out.data(), out.data() + (std::min)(stream_bytes, room));
  return made;
}

template <class Coder>
void expect_bytes_of_the_cpu_by(std::optional<dtype> format, const bytes& elements, unsigned chunk_bits,
                                ecq::stream_goal goal) {
  const bytes expected = encoded_elements<Coder>(format, elements, chunk_bits, goal);
  const std::size_t width = width_of(format);
  const std::uint64_t room = ecq::stream_header::raw_stream_bytes(elements.size() / width, chunk_bits, width);
  const encoded made = ecq::visit_split(format, [&]<class Split>() {
    return encode_by_steps<Split>(format, elements, chunk_bits, room, goal, std::is_same_v<Coder, ecq::rans_direct>);
  });
  EXPECT_EQ(made.needed, expected.size());
  ASSERT_EQ(made.stream.size(), expected.size());
  const auto differ = std::mismatch(expected.begin(), expected.end(), made.stream.begin());
  ASSERT_EQ(differ.first - expected.begin(), static_cast<std::ptrdiff_t>(expected.size()))
      << elements.size() << " bytes of format " << (format ? ecq::to_string(*format) : "bytes") << ", coder "
      << Coder::name;
}

void expect_bytes_of_the_cpu(std::optional<dtype> format, const bytes& elements, unsigned chunk_bits,
                             ecq::stream_goal goal = ecq::stream_goal::size) {
  expect_bytes_of_the_cpu_by<ecq::rans>(format, elements, chunk_bits, goal);
  expect_bytes_of_the_cpu_by<ecq::rans_direct>(format, elements, chunk_bits, goal);
}

TEST(EncodeGroup, GivesTheBytesOfTheCpuWhateverTheFormatAndTheSize) {
  for (const auto format : stream_formats) {
    for (const std::size_t size : {0U, 1U, 3U, 127U, 128U, 131U, 1023U, 1024U, 1025U, 2048U, 5000U, 20011U}) {
      expect_bytes_of_the_cpu(format, elements_of(format, size), 10);
    }
    expect_bytes_of_the_cpu(format, elements_of(format, 20011), 13);
  }
}

TEST(EncodeGroup, GivesTheBytesOfTheCpuForNoiseWhichIsStored) {
  for (const auto format : stream_formats) {
    for (const std::size_t size : {1U, 100U, 3001U}) {
      expect_bytes_of_the_cpu(format, bytes_of(ecq_test::code_source(3).uniform(size * width_of(format))), 10);
    }
  }
}

TEST(EncodeGroup, GivesTheBytesOfTheCpuForAnyAlphabet) {
  for (const unsigned values : {1U, 2U, 31U, 32U, 33U, 64U, 65U, 128U, 200U, 256U}) {
    ecq_test::code_source source(values);
    auto codes = source.below(6000, values);
    expect_bytes_of_the_cpu({}, bytes_of(codes), 10);
    // Skewed: mostly one value, so that one frequency is nearly all.
    for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = source.next() % 97 == 0 ? codes[i] : std::uint8_t{200};
    expect_bytes_of_the_cpu({}, bytes_of(codes), 10);
    for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<std::uint8_t>(codes[i] | (i % 2 << 7));
    expect_bytes_of_the_cpu({}, bytes_of(codes), 10);
  }
}

// Wide bells are coded best with some of the low bits raw.
TEST(EncodeGroup, GivesTheBytesOfTheCpuForAnySplit) {
  for (const unsigned spread : {2U, 6U, 9U, 14U, 20U, 31U}) {
    const bytes codes = bytes_of(ecq_test::code_source(spread).bell(20000, spread));
    expect_bytes_of_the_cpu({}, codes, 11);
    expect_bytes_of_the_cpu({}, codes, 11, ecq::stream_goal::gpu);
  }
}

TEST(EncodeGroup, GivesTheBytesOfTheCpuForOneExponentAndForAll) {
  for (const auto format : stream_formats) {
    if (!format) continue;
    const std::size_t width = width_of(format);
    expect_bytes_of_the_cpu(format, bytes(3000 * width, std::byte{0x3C}), 10);
    bytes nearly = bytes(3000 * width, std::byte{0x3C});
    nearly[1500] = std::byte{0xFF};
    nearly[1501] = std::byte{0xFF};
    expect_bytes_of_the_cpu(format, nearly, 10);
  }
}

// Whatever room there is, the result is a stream that fits, or the number of bytes that it would take; nothing is
// written outside.
TEST(EncodeGroup, SaysHowMuchRoomItNeeds) {
  const bytes elements = elements_of(dtype::bf16, 5000);
  const bytes expected = encoded_elements(dtype::bf16, elements, 10);
  for (std::uint64_t room = 0; room < expected.size() + 64; room += 64) {
    const auto made = encode_by_steps<ecq::exponent_split<ecq::bf16>>(dtype::bf16, elements, 10, room);
    EXPECT_EQ(made.needed, expected.size());
    EXPECT_EQ(made.stream, room < expected.size() ? bytes() : expected);
  }
}

}  // namespace
