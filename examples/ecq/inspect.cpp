// ecq inspect: what a checkpoint holds, and at what rate.

#include "ecq/checkpoint/inspect_checkpoint.hpp"

#include <memory>
#include <string>

#include "command.hpp"
#include "progress_bar.hpp"
#include "tensor_rows.hpp"
#include "text.hpp"

namespace {

struct options : tool::common_options {
  std::string input;
};

ecq::result<void> run(const options& given) {
  tool::progress_bar bar(given.quiet);
  ECQ_TRY(report, tool::naming(given.input, ecq::inspect_checkpoint(given.backend(), given.input, bar.callback())));
  bar.clear();
  if (given.as_json) {
    tool::json metadata = tool::json::object();
    for (const auto& [key, value] : report.metadata) metadata[key] = value;
    tool::print({{"input", given.input},
                 {"container", report.container},
                 {"tool", report.tool},
                 {"settings", report.settings},
                 {"metadata", metadata},
                 {"tensors", tool::tensor_rows(report.tensors)},
                 {"totals", tool::totals_of(report)}});
    return {};
  }
  std::cout << tool::tensor_table(report.tensors) << '\n';
  if (report.container) {
    std::cout << tool::grouped(report.weights) << " weights compressed to " << tool::decimal(report.bits_per_weight, 3)
              << " bits each (entropy " << tool::decimal(report.entropy, 3) << ") in " << report.blocks << " blocks; "
              << report.passed_through << " tensors as they were; ";
    if (!report.tool.empty()) std::cout << "written by " << tool::printable(report.tool) << "; ";
  } else {
    std::cout << report.passed_through << " tensors, none compressed; ";
  }
  std::cout << "file " << tool::bytes(report.file_bytes) << '\n';
  return {};
}

}  // namespace

void tool::add_inspect(CLI::App& app, action& chosen) {
  auto given = std::make_shared<options>();
  CLI::App* command = app.add_subcommand("inspect", "List the tensors of a checkpoint, compressed or plain");
  command->add_option("IN", given->input, "Checkpoint")->required();
  add_common_options(*command, *given);
  command->final_callback([given, &chosen] { chosen = [given] { return run(*given); }; });
}
