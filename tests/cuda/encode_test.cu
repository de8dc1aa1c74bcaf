#include "ecq/cuda/encode.cuh"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "cuda/device_memory.cuh"
#include "ecq/base/host_group.hpp"
#include "ecq/stream/encoded_stream.hpp"
#include "support/codes.hpp"
#include "support/elements.hpp"

namespace {

using bytes = std::vector<std::byte>;
using ecq::dtype;
using ecq_test::bytes_of;
using ecq_test::device_memory;
using ecq_test::elements_of;
using ecq_test::encoded_elements;

class EncodeOnDevice : public ecq_test::device_test {};

struct encoded {
  ecq::result<void> verdict;
  bytes stream;  ///< as long as the device says
};

/// Encodes `elements` on the device in `room` bytes, or in as many as it may need.
template <ecq::device_encoded Coder = ecq::rans>
encoded encode(std::optional<dtype> format, const bytes& elements, const ecq::device_stream_options& options,
               std::optional<std::uint64_t> room = {}) {
  const auto needed = ecq::encode_workspace_bytes(format, elements.size(), options);
  const auto capacity = ecq::encoded_capacity(format, elements.size(), options);
  EXPECT_TRUE(needed && capacity);
  const device_memory in(elements.size());
  const device_memory workspace(static_cast<std::size_t>(*needed));
  const device_memory out(static_cast<std::size_t>(room.value_or(*capacity)));
  const device_memory size(8);
  const device_memory flag(8);
  EXPECT_EQ(cudaMemcpy(in.data(), elements.data(), elements.size(), cudaMemcpyHostToDevice), cudaSuccess);
  const ecq::cuda gpu;
  const ecq::device_verdict verdict(flag.data());
  EXPECT_TRUE(verdict.clear(gpu));
  const auto launched =
      ecq::encode_elements<Coder>(gpu, format, {in.data(), in.size()}, options, {workspace.data(), workspace.size()},
                                  {out.data(), out.size()}, reinterpret_cast<std::uint64_t*>(size.data()), verdict);
  EXPECT_TRUE(launched) << launched.error().to_string();
  encoded made = {verdict.wait(gpu), out.read()};
  workspace.read();
  in.read();
  std::uint64_t told = 0;
  std::memcpy(&told, size.read().data(), 8);
  EXPECT_LE(told, made.stream.size());
  made.stream.resize(static_cast<std::size_t>((std::min)(told, std::uint64_t{made.stream.size()})));
  return made;
}

template <ecq::device_encoded Coder = ecq::rans>
void expect_bytes_of_the_host(std::optional<dtype> format, const bytes& elements, unsigned chunk_bits,
                              ecq::stream_goal goal = ecq::stream_goal::size) {
  const bytes expected = encoded_elements<Coder>(format, elements, chunk_bits, goal);
  const encoded made = encode<Coder>(format, elements, {.chunk_bits = chunk_bits, .goal = goal});
  ASSERT_TRUE(made.verdict) << made.verdict.error().to_string();
  ASSERT_EQ(made.stream.size(), expected.size());
  const auto differ = std::mismatch(expected.begin(), expected.end(), made.stream.begin());
  ASSERT_EQ(differ.first - expected.begin(), static_cast<std::ptrdiff_t>(expected.size()));
}

TEST_F(EncodeOnDevice, WritesTheBytesOfTheHost) {
  for (const auto format : ecq_test::stream_formats) {
    for (const std::size_t count : {0U, 1U, 127U, 1025U, 9003U}) {
      expect_bytes_of_the_host(format, elements_of(format, count), 10);
    }
  }
}

TEST_F(EncodeOnDevice, WritesTheBytesOfTheHostForMoreChunksThanWarps) {
  for (const std::size_t beyond : {0U, 2000U}) {
    expect_bytes_of_the_host({}, bytes_of(ecq_test::code_source(5).bell((1U << 18) + beyond, 2)), 10);
  }
}

// The index alone, of chunks that were never encoded. Its last record, which belongs to no chunk, is the first one of a
// run, the last one, or neither.
TEST_F(EncodeOnDevice, WritesTheIndexOfTheHostForManyChunks) {
  for (const std::uint64_t chunks : {1U, 3U, 4094U, 4095U, 4096U, 9001U}) {
    std::vector<std::uint64_t> counts(256);
    counts[7] = chunks * 1000;
    counts[8] = chunks * 24;
    std::vector<std::uint32_t> word_counts(chunks);
    ecq_test::code_source random(chunks);
    for (std::uint32_t& words : word_counts) words = static_cast<std::uint32_t>(random.next() % 9);
    std::vector<std::uint16_t> slots(ecq::alias_slot_count);
    ecq::encode_plan plan{};
    bytes expected(chunks * 200 + 4096, std::byte{0x5A});
    std::uint64_t stream_bytes = 0;
    ecq::encode_job job{};
    job.size = chunks << 10;
    job.chunks = chunks;
    job.out = expected.data();
    job.out_bytes = expected.size();
    job.stream_bytes = &stream_bytes;
    job.counts = counts.data();
    job.plan = &plan;
    job.slots = slots.data();
    job.word_counts = word_counts.data();
    job.chunk_bits = 10;
    job.element_bytes = 1;
    const ecq::host_group group;
    std::vector<ecq::rans_split_work> works(ecq::rans_splits);
    ecq::detail::alias_work aliases;
    ecq::weigh_rans_split(group, job.counts, 0, false, works[0]);
    ecq::choose_encoding(group, *reinterpret_cast<ecq::rans_split_work(*)[ecq::rans_splits]>(works.data()), aliases,
                         job);
    const device_memory plan_there(sizeof plan);
    const device_memory words_there(chunks * sizeof(std::uint32_t));
    const device_memory out(expected.size());
    const device_memory size(8);
    const device_memory flag(8);
    ASSERT_EQ(cudaMemcpy(plan_there.data(), &plan, sizeof plan, cudaMemcpyHostToDevice), cudaSuccess);
    ASSERT_EQ(cudaMemcpy(words_there.data(), word_counts.data(), words_there.size(), cudaMemcpyHostToDevice),
              cudaSuccess);
    ASSERT_LE(ecq::lay_out_stream(group, job), expected.size());
    job.out = out.data();
    job.stream_bytes = reinterpret_cast<std::uint64_t*>(size.data());
    job.counts = nullptr;
    job.plan = reinterpret_cast<ecq::encode_plan*>(plan_there.data());
    job.slots = nullptr;
    job.word_counts = reinterpret_cast<std::uint32_t*>(words_there.data());
    ASSERT_TRUE(ecq::detail::launch({}, "testing", &ecq::layout_kernel<ecq::detail::layout_threads>,
                                    {1, ecq::detail::layout_threads}, job,
                                    reinterpret_cast<unsigned long long*>(flag.data())));
    ASSERT_TRUE(out.read() == expected) << chunks;
  }
}

TEST_F(EncodeOnDevice, WritesTheBytesOfTheHostForAnyAlphabet) {
  for (const unsigned values : {1U, 2U, 33U, 65U, 256U}) {
    ecq_test::code_source source(values);
    auto codes = source.below(5000, values);
    expect_bytes_of_the_host({}, bytes_of(codes), 11);
    for (auto& code : codes) code = source.next() % 97 == 0 ? code : std::uint8_t{200};
    expect_bytes_of_the_host({}, bytes_of(codes), 11);
  }
}

TEST_F(EncodeOnDevice, StoresWhatDoesNotGetSmaller) {
  for (const auto format : ecq_test::stream_formats) {
    expect_bytes_of_the_host(format, bytes_of(ecq_test::code_source(7).uniform(3001 * ecq_test::width_of(format))), 10);
  }
}

TEST_F(EncodeOnDevice, ChoosesTheChunksThatTheHostChooses) {
  expect_bytes_of_the_host(dtype::bf16, elements_of(dtype::bf16, 20000), 0);
}

TEST_F(EncodeOnDevice, WritesTheBytesOfTheHostWithDirectTables) {
  using ecq::rans_direct;
  for (const auto format : ecq_test::stream_formats) {
    for (const std::size_t count : {0U, 1U, 1025U, 9003U}) {
      expect_bytes_of_the_host<rans_direct>(format, elements_of(format, count), 10);
    }
  }
  for (const unsigned values : {1U, 2U, 33U, 65U, 256U}) {
    expect_bytes_of_the_host<rans_direct>({}, bytes_of(ecq_test::code_source(values).below(5000, values)), 11);
  }
  for (const auto goal : {ecq::stream_goal::size, ecq::stream_goal::gpu}) {
    expect_bytes_of_the_host<rans_direct>({}, bytes_of(ecq_test::code_source(1).bell(20000, 14)), 0, goal);
  }
}

// Streams for devices have no raw bits, however many symbols there are.
TEST_F(EncodeOnDevice, WritesTheBytesOfTheHostForDevices) {
  for (const unsigned spread : {2U, 6U, 14U, 31U}) {
    expect_bytes_of_the_host({}, bytes_of(ecq_test::code_source(spread).bell(20000, spread)), 0, ecq::stream_goal::gpu);
  }
  for (const auto format : ecq_test::stream_formats) {
    for (const std::size_t count : {0U, 1U, 9003U}) {
      expect_bytes_of_the_host(format, elements_of(format, count), 0, ecq::stream_goal::gpu);
    }
  }
}

// For any room, the result is a stream that fits, or a verdict that says how much room it takes.
TEST_F(EncodeOnDevice, SaysHowMuchRoomItNeeds) {
  const bytes elements = elements_of(dtype::fp8_e4m3, 5000);
  const bytes expected = encoded_elements(dtype::fp8_e4m3, elements, 10);
  for (const std::uint64_t room : {std::size_t{0}, std::size_t{192}, std::size_t{1024}, expected.size() - 64}) {
    const encoded made = encode(dtype::fp8_e4m3, elements, {.chunk_bits = 10}, room);
    ASSERT_FALSE(made.verdict);
    EXPECT_EQ(made.verdict.error().code(), ecq::errc::limit_exceeded);
    EXPECT_NE(made.verdict.error().message().find(std::to_string(expected.size()) + " bytes"), std::string::npos);
    EXPECT_TRUE(made.stream.empty());
  }
  EXPECT_EQ(encode(dtype::fp8_e4m3, elements, {.chunk_bits = 10}, expected.size()).stream, expected);
}

#if defined(ECQ_EMULATED_CUDA)
// With as little shared memory as devices of compute capability 12.0 have, alias slots stay in global memory.
TEST_F(EncodeOnDevice, WritesTheBytesOfTheHostWithLittleSharedMemory) {
  std::size_t& most = ecq_emulated::device::only().shared_of_block;
  const std::size_t before = std::exchange(most, ecq::detail::least_shared_bytes);
  EXPECT_LT(most, ecq::detail::encode_shared_bytes<true>);
  for (const auto format : ecq_test::stream_formats) {
    for (const std::size_t count : {1U, 1025U, 9003U}) {
      expect_bytes_of_the_host(format, elements_of(format, count), 10);
    }
  }
  for (const unsigned values : {1U, 2U, 33U, 65U, 256U}) {
    expect_bytes_of_the_host({}, bytes_of(ecq_test::code_source(values).below(5000, values)), 11);
  }
  most = before;
}
#endif

TEST_F(EncodeOnDevice, NamesWhatCannotBe) {
  const auto code_of = [](const auto& outcome) { return outcome ? ecq::errc::ok : outcome.error().code(); };
  using ecq::errc;
  EXPECT_EQ(code_of(ecq::encode_workspace_bytes(dtype::bf16, 3)), errc::invalid_argument);
  EXPECT_EQ(code_of(ecq::encode_workspace_bytes(dtype::int8, 3)), errc::invalid_argument);
  EXPECT_EQ(code_of(ecq::encoded_capacity({}, (std::uint64_t{1} << 43) + 1)), errc::limit_exceeded);
  EXPECT_EQ(code_of(ecq::encoded_capacity({}, 100, {.chunk_bits = 9})), errc::invalid_argument);
  EXPECT_EQ(code_of(ecq::encoded_capacity({}, 100, {.goal = ecq::stream_goal::cpu})), errc::unsupported);
  const device_memory memory(1 << 18);
  std::byte* const at = memory.data();
  const auto attempt = [&](std::size_t in, std::size_t work, std::size_t work_bytes, std::size_t out,
                           std::size_t size) {
    return code_of(ecq::encode_elements({}, {}, {at + in, 100}, {}, {at + work, work_bytes}, {at + out, 1024},
                                        reinterpret_cast<std::uint64_t*>(at + size), ecq::device_verdict(at + 2048)));
  };
  const auto needed = static_cast<std::size_t>(*ecq::encode_workspace_bytes({}, 100));
  EXPECT_EQ(attempt(0, 4096, needed - 1, 1024, 2056), errc::invalid_argument);
  EXPECT_EQ(attempt(8, 4096, needed, 1024, 2056), errc::invalid_argument);
  EXPECT_EQ(attempt(0, 4096 + 128, needed, 1024, 2056), errc::invalid_argument);
  EXPECT_EQ(attempt(0, 4096, needed, 1024 + 32, 2056), errc::invalid_argument);
  EXPECT_EQ(attempt(0, 4096, needed, 1024, 2060), errc::invalid_argument);
  EXPECT_EQ(code_of(ecq::encode_elements({}, {}, {at, 100}, {}, {at + 4096, needed}, {at + 1024, 1024}, nullptr,
                                         ecq::device_verdict(at + 2048))),
            errc::invalid_argument);
  EXPECT_EQ(code_of(ecq::encode_elements({}, {}, {at, 100}, {}, {at + 4096, needed}, {at + 1024, 1024},
                                         reinterpret_cast<std::uint64_t*>(at + 2056), ecq::device_verdict(at + 2052))),
            errc::invalid_argument);
}

}  // namespace
