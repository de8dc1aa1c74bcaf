#pragma once
/// \file
/// Files of other kinds that are mistaken for checkpoints.

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <string_view>

namespace ecq::detail {

/// A kind of file, recognised by its first bytes.
struct file_kind {
  std::string_view start;
  std::string_view name;
  std::string_view advice;
};

inline constexpr std::string_view conversion_advice = "; docs/using.md shows how to convert its tensors";

/// Files that people mistake for files of weights, and files that downloads leave in their place.
inline constexpr std::array<file_kind, 10> other_kinds{{
    {"version https://git-lfs", "a Git LFS pointer", "; `git lfs pull` downloads the file itself"},
    {"PK\x03\x04", "a ZIP archive, as written by PyTorch", conversion_advice},
    {"\x80\x02", "a Python pickle, as written by PyTorch", conversion_advice},
    {"\x80\x04", "a Python pickle", conversion_advice},
    {"GGUF", "a GGUF file", conversion_advice},
    {"\x89HDF\r\n", "an HDF5 file", conversion_advice},
    {"\x93NUMPY", "a NumPy array", conversion_advice},
    {"<!DOCTYPE", "an HTML page", ", perhaps from a failed download"},
    {"<html", "an HTML page", ", perhaps from a failed download"},
    {"{", "JSON", "; the name of an index ends in .json"},
}};

/// Returns the kind of a file that is not a safetensors file, or null if it is unknown.
constexpr const file_kind* other_kind(std::span<const std::byte> file) noexcept {
  for (const file_kind& kind : other_kinds) {
    const auto same = [](std::byte byte, char letter) { return byte == static_cast<std::byte>(letter); };
    if (file.size() >= kind.start.size() &&
        std::equal(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(kind.start.size()), kind.start.begin(),
                   same)) {
      return &kind;
    }
  }
  return nullptr;
}

/// Whether a file of this name has weights in a format that the library does not read.
constexpr bool has_weights_of_others(std::string_view name) noexcept {
  constexpr std::array<std::string_view, 8> endings{".bin", ".pt", ".pth", ".ckpt", ".gguf", ".h5", ".npz", ".msgpack"};
  return !name.starts_with('.') &&
         std::any_of(endings.begin(), endings.end(), [&](std::string_view ending) { return name.ends_with(ending); });
}

}  // namespace ecq::detail
