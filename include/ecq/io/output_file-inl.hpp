#pragma once
/// \file
/// Definition of output_file.

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

#include "ecq/base/config.hpp"
#include "ecq/base/result.hpp"
#include "ecq/io/folder_of.hpp"
#include "ecq/io/mapped_file.hpp"
#include "ecq/io/output_file.hpp"
#include "ecq/io/temporary_file.hpp"

#if ECQ_POSIX
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#endif

namespace ecq {

ECQ_INLINE void output_file::swap(output_file& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(target_, other.target_);
  std::swap(permissions_, other.permissions_);
  std::swap(temporary_, other.temporary_);
  std::swap(size_, other.size_);
  std::swap(handle_, other.handle_);
  std::swap(slot_, other.slot_);
  std::swap(flushed_, other.flushed_);
}

namespace detail {

constexpr std::string_view kind_of(std::filesystem::file_type type) noexcept {
  using std::filesystem::file_type;
  switch (type) {
    case file_type::directory: return "a directory";
    case file_type::block: return "a block device";
    case file_type::character: return "a character device";
    case file_type::fifo: return "a pipe";
    case file_type::socket: return "a socket";
    default: return "a special file";
  }
}

/// Returns the file that is written under the name `path`: the target of its symbolic links, whether or not it exists.
/// Errors are those of output_file::create.
ECQ_INLINE result<std::filesystem::path> output_target(const std::filesystem::path& path) {
  const auto refused = [&](const auto&... parts) {
    return error(errc::io_error, quoted(path), ": cannot be written: ", parts...);
  };
  if (path.empty()) return refused("the name is empty");
  std::error_code ignored;
  const auto existing = std::filesystem::status(path, ignored);
  if (std::filesystem::exists(existing) && !std::filesystem::is_regular_file(existing)) {
    return refused("is ", kind_of(existing.type()), ", not a regular file");
  }
  constexpr int most_links = 40;  // the Linux kernel's limit
  std::filesystem::path target = path;
  for (int links = 0; std::filesystem::is_symlink(std::filesystem::symlink_status(target, ignored)); ++links) {
    std::error_code failure;
    const std::filesystem::path next = std::filesystem::read_symlink(target, failure);
    if (failure) return refused("cannot read the symbolic link: ", failure.message());
    if (links == most_links) return refused("more than ", most_links, " symbolic links");
    target = target.parent_path() / next;
  }
  if (target.filename().empty()) return refused("is the name of a directory");
  // Links below /proc may lead elsewhere than the names that they show.
  if (std::filesystem::exists(existing) && !std::filesystem::equivalent(path, target, ignored)) {
    return refused("its symbolic link does not lead to a named file");
  }
  return target;
}

}  // namespace detail

ECQ_INLINE result<output_file> output_file::create(const std::filesystem::path& path,
                                                   std::optional<std::filesystem::perms> permissions) {
  ECQ_TRY(target, detail::output_target(path));
  output_file file;
  file.path_ = path;
  file.target_ = std::move(target);
  std::error_code ignored;
  const auto replaced = std::filesystem::status(file.target_, ignored);
  file.permissions_ = std::filesystem::exists(replaced) ? std::optional(replaced.permissions()) : permissions;
  if (file.permissions_) *file.permissions_ &= std::filesystem::perms::all;
#if ECQ_POSIX
  detail::remove_abandoned_files(file.target_);
#endif
  for (int attempt = 0;; ++attempt) {
    file.temporary_ = detail::temporary_name(file.target_);
    // Listed before the file exists: a signal between the two must not leave the file behind.
    file.slot_ = detail::list_unfinished(file.temporary_.string());
#if ECQ_POSIX
    // The replacement of a private file is private from the first byte.
    const mode_t mode = file.permissions_ ? 0600 : 0666;
    file.handle_ = ::open(file.temporary_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    int number = errno;
    if (file.handle_ != no_handle) {
      if (detail::lock_temporary(file.handle_, file.temporary_)) return file;
      file.discard();
      number = EEXIST;
    }
#else
    file.handle_ = std::fopen(file.temporary_.string().c_str(), "w+bx");
    if (file.handle_ != no_handle) return file;
    const int number = errno;
#endif
    detail::unlist_finished(std::exchange(file.slot_, nullptr));
    file.temporary_.clear();
    if (number != EEXIST || attempt == 8) {
      return error(errc::io_error, detail::quoted(path),
                   ": cannot be created: ", std::generic_category().message(number));
    }
  }
}

ECQ_INLINE result<void> output_file::write(std::uint64_t offset, std::span<const std::byte> bytes) {
  const std::uint64_t start = offset;
  flushed_ = false;
  while (!bytes.empty()) {
#if ECQ_POSIX
    constexpr std::size_t largest_write = std::size_t{1} << 30;  // more than INT_MAX is an error on some systems
    const auto count =
        ::pwrite(handle_, bytes.data(), (std::min)(bytes.size(), largest_write), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    const bool failed = count <= 0;
    const int number = count == 0 ? ENOSPC : errno;
#else
    long long count = 0;
    const bool sought = offset == size_ || std::fseek(handle_, static_cast<long>(offset), SEEK_SET) == 0;
    if (sought) count = static_cast<long long>(std::fwrite(bytes.data(), 1, bytes.size(), handle_));
    const bool failed = count == 0 || (offset != size_ && std::fseek(handle_, 0, SEEK_END) != 0);
    const int number = errno;
#endif
    if (failed) {
      return error(errc::io_error, detail::quoted(path_), ": cannot write ", bytes.size(), " bytes at offset ", start,
                   ": ", std::generic_category().message(number));
    }
    offset += static_cast<std::uint64_t>(count);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
  return {};
}

ECQ_INLINE result<void> output_file::flush() {
  if (flushed_) return {};
#if ECQ_POSIX
  // Some file systems have no permissions; the file then stays as private as it is.
  if (permissions_) static_cast<void>(::fchmod(handle_, static_cast<mode_t>(*permissions_)));
  if (::fsync(handle_) != 0) return detail::file_error(path_, "cannot sync", errno);
#else
  if (std::fflush(handle_) != 0) return detail::file_error(path_, "cannot flush", errno);
#endif
  flushed_ = true;
  return {};
}

ECQ_INLINE result<void> output_file::commit() {
  ECQ_CHECK(flush());
#if !ECQ_POSIX
  if (close(std::exchange(handle_, no_handle)) != 0) return detail::file_error(path_, "cannot close", errno);
#endif
  std::error_code failure;
  std::filesystem::rename(temporary_, target_, failure);
  if (failure) {
    return error(errc::io_error, detail::quoted(path_),
                 ": cannot rename the finished file to this name: ", failure.message());
  }
  temporary_.clear();
  detail::unlist_finished(std::exchange(slot_, nullptr));
#if ECQ_POSIX
  // Closed only now, because closing gives up the lock. After fsync, close has nothing left to fail at.
  close(std::exchange(handle_, no_handle));
  // The name is durable once its folder is synced. Not every file system can sync a folder; the file is complete either
  // way.
  const std::filesystem::path folder = detail::folder_of(target_);
  if (const int descriptor = ::open(folder.c_str(), O_RDONLY | O_CLOEXEC); descriptor >= 0) {
    static_cast<void>(::fsync(descriptor));
    ::close(descriptor);
  }
#endif
  return {};
}

ECQ_INLINE int output_file::close(handle open_file) noexcept {
#if ECQ_POSIX
  return ::close(open_file);
#else
  return std::fclose(open_file);
#endif
}

ECQ_INLINE void output_file::discard() noexcept {
  if (handle_ != no_handle) close(std::exchange(handle_, no_handle));
  if (!temporary_.empty()) {
    std::error_code ignored;
    std::filesystem::remove(temporary_, ignored);
  }
  detail::unlist_finished(std::exchange(slot_, nullptr));
}

ECQ_INLINE result<void> refuse_to_overwrite(const std::filesystem::path& output,
                                            std::span<const std::filesystem::path> inputs) {
  if (std::error_code ignored; !std::filesystem::exists(output, ignored)) return {};
  for (const std::filesystem::path& input : inputs) {
    std::error_code ignored;
    if (!std::filesystem::equivalent(output, input, ignored)) continue;
    return error(errc::invalid_argument, detail::quoted(output), ": would replace the input ", detail::quoted(input));
  }
  return {};
}

}  // namespace ecq
