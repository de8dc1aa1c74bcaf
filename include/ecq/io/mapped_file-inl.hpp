#pragma once
/// \file
/// Definition of mapped_file.

#include <cerrno>
#include <cstddef>
#include <exception>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "ecq/base/config.hpp"
#include "ecq/base/result.hpp"
#include "ecq/io/mapped_file.hpp"

#if ECQ_POSIX
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#endif

namespace ecq {

namespace detail {

ECQ_INLINE std::string quoted(const std::filesystem::path& path) {
  std::string text = "'";  // GCC 12 warns about operator+ if it inlines all of it (GCC bug 105651)
  text.append(path.string()).push_back('\'');
  return text;
}

ECQ_INLINE error file_error(const std::filesystem::path& path, std::string_view what, int number) {
  return error(number == ENOENT ? errc::not_found : errc::io_error,
               quoted(path) + ": " + std::string(what) + ": " + std::generic_category().message(number));
}

}  // namespace detail

ECQ_INLINE mapped_file::~mapped_file() {
#if ECQ_POSIX
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
#endif
}

ECQ_INLINE void mapped_file::release(std::size_t offset, std::size_t size) const noexcept {
#if ECQ_POSIX
  if (offset >= bytes_.size() || size == 0) return;
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t first = offset / page * page;
  const std::size_t end = size < bytes_.size() - offset ? offset + size : bytes_.size();
  ::madvise(const_cast<std::byte*>(bytes_.data()) + first, end - first, MADV_DONTNEED);
#else
  static_cast<void>(offset);
  static_cast<void>(size);
#endif
}

ECQ_INLINE result<mapped_file> mapped_file::open(const std::filesystem::path& path) {
  const auto wrong_kind = [&](std::string_view kind) {
    return error(errc::io_error, detail::quoted(path), ": is ", kind, ", not a regular file");
  };
  const auto empty = [&] { return error(errc::truncated, detail::quoted(path), ": is empty"); };
  mapped_file file(path);
#if ECQ_POSIX
  // O_NONBLOCK: open does not wait for a pipe's writer; the check below refuses the pipe.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return detail::file_error(path, "cannot open", errno);
  struct closer {
    int descriptor;
    ~closer() { ::close(descriptor); }
  } const guard{descriptor};
  struct ::stat status {};
  if (::fstat(descriptor, &status) != 0) return detail::file_error(path, "cannot stat", errno);
  if (S_ISDIR(status.st_mode)) return wrong_kind("a directory");
  if (!S_ISREG(status.st_mode)) return wrong_kind("a special file");
  if (status.st_size <= 0) return empty();
  if (!std::in_range<std::size_t>(status.st_size)) {
    return error(errc::limit_exceeded, detail::quoted(path), ": too large for the address space of this machine");
  }
  const auto size = static_cast<std::size_t>(status.st_size);
  void* const address = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor, 0);
  if (address == MAP_FAILED) return detail::file_error(path, "cannot map", errno);
  file.bytes_ = {static_cast<const std::byte*>(address), size};
#else
  std::error_code failure;
  const auto status = std::filesystem::status(path, failure);
  if (status.type() == std::filesystem::file_type::not_found) return detail::file_error(path, "cannot open", ENOENT);
  if (failure) return error(errc::io_error, detail::quoted(path), ": ", failure.message());
  if (std::filesystem::is_directory(status)) return wrong_kind("a directory");
  if (!std::filesystem::is_regular_file(status)) return wrong_kind("a special file");
  const auto size = std::filesystem::file_size(path, failure);
  if (failure) return error(errc::io_error, detail::quoted(path), ": ", failure.message());
  if (size == 0) return empty();
  try {
    file.storage_.resize(size);
  } catch (const std::exception&) {
    return error(errc::out_of_memory, detail::quoted(path), ": no memory for ", size, " bytes");
  }
  std::ifstream stream(path, std::ios::binary);
  if (!stream.read(reinterpret_cast<char*>(file.storage_.data()), static_cast<std::streamsize>(size))) {
    return error(errc::io_error, detail::quoted(path), ": cannot read ", size, " bytes");
  }
  file.bytes_ = file.storage_;
#endif
  return file;
}

}  // namespace ecq
