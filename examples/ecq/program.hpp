#pragma once
/// \file
/// Main program around the commands: exit codes, one-line error messages, and the check that all output was written.
///
/// Exit code: 0 on success, 1 if the command failed, 2 if the command line is wrong or empty, 130 if a signal stopped
/// it, 141 if its output has no reader any more. An error is one line on stderr: "NAME: <what>: <where>".

#include <poll.h>
#include <unistd.h>

#include <exception>
#include <iostream>
#include <new>
#include <string>
#include <string_view>

#include "command.hpp"
#include "ecq/version.hpp"
#include "interrupt.hpp"
#include "open_files.hpp"
#include "suggestion.hpp"
#include "text.hpp"

namespace tool {

/// Function that adds the commands of a program to its command line. Each command sets `chosen` if it is given.
using add_commands = void (*)(CLI::App& app, action& chosen);

class program {
 public:
  constexpr program(const char* name, const char* description) noexcept : name_(name), description_(description) {}

  /// Parses the command line and runs its command. Returns the exit code.
  int run(int argc, char** argv, add_commands add) const {
    stop_cleanly_on_signals(name_);
    open_as_many_files_as_allowed();
    try {
      return parse_and_run(argc, argv, add);
    } catch (const std::bad_alloc&) {
      return complain("out of memory: allocation failed", failed);
    } catch (const std::exception& unexpected) {
      return complain("internal error: " + std::string(unexpected.what()), failed);
    }
  }

 private:
  static constexpr int failed = 1;
  static constexpr int wrong_usage = 2;
  static constexpr int closed_pipe = 141;  // as shells report a program that SIGPIPE ended

  int complain(std::string_view what, int code) const {
    std::cerr << name_ << ": " << printable(what) << '\n';
    return code;
  }

  /// Returns the exit code: `code` if all printed text has been written. If the reader has seen enough, as in `ecq
  /// inspect FILE | head`, there is no error message.
  int leave(int code) const {
    if (std::cout.flush()) return code;
    pollfd output{STDOUT_FILENO, POLLOUT, 0};
    if (::poll(&output, 1, 0) == 1 && (output.revents & (POLLERR | POLLHUP)) != 0) return closed_pipe;
    return complain("input/output error: cannot write to standard output", failed);
  }

  int parse_and_run(int argc, char** argv, add_commands add) const {
    CLI::App app(description_, name_);
    app.set_version_flag("--version", std::string(name_) + " " ECQ_VERSION_STRING);
    app.require_subcommand(1);
    action chosen;
    add(app, chosen);
    if (argc < 2) {
      std::cout << app.help();
      return leave(wrong_usage);
    }
    try {
      app.parse(argc, argv);
    } catch (const CLI::Success& asked) {  // --help, --version
      app.exit(asked);
      return leave(0);
    } catch (const CLI::ParseError& wrong) {
      return complain(explanation(app, wrong), wrong_usage);
    }
    const ecq::result<void> outcome = chosen();
    if (!outcome) return complain(outcome.error().to_string(), failed);
    return leave(0);
  }

  const char* name_;
  const char* description_;
};

}  // namespace tool
