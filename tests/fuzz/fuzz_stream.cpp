// libFuzzer target: all decoders have to agree on a stream with corrected checksums.

#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

#include "fuzz/fuzz_target.hpp"
#include "fuzz/stream_mutator.hpp"
#include "fuzz/stream_readers.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static ecq_test::stream_readers readers;
  const auto bytes = std::as_bytes(std::span(data, size));
  std::vector<std::byte> blob(bytes.begin(), bytes.end());
  ecq_test::seal(blob);
  ecq_test::expect_none(readers.read_sealed(blob).disagreement);
  return 0;
}

/// Half of the time, libFuzzer changes a section but not its size, since it knows which comparisons failed.
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t room, unsigned seed) {
  const auto bytes = std::as_bytes(std::span(data, size));
  std::vector<std::byte> blob(bytes.begin(), bytes.end());
  std::vector<ecq::section> sections = {{0, size}};
  ecq_test::for_each_section(blob, [&](std::size_t, ecq::section_kind, ecq::section part) {
    if (part.size != 0) sections.push_back(part);
  });
  if (seed % 2 == 0 || size == 0) {
    ecq_test::stream_mutator(seed).mutate(blob);
  } else {
    const ecq::section part = sections[seed / 2 % sections.size()];
    std::string section(reinterpret_cast<const char*>(data) + part.offset, static_cast<std::size_t>(part.size));
    ecq_test::mutate_by_fuzzer(section, section.size());
    std::memcpy(blob.data() + part.offset, section.data(), section.size());
  }
  const std::size_t made = (std::min)(blob.size(), room);
  std::copy_n(blob.begin(), made, reinterpret_cast<std::byte*>(data));
  return made;
}
