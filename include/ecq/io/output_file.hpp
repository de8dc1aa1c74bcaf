#pragma once
/// \file
/// A file that appears under its name only once it is complete.

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <random>
#include <span>
#include <string>
#include <system_error>
#include <utility>

#include "ecq/base/config.hpp"
#include "ecq/base/result.hpp"
#include "ecq/io/mapped_file.hpp"

#if ECQ_POSIX
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#endif

namespace ecq {

namespace detail {

/// The name of one unfinished file, stored where a signal handler can read it without allocation or locks.
struct unfinished_file {
  enum class state : int { vacant, changing, listed };
  std::atomic<state> current{state::vacant};
  std::array<char, 4096> path{};
};
static_assert(std::atomic<unfinished_file::state>::is_always_lock_free);

inline std::array<unfinished_file, 16> unfinished_files;

/// Lists `path` and returns its slot. Returns null if all slots are taken or the path is too long; then only the
/// destructor will remove the file.
inline unfinished_file* list_unfinished(const std::string& path) noexcept {
  for (auto& slot : unfinished_files) {
    auto expected = unfinished_file::state::vacant;
    if (path.size() >= slot.path.size()) return nullptr;
    if (!slot.current.compare_exchange_strong(expected, unfinished_file::state::changing)) continue;
    std::memcpy(slot.path.data(), path.c_str(), path.size() + 1);
    slot.current.store(unfinished_file::state::listed);
    return &slot;
  }
  return nullptr;
}

inline void unlist_finished(unfinished_file* slot) noexcept {
  if (slot != nullptr) slot->current.store(unfinished_file::state::vacant);
}

}  // namespace detail

/// Removes the temporary file of every output_file of this process that is neither committed nor destroyed.
/// Async-signal-safe: call it from a handler of SIGINT or SIGTERM before leaving with _exit.
inline void remove_unfinished_files() noexcept {
  for (auto& slot : detail::unfinished_files) {
    if (slot.current.load() != detail::unfinished_file::state::listed) continue;
#if ECQ_POSIX
    ::unlink(slot.path.data());
#else
    std::remove(slot.path.data());
#endif
  }
}

/// Writes to a temporary file beside the final one and renames it on commit(): the final name shows the old file or the
/// whole new one, never a part. A symbolic link under the final name is replaced, not followed. The destructor or
/// remove_unfinished_files() removes a file that was not committed.
class output_file {
 public:
  /// Opens a temporary file beside `path`. Errors: errc::io_error, naming `path`, if the folder is missing or not
  /// writable, or if `path` exists and is not a regular file.
  static result<output_file> create(const std::filesystem::path& path);

  output_file(output_file&& other) noexcept { swap(other); }
  output_file& operator=(output_file&& other) noexcept {
    output_file(std::move(other)).swap(*this);
    return *this;
  }
  ~output_file() { discard(); }

  const std::filesystem::path& path() const noexcept { return path_; }

  /// Bytes appended so far.
  std::uint64_t size() const noexcept { return size_; }

  /// Appends `bytes`. Errors: errc::io_error (disk full, quota, file size limit), naming the file; the output can then
  /// only be destroyed.
  result<void> append(std::span<const std::byte> bytes) {
    ECQ_CHECK(write(size_, bytes));
    size_ += bytes.size();
    return {};
  }

  /// Overwrites bytes appended before; precondition: offset + bytes.size() <= size().
  result<void> rewrite(std::uint64_t offset, std::span<const std::byte> bytes) { return write(offset, bytes); }

  /// Flushes the bytes to the disk and renames the file to its final name.
  result<void> commit();

 private:
  output_file() = default;

