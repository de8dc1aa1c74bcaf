#pragma once
/// \file
/// Mutator of the targets that read safetensors files.

#include <algorithm>
#include <string>
#include <string_view>

#include "fuzz/file_mutator.hpp"
#include "fuzz/fuzz_target.hpp"

/// Either libFuzzer changes text or data, and the length before them is corrected, or file_mutator changes anything.
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t room, unsigned seed) {
  std::string file(reinterpret_cast<const char*>(data), size);
  if (seed % 4 == 0) {
    ecq_test::file_mutator(seed).mutate(file);
  } else {
    ecq_test::file_parts parts(file);
    std::string& part = seed % 4 == 1 ? parts.data : parts.text;
    ecq_test::mutate_by_fuzzer(part, part.size() + room - (std::min)(room, size));
    file = parts.file();
  }
  file.resize((std::min)(file.size(), room));
  std::copy(file.begin(), file.end(), reinterpret_cast<char*>(data));
  return file.size();
}
