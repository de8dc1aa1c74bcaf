// libFuzzer target: the header of a safetensors file is refused, or has the same meaning to another JSON reader.

#include "fuzz/container_readers.hpp"
#include "fuzz/fuzz_file.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ecq_test::expect_none(ecq_test::read_safetensors({reinterpret_cast<const char*>(data), size}).contradiction);
  return 0;
}
