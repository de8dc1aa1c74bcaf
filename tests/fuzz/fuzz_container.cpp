// libFuzzer target: a container with corrected checksums is refused or read.

#include <string>

#include "fuzz/container_readers.hpp"
#include "fuzz/fuzz_file.hpp"
#include "support/files.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const ecq_test::temporary_folder folder;
  std::string file(reinterpret_cast<const char*>(data), size);
  ecq_test::seal_container(file);
  ecq_test::write_file(folder / "container", file);
  ecq_test::expect_none(ecq_test::read_container(folder / "container").contradiction);
  return 0;
}
