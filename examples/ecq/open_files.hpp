#pragma once
/// \file
/// Limit of open files.

#include <sys/resource.h>

namespace tool {

/// Raises the limit of open files as far as allowed. All files of a model stay open until the last one is complete, and
/// shells often start programs with a limit of 1024 for the sake of `select`.
inline void open_as_many_files_as_allowed() noexcept {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  files.rlim_cur = files.rlim_max;
  static_cast<void>(::setrlimit(RLIMIT_NOFILE, &files));
}

}  // namespace tool
