// ecq: quantises and entropy-codes checkpoints, and examines the results. For exit codes, see program.hpp.

#include "command.hpp"
#include "ecq/version.hpp"
#include "program.hpp"

namespace {

void add_all(CLI::App& app, tool::action& chosen) {
  app.footer("'ecq COMMAND --help' explains a command.");
  tool::add_compress(app, chosen);
  tool::add_lambda(app, chosen);
  tool::add_decompress(app, chosen);
  tool::add_inspect(app, chosen);
  tool::add_verify(app, chosen);
  tool::add_compare(app, chosen);
  tool::add_generate(app, chosen);
  for (CLI::App* command : app.get_subcommands({})) command->set_version_flag("--version", "ecq " ECQ_VERSION_STRING);
}

}  // namespace

int main(int argc, char** argv) {
  return tool::program("ecq",
                       "Entropy-coded quantisation of neural-network weights: compresses a checkpoint to N bits per "
                       "weight, and back.")
      .run(argc, argv, add_all);
}
