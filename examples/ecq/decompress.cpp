// ecq decompress: writes the weights of a compressed checkpoint as plain safetensors.

#include "ecq/checkpoint/decompress_checkpoint.hpp"

#include <filesystem>
#include <memory>
#include <string>
#include <system_error>

#include "command.hpp"
#include "progress_bar.hpp"
#include "text.hpp"

namespace {

struct decompress_options : tool::common_options {
  std::string input, output, type;
};

ecq::result<void> run(const decompress_options& given) {
  ecq::decompress_options how;
  if (!given.type.empty()) how.type = given.type == "bf16" ? ecq::dtype::bf16 : ecq::dtype::fp32;
  if (tool::is_of_files(given.input) && !tool::is_for_folder(given.input, given.output)) {
    return ecq::error(ecq::errc::invalid_argument, "the output for a folder must be a folder, but '", given.output,
                      "' is named like a file");
  }
  const tool::stopwatch clock;
  tool::progress_bar bar(given.quiet);
  const auto decompress =
      tool::is_for_folder(given.input, given.output) ? ecq::decompress_folder : ecq::decompress_checkpoint;
  ECQ_TRY(report,
          tool::naming(given.input, decompress(given.backend(), given.input, given.output, how, bar.callback())));
  bar.clear();
  const double seconds = clock.seconds();
  const double megabytes_per_second = static_cast<double>(report.output_bytes) / 1e6 / seconds;

  if (given.as_json) {
    tool::print({{"input", given.input},
                 {"output", given.output},
                 {"totals",
                  {{"weights", report.weights},
                   {"tensors", report.tensors},
                   {"passed_through", report.passed_through},
                   {"output_bytes", report.output_bytes},
                   {"seconds", seconds},
                   {"megabytes_per_second", megabytes_per_second}}}});
  } else if (!given.quiet) {
    std::cout << tool::printable(given.output) << '\n'
              << "  weights  " << tool::grouped(report.weights) << " in " << report.tensors << " tensors; "
              << report.passed_through << " tensors passed through\n"
              << "  file     " << tool::bytes(report.output_bytes) << '\n'
              << "  time     " << tool::duration(seconds) << " (" << tool::decimal(megabytes_per_second, 0)
              << " MB/s)\n";
  }
  return {};
}

}  // namespace

void tool::add_decompress(CLI::App& app, action& chosen) {
  auto given = std::make_shared<decompress_options>();
  CLI::App* command =
      app.add_subcommand("decompress", "Write the weights of a compressed checkpoint as plain safetensors");
  command->add_option("IN", given->input, "Compressed checkpoint, or a folder of them")->required();
  command
      ->add_option("-o,--output", given->output,
                   "Plain checkpoint or folder to write; an existing one is replaced only when the new one is complete")
      ->check(seekable_name())
      ->required();
  command
      ->add_option("--dtype", given->type,
                   "Type of the decompressed weights. Default: the original type of each tensor, or BF16 for FP8 and "
                   "INT8 weights that were compressed with loss. Tensors that were not compressed keep their type")
      ->check(CLI::IsMember({"bf16", "f32"}));
  add_common_options(*command, *given);
  command->final_callback([given, &chosen] { chosen = [given] { return run(*given); }; });
}
