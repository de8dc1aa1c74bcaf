#pragma once
/// \file
/// Handling of a lack of memory, which becomes an error if there are exceptions. Programs compiled without exceptions
/// (-fno-exceptions) end instead, as they do wherever they run out of memory.

#include <cstdlib>
#include <new>
#include <string_view>

#include "ecq/base/error.hpp"

namespace ecq::detail {

/// Returns the result of work(), or the error that failed() returns if work() runs out of memory.
template <class Failed, class Work>
  requires requires(Failed& failed) { ecq::error(failed()); }
auto or_out_of_memory([[maybe_unused]] Failed&& failed, Work&& work) -> decltype(work()) {
#if defined(__cpp_exceptions)
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return failed();
  }
#else
  return work();
#endif
}

/// Returns the result of work(), or errc::out_of_memory ("no memory for ...") if work() runs out of memory.
template <class Work>
auto or_out_of_memory(std::string_view needed_for, Work&& work) -> decltype(work()) {
  return or_out_of_memory([&] { return error(errc::out_of_memory, "no memory for ", needed_for); }, work);
}

/// Fails like operator new if there is no memory.
[[noreturn]] inline void run_out_of_memory() {
#if defined(__cpp_exceptions)
  throw std::bad_alloc();
#else
  std::abort();
#endif
}

}  // namespace ecq::detail
