#pragma once
/// \file
/// A file as a span of bytes.

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ecq/base/config.hpp"
#include "ecq/base/result.hpp"

namespace ecq {

namespace detail {

std::string quoted(const std::filesystem::path& path);

/// Returns the error "'<path>': <what>: <text of the error number>", with errc::not_found for ENOENT, else
/// errc::io_error.
error file_error(const std::filesystem::path& path, std::string_view what, int number);

}  // namespace detail

/// A regular file of at least one byte, mapped read-only where the system supports it and otherwise read whole. Pages
/// that were read count as resident memory until release() gives them back. If somebody else shortens the file while it
/// is mapped, SIGBUS kills the reader: nothing here guards against that.
class mapped_file {
 public:
  /// Opens and maps the file at `path`. Errors name the file: errc::not_found, errc::io_error (unreadable, a directory,
  /// a device) or errc::truncated (empty).
  static result<mapped_file> open(const std::filesystem::path& path);

  mapped_file(mapped_file&& other) noexcept { swap(other); }
  mapped_file& operator=(mapped_file&& other) noexcept {
    mapped_file(std::move(other)).swap(*this);
    return *this;
  }
  ~mapped_file();

  std::span<const std::byte> bytes() const noexcept { return bytes_; }
  const std::filesystem::path& path() const noexcept { return path_; }

  /// Gives the pages that hold bytes [offset, offset + size) back to the system. The next access reads them again, so
  /// an early release is slow but never wrong.
  void release(std::size_t offset, std::size_t size) const noexcept;

 private:
  explicit mapped_file(const std::filesystem::path& path) : path_(path) {}

  void swap(mapped_file& other) noexcept {
    std::swap(path_, other.path_);
    std::swap(bytes_, other.bytes_);
#if !ECQ_POSIX
    std::swap(storage_, other.storage_);
#endif
  }

  std::filesystem::path path_;
  std::span<const std::byte> bytes_;
#if !ECQ_POSIX
  std::vector<std::byte> storage_;
#endif
};

}  // namespace ecq

#if ECQ_HEADER_ONLY
#include "ecq/io/mapped_file-inl.hpp"
#endif
