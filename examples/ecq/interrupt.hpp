#pragma once
/// \file
/// Signal handling: the program exits at once and leaves no unfinished files behind.

#include <unistd.h>

#include <csignal>
#include <cstring>

#include "ecq/io/output_file.hpp"

namespace tool {

namespace detail {

inline volatile std::sig_atomic_t stderr_is_terminal = 0;
inline const char* name_of_program = "";

inline void write_text(const char* text) {
  [[maybe_unused]] const ssize_t ignored = ::write(STDERR_FILENO, text, std::strlen(text));
}

[[noreturn]] inline void leave(const char* message, int code) {
  ecq::remove_unfinished_files();
  if (stderr_is_terminal != 0) write_text("\r\x1b[K");  // erases the progress bar
  if (message != nullptr) {
    write_text(name_of_program);
    write_text(message);
  }
  ::_exit(code);
}

inline void on_interrupt(int) {
  if (!ecq::finishing_output::now()) leave(": interrupted\n", 130);
}
inline void on_quiet_interrupt(int) {
  if (!ecq::finishing_output::now()) leave(nullptr, 130);
}

inline void on_bus_error(int) {
  leave(": input/output error: the input became shorter or unreadable while in use\n", 1);
}

inline void handle(int signal, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  sigemptyset(&action.sa_mask);
  ::sigaction(signal, &action, nullptr);
}

}  // namespace detail

/// Handles signals for the program called `name`. SIGINT, SIGTERM and SIGHUP remove unfinished output and exit with
/// 130. Those that were ignored at the start stay ignored, as nohup and shells with background jobs expect. Once
/// outputs get their names (finishing_output), these signals come too late and have no effect. SIGBUS, which a mapped
/// file raises when it cannot be read, leads to exit code 1. A closed pipe or a file size limit becomes an error of the
/// write instead of a signal. With `one_of_many`, an interrupt prints no message: a launcher ends all of its processes
/// once one has failed.
inline void stop_cleanly_on_signals(const char* name, bool one_of_many = false) {
  detail::name_of_program = name;
  detail::stderr_is_terminal = ::isatty(STDERR_FILENO);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction inherited {};
    if (::sigaction(signal, nullptr, &inherited) == 0 && inherited.sa_handler == SIG_IGN) continue;
    detail::handle(signal, one_of_many ? detail::on_quiet_interrupt : detail::on_interrupt);
  }
  detail::handle(SIGBUS, detail::on_bus_error);
  for (const int signal : {SIGPIPE, SIGXFSZ}) detail::handle(signal, SIG_IGN);
}

}  // namespace tool
