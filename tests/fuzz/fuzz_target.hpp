#pragma once
/// \file
/// Functions that every libFuzzer target needs.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t room, unsigned seed);
/// A function of libFuzzer: changes `size` bytes, whose number may become any up to `room`, and returns the new number.
extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t room);

namespace ecq_test {

/// Ends the program, so that libFuzzer keeps the input, unless `complaint` is empty.
inline void expect_none(const std::string& complaint) {
  if (complaint.empty()) return;
  std::fprintf(stderr, "%s\n", complaint.c_str());
  std::abort();
}

/// Like LLVMFuzzerMutate(), for a text that may grow to `room` bytes.
inline void mutate_by_fuzzer(std::string& text, std::size_t room) {
  const std::size_t size = text.size();
  text.resize(size < room ? room : size);
  text.resize(LLVMFuzzerMutate(reinterpret_cast<std::uint8_t*>(text.data()), size, text.size()));
}

}  // namespace ecq_test
