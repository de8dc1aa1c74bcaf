// ecq: quantise and entropy-code a checkpoint, and look at what that did to it.
//
// Exit code: 0 on success, 1 if the command failed, 2 if the command line is
// wrong or empty, 130 if a signal stopped it, 141 if nobody reads what it
// prints any more. An error is one line on stderr: "ecq: <what>: <where>".

#include <poll.h>
#include <unistd.h>

#include <exception>
#include <new>
#include <string_view>

#include "command.hpp"
#include "ecq/version.hpp"
#include "interrupt.hpp"
#include "suggestion.hpp"
#include "text.hpp"

namespace {

constexpr int failed = 1;
constexpr int wrong_usage = 2;
constexpr int closed_pipe = 141;  // as shells report a program that SIGPIPE ended

int complain(std::string_view what, int code) {
  std::cerr << "ecq: " << tool::printable(what) << '\n';
  return code;
}

/// The exit code, which is `code` if all that was printed has been written. A reader that has seen enough, as in
/// `ecq inspect FILE | head`, is no reason for a message.
int leave(int code) {
  if (std::cout.flush()) return code;
  pollfd output{STDOUT_FILENO, POLLOUT, 0};
  if (::poll(&output, 1, 0) == 1 && (output.revents & (POLLERR | POLLHUP)) != 0) return closed_pipe;
  return complain("input/output error: standard output", failed);
}

int run(int argc, char** argv) {
  CLI::App app(
      "Entropy-coded quantisation of neural-network weights: a "
      "checkpoint to N bits a weight, and back.",
      "ecq");
  app.set_version_flag("--version", "ecq " ECQ_VERSION_STRING);
  app.require_subcommand(1);
  app.footer("'ecq COMMAND --help' explains a command.");
  tool::action chosen;
  tool::add_compress(app, chosen);
  tool::add_lambda(app, chosen);
  tool::add_decompress(app, chosen);
  tool::add_inspect(app, chosen);
  tool::add_verify(app, chosen);
  tool::add_compare(app, chosen);
  tool::add_generate(app, chosen);
  for (CLI::App* command : app.get_subcommands({})) command->set_version_flag("--version", "ecq " ECQ_VERSION_STRING);
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
    return complain(tool::explanation(app, wrong), wrong_usage);
  }
  const ecq::result<void> outcome = chosen();
  if (!outcome) return complain(outcome.error().to_string(), failed);
  return leave(0);
}

}  // namespace

int main(int argc, char** argv) {
  tool::stop_cleanly_on_signals();
  try {
    return run(argc, argv);
  } catch (const std::bad_alloc&) {
    return complain("out of memory: allocation failed", failed);
  } catch (const std::exception& unexpected) {
    return complain("internal error: " + std::string(unexpected.what()), failed);
  }
}
