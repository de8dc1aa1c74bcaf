#pragma once
/// \file
/// A file that appears under its name only once it is complete.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <span>
#include <utility>

#include "ecq/base/config.hpp"
#include "ecq/base/result.hpp"
#include "ecq/io/temporary_file.hpp"

namespace ecq {

/// Output file that is written under a temporary name beside the final one and renamed on commit(): the final name
/// shows the old file or the whole new one, never a part. If the final name is a symbolic link, the link stays, and its
/// target is written instead, whether or not it exists. A new file has the permissions of the file that it replaces, or
/// else those given to create(), or else the process's usual ones (umask). Owner, access lists and other hard links are
/// not carried over.
///
/// The destructor or remove_unfinished_files() removes a file that was not committed. The next output_file of the same
/// name removes files that a killed process left behind. Writers hold a lock (flock) on their temporary files as long
/// as they live, so several may write at once, and the last commit() wins. Nothing is removed on file systems without
/// locks. On network file systems that keep locks to one machine, a writer on another machine may lose its temporary
/// file; its commit() then fails.
class output_file {
 public:
  /// Opens a temporary file beside `path`, or beside what it links to. Errors: errc::io_error, naming `path`, if the
  /// folder is missing or not writable, or if `path` exists and is not a regular file. The message then names its kind,
  /// such as a directory, a device, a pipe or a socket.
  static result<output_file> create(const std::filesystem::path& path,
                                    std::optional<std::filesystem::perms> permissions = {});

  output_file(output_file&& other) noexcept { swap(other); }
  output_file& operator=(output_file&& other) noexcept {
    output_file(std::move(other)).swap(*this);
    return *this;
  }
  ~output_file() { discard(); }

  /// Returns the path given to create().
  const std::filesystem::path& path() const noexcept { return path_; }

  /// Returns the number of bytes appended so far.
  std::uint64_t size() const noexcept { return size_; }

  /// Appends `bytes`. Errors: errc::io_error (disk full, quota, or, if SIGXFSZ is ignored, a file size limit), naming
  /// the file; the output can then only be destroyed.
  result<void> append(std::span<const std::byte> bytes) {
    ECQ_CHECK(write(size_, bytes));
    size_ += bytes.size();
    return {};
  }

  /// Overwrites bytes appended before; precondition: offset + bytes.size() <= size().
  result<void> rewrite(std::uint64_t offset, std::span<const std::byte> bytes) { return write(offset, bytes); }

  /// Writes everything to the disk. After it, only the renaming can still fail.
  result<void> flush();

  /// Flushes the bytes to the disk and renames the file to its final name.
  result<void> commit();

 private:
  output_file() = default;

  void swap(output_file& other) noexcept;

  result<void> write(std::uint64_t offset, std::span<const std::byte> bytes);
  void discard() noexcept;

#if ECQ_POSIX
  using handle = int;
  static constexpr handle no_handle = -1;
#else
  using handle = std::FILE*;
  static constexpr handle no_handle = nullptr;
#endif
  static int close(handle open_file) noexcept;

  std::filesystem::path path_;
  std::filesystem::path target_;                       ///< path_, with a symbolic link followed
  std::optional<std::filesystem::perms> permissions_;  ///< of the file to be replaced, or given to create()
  std::filesystem::path temporary_;                    ///< empty once there is nothing to remove
  std::uint64_t size_ = 0;
  handle handle_ = no_handle;
  detail::unfinished_file* slot_ = nullptr;  ///< where remove_unfinished_files() finds temporary_
  bool flushed_ = false;                     ///< since the last byte was written
};

/// Refuses an output that is one of the files `inputs`, by whatever name: a symbolic link, another hard link and
/// another spelling are the same file (device and inode). Errors: errc::invalid_argument, naming both.
result<void> refuse_to_overwrite(const std::filesystem::path& output, std::span<const std::filesystem::path> inputs);

}  // namespace ecq

#if ECQ_HEADER_ONLY
#include "ecq/io/output_file-inl.hpp"
#endif
