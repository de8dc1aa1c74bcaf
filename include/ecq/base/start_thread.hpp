#pragma once
/// \file
/// Starting of threads, which the system may refuse.

#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace ecq::detail {

/// Adds a thread that calls `parts`, a function and its arguments, to `threads`. Returns false if the system gives
/// none; programs compiled without exceptions then end.
template <class... Parts>
bool start_thread(std::vector<std::thread>& threads, Parts&&... parts) {
#if defined(__cpp_exceptions)
  try {
    threads.emplace_back(std::forward<Parts>(parts)...);
  } catch (const std::system_error&) {
    return false;
  }
#else
  threads.emplace_back(std::forward<Parts>(parts)...);
#endif
  return true;
}

}  // namespace ecq::detail
