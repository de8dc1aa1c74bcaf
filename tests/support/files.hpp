#pragma once
/// \file
/// Folders that are removed after a test, and whole files as strings.

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "support/places.hpp"

namespace ecq_test {

/// Empty folder, removed at the end with everything in it.
class temporary_folder {
 public:
  temporary_folder() {
    std::string name = (std::filesystem::temp_directory_path() / "ecq_test_XXXXXX").string();
    if (::mkdtemp(name.data()) != nullptr) path_ = name;
  }
  temporary_folder(const temporary_folder&) = delete;
  temporary_folder& operator=(const temporary_folder&) = delete;
  ~temporary_folder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }

  const std::filesystem::path& path() const noexcept { return path_; }
  std::filesystem::path operator/(std::string_view name) const { return path_ / name; }

  std::size_t count() const {
    return static_cast<std::size_t>(
        std::distance(std::filesystem::directory_iterator(path_), std::filesystem::directory_iterator()));
  }

 private:
  std::filesystem::path path_;
};

/// Writes a file. Removes an existing one first: some file systems wait for the disk when a file is overwritten.
inline void write_file(const std::filesystem::path& path, std::string_view content) {
  std::error_code ignored;
  std::filesystem::remove(path, ignored);
  std::ofstream(path, std::ios::binary).write(content.data(), static_cast<std::streamsize>(content.size()));
}

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

inline std::span<const std::byte> as_bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

inline std::string as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Returns a safetensors file of `header`, however wrong, with its length before it and `data` after it.
inline std::string safetensors_text(std::string_view header, std::string_view data = {}) {
  std::string text;
  for (int shift = 0; shift < 64; shift += 8)
    text += static_cast<char>((std::uint64_t{header.size()} >> shift) & 0xFFU);
  return text.append(header).append(data);
}

/// Returns the path of a golden file: a committed file that readers and writers must agree with for ever.
inline std::filesystem::path golden(std::string_view name) { return source_folder() / "tests" / "golden" / name; }

}  // namespace ecq_test
