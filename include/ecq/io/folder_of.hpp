#pragma once
/// \file
/// The folder that a file lies in.

#include <filesystem>

namespace ecq::detail {

/// Returns the folder of the file at `path`, which is "." for a name without a folder: an empty path names none.
inline std::filesystem::path folder_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

}  // namespace ecq::detail
