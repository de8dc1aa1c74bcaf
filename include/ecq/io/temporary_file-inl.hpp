#pragma once
/// \file
/// Definition of the names and the removal of temporary files.

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <new>
#include <random>
#include <string>
#include <string_view>
#include <system_error>
#include <tuple>

#include "ecq/base/config.hpp"
#include "ecq/io/folder_of.hpp"
#include "ecq/io/temporary_file.hpp"

#if ECQ_POSIX
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#endif

namespace ecq {

namespace detail {

/// Returns a slot that nobody else uses, or null if there is no memory for it.
ECQ_INLINE unfinished_file* take_unfinished() noexcept {
  unfinished_file* const first = unfinished_files.load();
  for (unfinished_file* slot = first; slot != nullptr; slot = slot->next) {
    auto expected = unfinished_file::state::vacant;
    if (slot->current.compare_exchange_strong(expected, unfinished_file::state::changing)) return slot;
  }
  unfinished_file* const made = new (std::nothrow) unfinished_file;
  if (made == nullptr) return nullptr;
  made->current.store(unfinished_file::state::changing);
  made->next = first;
  while (!unfinished_files.compare_exchange_weak(made->next, made)) {
  }
  return made;
}

ECQ_INLINE unfinished_file* list_unfinished(const std::string& path) noexcept {
  if (path.size() >= std::tuple_size_v<decltype(unfinished_file::path)>) return nullptr;
  unfinished_file* const slot = take_unfinished();
  if (slot == nullptr) return nullptr;
  std::memcpy(slot->path.data(), path.c_str(), path.size() + 1);
  slot->current.store(unfinished_file::state::listed);
  return slot;
}

ECQ_INLINE void unlist_finished(unfinished_file* slot) noexcept {
  if (slot != nullptr) slot->current.store(unfinished_file::state::vacant);
}

}  // namespace detail

ECQ_INLINE void remove_unfinished_files() noexcept {
  const auto each = [](auto&& remove) {
    for (auto* slot = detail::unfinished_files.load(); slot != nullptr; slot = slot->next) {
      if (slot->current.load() == detail::unfinished_file::state::listed) remove(slot->path.data());
    }
  };
#if ECQ_POSIX
  each([](const char* path) { ::unlink(path); });
  each([](const char* path) { ::rmdir(path); });  // folders, now empty; files are already gone
#else
  each([](const char* path) { std::remove(path); });
#endif
}

namespace detail {

constexpr std::string_view temporary_suffix = ".partial";
constexpr std::size_t temporary_digits = 16;

/// Returns the beginning of the names of temporary files for `path`: its own name, cut so that theirs have 255 bytes at
/// most.
ECQ_INLINE std::string temporary_stem(const std::filesystem::path& path) {
  constexpr std::size_t longest_name = 255 - 1 - temporary_digits - temporary_suffix.size();
  return path.filename().string().substr(0, longest_name) + '.';
}

ECQ_INLINE std::filesystem::path temporary_name(const std::filesystem::path& path) {
  static std::atomic<std::uint64_t> counter{0};
  std::uint64_t number = counter.fetch_add(1);
  number ^= static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count()) << 8;
  try {
    std::random_device source;
    number ^= (static_cast<std::uint64_t>(source()) << 32) ^ source();
  } catch (const std::exception&) {
    // Without a random source the clock has to serve; O_EXCL catches a collision.
  }
  std::array<char, temporary_digits + 1> digits{};
  std::snprintf(digits.data(), digits.size(), "%016llx", static_cast<unsigned long long>(number));
  return path.parent_path() / (temporary_stem(path) + digits.data() + std::string(temporary_suffix));
}

/// Whether temporary_name() gives names like `name` to files whose temporary_stem is `stem`.
ECQ_INLINE bool is_temporary_name(std::string_view name, std::string_view stem) noexcept {
  if (name.size() != stem.size() + temporary_digits + temporary_suffix.size()) return false;
  const std::string_view digits = name.substr(stem.size(), temporary_digits);
  return name.starts_with(stem) && name.ends_with(temporary_suffix) &&
         digits.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

#if ECQ_POSIX

ECQ_INLINE bool lock_temporary(int descriptor, const std::filesystem::path& path) noexcept {
  // On file systems without locks, nobody gets one, and nobody removes the file.
  if (::flock(descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) return false;
  struct ::stat status {};
  return ::lstat(path.c_str(), &status) == 0;
}

ECQ_INLINE void remove_abandoned_files(const std::filesystem::path& path) {
  const std::string stem = temporary_stem(path);
  std::error_code failure;
  const std::filesystem::path folder = folder_of(path);
  for (std::filesystem::directory_iterator entry(folder, failure), end; !failure && entry != end;
       entry.increment(failure)) {
    if (!is_temporary_name(entry->path().filename().native(), stem)) continue;
    // Opened for writing, because locks on NFS require it; O_NONBLOCK, because a pipe may have such a name, too.
    const int descriptor = ::open(entry->path().c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (descriptor < 0) continue;
    struct ::stat status {};
    if (::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode) && ::flock(descriptor, LOCK_EX | LOCK_NB) == 0) {
      ::unlink(entry->path().c_str());
    }
    ::close(descriptor);
  }
}

#endif

}  // namespace detail

}  // namespace ecq
