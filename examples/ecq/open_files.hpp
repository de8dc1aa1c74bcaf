#pragma once
/// \file
/// How many files a program may have open.

#include <sys/resource.h>

namespace tool {

/// Raises the limit of open files as far as it may be raised: until the last file of a model is complete, all of them
/// are open, and shells often start programs with a limit of 1024 for the sake of `select`.
inline void open_as_many_files_as_allowed() noexcept {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  files.rlim_cur = files.rlim_max;
  static_cast<void>(::setrlimit(RLIMIT_NOFILE, &files));
}

}  // namespace tool
