#pragma once
/// \file
/// Handling of signals: leave at once, and leave nothing behind.

#include <unistd.h>

#include <csignal>
#include <cstring>

#include "ecq/io/output_file.hpp"

namespace tool {

namespace detail {

inline volatile std::sig_atomic_t stderr_is_terminal = 0;

[[noreturn]] inline void leave(const char* message, int code) {
  ecq::remove_unfinished_files();
  ssize_t ignored = 0;
  if (stderr_is_terminal != 0) ignored = ::write(STDERR_FILENO, "\r\x1b[K", 4);  // erases the progress bar
  ignored = ::write(STDERR_FILENO, message, std::strlen(message));
  static_cast<void>(ignored);
  ::_exit(code);
}

inline void on_interrupt(int) { leave("ecq: interrupted\n", 130); }

inline void on_bus_error(int) {
  leave("ecq: input/output error: the input could not be read any more, or became shorter, while it was in use\n", 1);
}

inline void handle(int signal, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  sigemptyset(&action.sa_mask);
  ::sigaction(signal, &action, nullptr);
}

}  // namespace detail

/// SIGINT, SIGTERM and SIGHUP remove unfinished output and exit with 130, unless they were ignored when the tool
/// started: nohup and shells that run it in the background mean that. SIGBUS, which a mapped file raises when it cannot
/// be read, exits with 1. A closed pipe or a file size limit becomes an error of the write instead of a signal.
inline void stop_cleanly_on_signals() {
  detail::stderr_is_terminal = ::isatty(STDERR_FILENO);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction inherited {};
    if (::sigaction(signal, nullptr, &inherited) == 0 && inherited.sa_handler == SIG_IGN) continue;
    detail::handle(signal, detail::on_interrupt);
  }
  detail::handle(SIGBUS, detail::on_bus_error);
  for (const int signal : {SIGPIPE, SIGXFSZ}) detail::handle(signal, SIG_IGN);
}

}  // namespace tool
