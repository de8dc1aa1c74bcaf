// ecq-llama: a Llama-shaped decoder that runs from plain or compressed weights.
//
//   ecq-llama generate model-3bit --prompt 'The ' --mode block
//   ecq-llama perplexity model-3bit text.txt
//   ecq-llama compare model model-3bit --text text.txt
//   ecq-llama super-weights model -o super.json
//   ecq-llama calibrate model -o sensitivities.json
//   ecq-llama compress model -o model-2bit --bits 2.1 --sensitivity sensitivities.json
//
// Exit codes are those of ecq. An error is one line on stderr: "ecq-llama: <what>: <where>".

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "../ecq/command.hpp"
#include "../ecq/program.hpp"
#include "commands/calibrate.hpp"
#include "commands/compare.hpp"
#include "commands/compress.hpp"
#include "commands/generate.hpp"
#include "commands/inputs.hpp"
#include "commands/perplexity.hpp"
#include "commands/super_weights.hpp"

namespace {

void add_model_options(CLI::App& command, llama_tool::model_options& options) {
  command.add_option("MODEL", options.path, "Folder with config.json and weights, plain or compressed by ecq")
      ->required();
  command
      .add_option("--mode", options.mode,
                  "dense: decode coded weights once, when the model is opened; block: decode each layer while the "
                  "previous one computes; fused: multiply by coded weights without storing decoded ones")
      ->check(CLI::IsMember({"dense", "block", "fused"}))
      ->capture_default_str();
  command
      .add_option("--activations", options.activations,
                  "With --mode fused: round activations to BF16, or to 8 bits with a scale for each row, before coded "
                  "weights multiply them")
      ->check(CLI::IsMember({"fp32", "bf16", "int8"}))
      ->capture_default_str();
  tool::add_common_options(command, options.common);
}

void add_window_options(CLI::App& command, llama_tool::text_options& options) {
  command.add_flag("--tokens-u16", options.tokens_u16, "The text is a file of tokens, as little-endian 16-bit numbers");
  command.add_option("--window", options.how.window, "Predictions per window")
      ->check(tool::number_between(0, 1e9))
      ->capture_default_str();
  command.add_option("--windows", options.how.windows, "Maximum number of windows; 0: all")
      ->check(tool::number_between(0, 1e9))
      ->capture_default_str();
}

void add_generate(CLI::App& app, tool::action& chosen) {
  auto* const command = app.add_subcommand("generate", "Continue a text");
  const auto given = std::make_shared<llama_tool::generate_arguments>();
  add_model_options(*command, *given);
  command->add_option("--prompt", given->prompt,
                      "Text to continue; by default the token that begins texts, or a line break");
  command->add_option("--tokens", given->how.tokens, "Maximum number of tokens to generate")
      ->check(tool::number_between(0, 1e9))
      ->capture_default_str();
  command->add_option("--temperature", given->how.temperature, "Sampling temperature; 0: always the most likely token")
      ->check(tool::number_between(0, 1e6))
      ->capture_default_str();
  command->add_option("--seed", given->how.seed, "Seed of the random choice of tokens")
      ->check(tool::whole_number())
      ->capture_default_str();
  command->callback([given, &chosen] { chosen = [given] { return llama_tool::generate(*given); }; });
}

void add_perplexity(CLI::App& app, tool::action& chosen) {
  auto* const command = app.add_subcommand("perplexity", "Measure how well a model predicts a text");
  const auto given = std::make_shared<llama_tool::perplexity_arguments>();
  add_model_options(*command, *given);
  command->add_option("FILE", given->file, "Text to predict")->required();
  add_window_options(*command, *given);
  command->callback([given, &chosen] { chosen = [given] { return llama_tool::perplexity(*given); }; });
}

void add_super_weights(CLI::App& app, tool::action& chosen) {
  auto* const command = app.add_subcommand(
      "super-weights", "Find weights of down projections whose inputs and outputs are far larger than all others");
  const auto given = std::make_shared<llama_tool::super_weights_arguments>();
  add_model_options(*command, *given);
  command
      ->add_option(
          "--threshold", given->how.threshold,
          "A weight of a down projection is a super weight if the magnitudes of its input and its output exceed this")
      ->check(tool::number_between(0, 1e30))
      ->capture_default_str();
  command->add_option("--text", given->text, "Text that the model reads")->capture_default_str();
  command->add_option("--top", given->how.others, "Also show this many of the strongest below the threshold")
      ->check(tool::number_between(0, 1e6))
      ->capture_default_str();
  command
      ->add_option("-o,--output", given->output,
                   "Write the super weights to this JSON file: [row, column] pairs by tensor name")
      ->check(tool::seekable_name());
  command->callback([given, &chosen] { chosen = [given] { return llama_tool::find_super_weights(*given); }; });
}

void add_text_options(CLI::App& command, llama::own_text_options& options, const std::string& tokens) {
  command.add_option("--tokens", options.tokens, tokens)->check(tool::number_between(1, 1e9))->capture_default_str();
  command.add_option("--window", options.window, "Tokens per text, at most the model's context and 1024")
      ->check(tool::number_between(2, 1e9))
      ->capture_default_str();
  command.add_option("--seed", options.seed, "Seed of the texts")
      ->check(tool::number_between(0, 1e15))
      ->capture_default_str();
}

CLI::Option* add_sensitivity(CLI::App& command, llama_tool::feedback_options& options) {
  return command.add_option(
      "--sensitivity", options.sensitivities,
      "Divide bits among tensors by this file from 'ecq-llama calibrate', or by any file that 'ecq compress "
      "--sensitivity' takes. With error feedback, numbers for rows count by their mean");
}

void add_compress(CLI::App& app, tool::action& chosen) {
  auto* const command = app.add_subcommand(
      "compress",
      "Compress a model to 8-bit integers with error feedback, calibrated on text that the model writes itself");
  const auto given = std::make_shared<llama_tool::compress_arguments>();
  command->add_option("MODEL", given->path, "Folder with config.json and plain weights")->required();
  command->add_option("-o,--output", given->output, "Folder of the compressed model")->required();
  command->add_option("--bits", given->bits, "Bits per weight over all matrices, including all overhead")
      ->check(tool::number_between(0.01, 8))
      ->capture_default_str();
  add_sensitivity(*command, *given);
  command
      ->add_option("--correction", given->correction,
                   "How much of the error of matrices quantised earlier each matrix makes up for, 0 to 1")
      ->check(tool::number_between(0, 1))
      ->capture_default_str();
  command
      ->add_option("--trellis", given->states,
                   "Put codes on a trellis of this many states: smaller loss, slower compression")
      ->check(CLI::IsMember({4, 8, 16, 32}));
  add_text_options(*command, given->texts,
                   "Tokens of text that the model writes and then reads four times, before and during quantisation");
  tool::add_common_options(*command, given->common);
  command->callback([given, &chosen] { chosen = [given] { return llama_tool::compress(*given); }; });
}

void add_calibrate(CLI::App& app, tool::action& chosen) {
  auto* const command = app.add_subcommand(
      "calibrate", "Measure how much predictions depend on each matrix, for 'ecq compress --sensitivity'");
  const auto given = std::make_shared<llama_tool::calibrate_arguments>();
  command->add_option("MODEL", given->path, "Folder with config.json and weights, plain or compressed by ecq")
      ->required();
  command->add_option("-o,--output", given->output, "JSON file to write sensitivities to, by tensor name")
      ->check(tool::seekable_name())
      ->required();
  add_text_options(*command, given->how.texts,
                   "Tokens of text that the model writes and then reads once for each matrix and once for each layer");
  tool::add_common_options(*command, given->common);
  command->callback([given, &chosen] { chosen = [given] { return llama_tool::calibrate(*given); }; });
}

template <class Value>
void check_given_once(const std::string& option, std::vector<Value> values) {
  std::sort(values.begin(), values.end());
  if (std::adjacent_find(values.begin(), values.end()) == values.end()) return;
  throw CLI::ValidationError(option, "a value is given twice");
}

void add_compare(CLI::App& app, tool::action& chosen) {
  auto* const command =
      app.add_subcommand("compare", "Compare how rates and methods change a model's weights and predictions");
  const auto given = std::make_shared<llama_tool::compare_arguments>();
  add_model_options(*command, *given);
  command->add_option("CODED", given->coded, "Models made from MODEL, by ecq or otherwise");
  command->add_option("--text", given->file, "Text that all models predict")->required();
  add_window_options(*command, *given);
  auto* const bits =
      command->add_option("--bits", given->bits, "Also make models at these bits per weight, with each method")
          ->delimiter(',')
          ->check(tool::number_between(1.3, 6.5));
  command
      ->add_option("--methods", given->methods,
                   "Methods for --bits: entquant and tcqN as in 'ecq compress'; feedback and feedback-tcqN as in "
                   "'ecq-llama compress'. N is the number of trellis states")
      ->delimiter(',')
      ->check(CLI::IsMember(llama_tool::comparable_methods))
      ->needs(bits)
      ->capture_default_str();
  auto* const into = command->add_option("--into", given->folder, "Folder for the models that --bits makes");
  bits->needs(into);
  into->needs(bits);
  add_sensitivity(*command, *given)->needs(bits);
  command->add_option("--tokens", given->texts.tokens, "Tokens of text that the model writes for error feedback")
      ->check(tool::number_between(1, 1e9))
      ->needs(bits)
      ->capture_default_str();
  command->add_option("--svg", given->picture, "Write a plot of divergence by bits per weight to this file")
      ->check(tool::seekable_name());
  command->callback([given, &chosen] {
    if (given->coded.empty() && given->bits.empty()) throw CLI::RequiredError("CODED or --bits");
    check_given_once("--bits", given->bits);
    check_given_once("--methods", given->methods);
    chosen = [given] { return llama_tool::compare(*given); };
  });
}

void add_all(CLI::App& app, tool::action& chosen) {
  add_generate(app, chosen);
  add_perplexity(app, chosen);
  add_compare(app, chosen);
  add_super_weights(app, chosen);
  add_calibrate(app, chosen);
  add_compress(app, chosen);
}

}  // namespace

int main(int argc, char** argv) {
  return tool::program("ecq-llama",
                       "Runs a Llama-shaped model from plain weights or from weights that ecq has compressed.")
      .run(argc, argv, add_all);
}
