#pragma once
/// \file
/// Small checkpoints on disk.

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "ecq/io/safetensors_writer.hpp"
#include "support/files.hpp"

namespace ecq_test {

struct tensor {
  std::string name;
  std::string_view dtype;  ///< as safetensors names it
  std::vector<std::uint64_t> shape;
  std::string bytes;
};

/// Returns the bytes of `values`, converted to a number format or to float.
template <class Element>
std::string bytes_of(const std::vector<float>& values) {
  std::string bytes;
  for (const float value : values) {
    const Element element(value);
    bytes.append(reinterpret_cast<const char*>(&element), sizeof element);
  }
  return bytes;
}

inline void write_model(const std::filesystem::path& path, const std::vector<tensor>& model,
                        const ecq::string_map& metadata = {{"format", "pt"}}) {
  std::vector<ecq::tensor_declaration> declared;
  for (const tensor& one : model) declared.push_back({one.name, one.dtype, one.shape});
  auto writer = ecq::safetensors_writer::create(path, declared, metadata);
  ASSERT_TRUE(writer) << writer.error().to_string();
  for (const tensor& one : model) ASSERT_TRUE(writer->write(one.name, as_bytes(one.bytes)));
  ASSERT_TRUE(writer->commit());
}

}  // namespace ecq_test
