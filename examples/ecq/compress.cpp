// ecq compress: compresses a checkpoint to N bits per weight, to unsigned integers, or without loss.

#include "ecq/checkpoint/compress_checkpoint.hpp"

#include <memory>
#include <string>
#include <utility>

#include "command.hpp"
#include "compress_arguments.hpp"
#include "compress_summary.hpp"
#include "progress_bar.hpp"
#include "tensor_rows.hpp"
#include "text.hpp"

namespace {

struct compress_options : tool::compress_arguments {
  std::string part = "0/1";
};

/// Reads "i/n"; returns false unless i < n.
bool read_part(const std::string& text, ecq::folder_part& part) {
  const std::size_t slash = text.find('/');
  return slash != std::string::npos && tool::read_whole_number(text.substr(0, slash), part.index) &&
         tool::read_whole_number(text.substr(slash + 1), part.count) && part.index < part.count;
}

ecq::result<void> run(const compress_options& given) {
  ECQ_TRY(how, given.to_options());
  read_part(given.part, how.part);
  const bool for_folder = tool::is_for_folder(given.input, given.output);
  if (how.part.count > 1 && !for_folder) {
    return ecq::error(ecq::errc::invalid_argument, "--part needs a folder or index as input and a folder as output");
  }

  const tool::stopwatch clock;
  tool::progress_bar bar(given.quiet);
  const auto compress = for_folder ? ecq::compress_folder : ecq::compress_checkpoint;
  ECQ_TRY(report, tool::naming(given.input, compress(given.backend(), given.input, given.output, how, bar.callback())));
  bar.clear();
  const double seconds = clock.seconds();
  if (given.as_json) {
    tool::json answer = tool::summary_json(given, report, seconds);
    answer["tensors"] = tool::tensor_rows(report.tensors);
    tool::print(std::move(answer));
  } else if (!given.quiet) {
    std::cout << tool::summary(given, report, report.tensors.size(), seconds);
  }
  return {};
}

ecq::result<void> run_lambda(const tool::compress_arguments& given) {
  ecq::compress_options how;
  how.method = given.at_bits();
  how.selection = given.selection;
  how.fallback_names = given.fallback;
  how.keep_non_finite = given.keep_non_finite;
  ECQ_CHECK(given.read_sidecars(how));
  tool::progress_bar bar(given.quiet);
  ECQ_TRY(lambda, tool::naming(given.input, ecq::find_lambda_of(given.backend(), given.input, how, bar.callback())));
  bar.clear();
  if (given.as_json) {
    tool::print({{"input", given.input}, {"bits", given.bits}, {"format", given.format}, {"lambda", lambda}});
  } else {
    std::cout << tool::significant(lambda, 12) << '\n';
  }
  return {};
}

std::string part_of(const std::string& text) {
  ecq::folder_part part;
  return read_part(text, part) ? std::string() : text + " is not a part such as 0/4, 1/4, 2/4, 3/4";
}

}  // namespace

void tool::add_compress(CLI::App& app, action& chosen) {
  auto given = std::make_shared<compress_options>();
  CLI::App* command = app.add_subcommand("compress", "Quantise and entropy-code the weights of a checkpoint");
  add_compress_options(*command, given, [given, &chosen] { chosen = [given] { return run(*given); }; });
  command
      ->add_option(
          "--part", given->part,
          "Compress only part i of n of a folder, given as i/n with i from 0; parts have about the same size, and "
          "together they make up the whole folder. Needs --lambda (see 'ecq lambda') or a method without a rate")
      ->check(part_of);
}

void tool::add_lambda(CLI::App& app, action& chosen) {
  auto given = std::make_shared<compress_arguments>();
  CLI::App* command =
      app.add_subcommand("lambda", "Find the lambda that meets a rate, for --part to share; 0 means AbsMax");
  command->add_option("IN", given->input, "model.safetensors, or the index or folder of a sharded model")->required();
  command->add_option("--bits", given->bits, "Bits per weight, 1.3 to 6.5, including all overhead")
      ->check(number_between(1.3, 6.5))
      ->capture_default_str();
  add_method(*command, *given, "Method that the lambda is for");
  CLI::Option* format = add_format(*command, *given);
  add_choice(*command, *given);
  add_exact(*command, *given);
  add_sensitivity(*command, *given);
  add_keep_non_finite(*command, *given);
  add_common_options(*command, *given);
  command->final_callback([given, format, &chosen] {
    given->choose_format(*format);
    chosen = [given] { return run_lambda(*given); };
  });
}
