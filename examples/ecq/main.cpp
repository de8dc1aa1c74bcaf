// ecq: quantise and entropy-code a checkpoint, and look at what that did to it.
//
// Exit code: 0 on success, 1 if the command failed, 2 if the command line is
// wrong, 130 if a signal stopped it. An error is one line on stderr: "ecq:
// <what>: <where>".

#include <exception>
#include <new>
#include <string_view>

#include "command.hpp"
#include "ecq/version.hpp"
#include "interrupt.hpp"
#include "text.hpp"

namespace {

constexpr int failed = 1;
constexpr int wrong_usage = 2;

int complain(std::string_view what, int code) {
  std::cerr << "ecq: " << tool::printable(what) << '\n';
  return code;
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
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& asked) {  // --help, --version
    app.exit(asked);
    return std::cout.flush() ? 0 : complain("input/output error: standard output", failed);
  } catch (const CLI::ParseError& wrong) {
    return complain("invalid option: " + std::string(wrong.what()) + " (see ecq --help)", wrong_usage);
  }
  const ecq::result<void> outcome = chosen();
  if (!outcome) return complain(outcome.error().to_string(), failed);
  if (!std::cout.flush()) return complain("input/output error: standard output", failed);
  return 0;
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