  void swap(output_file& other) noexcept {
    std::swap(path_, other.path_);
    std::swap(temporary_, other.temporary_);
    std::swap(size_, other.size_);
    std::swap(handle_, other.handle_);
    std::swap(slot_, other.slot_);
  }

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
  std::filesystem::path temporary_;  ///< empty once there is nothing to remove
  std::uint64_t size_ = 0;
  handle handle_ = no_handle;
  detail::unfinished_file* slot_ = nullptr;  ///< where remove_unfinished_files() finds temporary_
};

namespace detail {

/// "<final name>.<16 hex digits>.partial" in the same folder, so that rename() stays within one file system.
inline std::filesystem::path temporary_name(const std::filesystem::path& path) {
  static std::atomic<std::uint64_t> counter{0};
  std::uint64_t number = counter.fetch_add(1);
  number ^= static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count()) << 8;
  try {
    std::random_device source;
    number ^= (static_cast<std::uint64_t>(source()) << 32) ^ source();
  } catch (const std::exception&) {
    // Without a random source the clock has to serve; O_EXCL catches a collision.
  }
  std::array<char, 32> suffix{};
  std::snprintf(suffix.data(), suffix.size(), ".%016llx.partial", static_cast<unsigned long long>(number));
  std::string name = path.filename().string();
  constexpr std::size_t longest_name = 255 - 25;
  if (name.size() > longest_name) name.resize(longest_name);
  return path.parent_path() / (name + suffix.data());
}

}  // namespace detail

inline result<output_file> output_file::create(const std::filesystem::path& path) {
  std::error_code ignored;
  const auto existing = std::filesystem::status(path, ignored);
  if (path.filename().empty() || (std::filesystem::exists(existing) && !std::filesystem::is_regular_file(existing))) {
    return error(errc::io_error, detail::quoted(path), ": cannot be written: not the name of a regular file");
  }
  output_file file;
  file.path_ = path;
  for (int attempt = 0;; ++attempt) {
    file.temporary_ = detail::temporary_name(path);
    // Listed before the file exists: a signal between the two must not leave the file behind.
    file.slot_ = detail::list_unfinished(file.temporary_.string());
#if ECQ_POSIX
    file.handle_ = ::open(file.temporary_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
#else
    file.handle_ = std::fopen(file.temporary_.string().c_str(), "w+bx");
#endif
    if (file.handle_ != no_handle) return file;
    const int number = errno;
    detail::unlist_finished(std::exchange(file.slot_, nullptr));
    file.temporary_.clear();
    if (number != EEXIST || attempt == 8) {
      return error(errc::io_error, detail::quoted(path),
                   ": cannot be created: ", std::generic_category().message(number));
    }
  }
}

inline result<void> output_file::write(std::uint64_t offset, std::span<const std::byte> bytes) {
  const std::uint64_t start = offset;
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

inline result<void> output_file::commit() {
#if ECQ_POSIX
  if (::fsync(handle_) != 0) return detail::file_error(path_, "cannot sync", errno);
#else
  if (std::fflush(handle_) != 0) return detail::file_error(path_, "cannot flush", errno);
#endif
  if (close(std::exchange(handle_, no_handle)) != 0) return detail::file_error(path_, "cannot close", errno);
  std::error_code failure;
  std::filesystem::rename(temporary_, path_, failure);
  if (failure) return error(errc::io_error, detail::quoted(path_), ": cannot be renamed to: ", failure.message());
  temporary_.clear();
  detail::unlist_finished(std::exchange(slot_, nullptr));
#if ECQ_POSIX
  // The name is durable once its folder is; not every file system can sync one, and the file is complete either way.
  const std::filesystem::path folder = path_.has_parent_path() ? path_.parent_path() : std::filesystem::path(".");
  if (const int descriptor = ::open(folder.c_str(), O_RDONLY | O_CLOEXEC); descriptor >= 0) {
    static_cast<void>(::fsync(descriptor));
    ::close(descriptor);
  }
#endif
  return {};
}

inline int output_file::close(handle open_file) noexcept {
#if ECQ_POSIX
  return ::close(open_file);
#else
  return std::fclose(open_file);
#endif
}

inline void output_file::discard() noexcept {
  if (handle_ != no_handle) close(std::exchange(handle_, no_handle));
  if (!temporary_.empty()) {
    std::error_code ignored;
    std::filesystem::remove(temporary_, ignored);
  }
  detail::unlist_finished(std::exchange(slot_, nullptr));
}

}  // namespace ecq
