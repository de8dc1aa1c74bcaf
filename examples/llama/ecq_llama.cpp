// ecq-llama: a Llama-shaped decoder that runs from plain or compressed weights.
//
//   ecq-llama generate model-3bit --prompt 'The ' --mode block
//   ecq-llama perplexity model-3bit text.txt
//   ecq-llama super-weights model -o super.json
//   ecq-llama calibrate model -o sensitivities.json
//
// Exit codes are those of ecq. An error is one line on stderr: "ecq-llama: <what>: <where>".

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../ecq/command.hpp"
#include "../ecq/program.hpp"
#include "../ecq/progress_bar.hpp"
#include "../ecq/text.hpp"
#include "calibration.hpp"
#include "ecq/io/model_files.hpp"
#include "forward.hpp"
#include "generation.hpp"
#include "model.hpp"
#include "perplexity.hpp"
#include "super_weights.hpp"
#include "text_stream.hpp"
#include "tokenizer.hpp"

namespace {

/// The options of all commands.
struct model_options {
  std::string path;
  std::string mode = "dense";
  std::string activations = "fp32";
  tool::common_options common;
};

void add_model_options(CLI::App& command, model_options& options) {
  command.add_option("MODEL", options.path, "Folder with config.json and weights, plain or compressed by ecq")
      ->required();
  command
      .add_option("--mode", options.mode,
                  "dense: decode coded weights once; block: decode each layer while the one before it computes; fused: "
                  "multiply by coded weights as they lie")
      ->check(CLI::IsMember({"dense", "block", "fused"}))
      ->capture_default_str();
  command
      .add_option("--activations", options.activations,
                  "With --mode fused, int8: coded weights multiply activations in 8 bits, each row with a scale")
      ->check(CLI::IsMember({"fp32", "int8"}))
      ->capture_default_str();
  tool::add_common_options(command, options.common);
}

/// The most memory that the process has had, in bytes.
std::uint64_t peak_memory() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
#if defined(__APPLE__)
  return static_cast<std::uint64_t>(usage.ru_maxrss);
#else
  return static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
#endif
}

tool::json memory_json(const llama::model& model) {
  const llama::memory_use use = model.memory();
  return {{"weight_bytes", use.total()},
          {"dense_bytes", use.dense},
          {"coded_bytes", use.coded},
          {"buffer_bytes", use.buffers},
          {"peak_bytes", peak_memory()}};
}

std::string memory_text(const llama::model& model) {
  return "weights " + tool::bytes(model.memory().total()) + ", peak memory " + tool::bytes(peak_memory());
}

double rate(std::size_t count, double seconds) { return seconds > 0 ? static_cast<double>(count) / seconds : 0.0; }

ecq::result<llama::model> open_model(const model_options& given) {
  tool::progress_bar bar(given.common.quiet);
  const auto mode = given.mode == "block"   ? llama::weight_mode::block
                    : given.mode == "fused" ? llama::weight_mode::fused
                                            : llama::weight_mode::dense;
  const auto activations = given.activations == "int8" ? ecq::activation_type::int8 : ecq::activation_type::fp32;
  return tool::naming(given.path,
                      llama::model::open(given.path, mode, given.common.backend(), bar.callback(), activations));
}

struct generate_arguments : model_options {
  std::string prompt;
  llama::generation_options how;
};

/// The tokens of the prompt, behind those that begin every text. A model that would have none gets a line end.
ecq::result<std::vector<std::uint32_t>> prompt_tokens(const std::string& prompt, const llama::tokenizer& words,
                                                      const llama::model_config& config) {
  std::vector<std::uint32_t> tokens = words.begin();
  if (tokens.empty() && prompt.empty() && config.begin_token) tokens.push_back(*config.begin_token);
  ECQ_TRY(of_text, words.encode(tokens.empty() && prompt.empty() ? "\n" : prompt));
  tokens.insert(tokens.end(), of_text.begin(), of_text.end());
  return tokens;
}

ecq::result<void> generate(const generate_arguments& given) {
  ECQ_TRY(model, open_model(given));
  const llama::model_config& config = model.config();
  ECQ_TRY(words, llama::tokenizer::load(llama::folder_of(given.path), config.vocabulary));
  ECQ_TRY(prompt, prompt_tokens(given.prompt, words, config));
  llama::thread_pool pool(given.common.threads);
  llama::forward_pass pass(model, pool);
  // In text, the tokens themselves show how far it is.
  tool::progress_bar bar(given.common.quiet || !given.common.as_json, "tokens");
  llama::text_stream shown(std::cout);
  const auto show = [&](std::span<const std::uint32_t> tokens) {
    bar.update({"generating", "", tokens.size(), given.how.tokens});
    if (given.common.as_json) return;
    if (tokens.size() == 1) shown.add(given.prompt);
    shown.add(words.decode(tokens.last(1)));
  };
  ECQ_TRY(made, tool::naming(given.path, llama::generate(pass, config, prompt, given.how, show)));
  bar.clear();
  // The first token comes with the prompt.
  const double speed = rate(made.tokens.empty() ? 0 : made.tokens.size() - 1, made.seconds);
  if (given.common.as_json) {
    tool::json answer{{"model", given.path},
                      {"mode", given.mode},
                      {"activations", given.activations},
                      {"prompt_tokens", prompt},
                      {"tokens", made.tokens},
                      {"text", words.decode(made.tokens)},
                      {"stop", made.stop},
                      {"prompt_seconds", made.prompt_seconds},
                      {"seconds", made.seconds},
                      {"tokens_per_second", speed},
                      {"cache_bytes", made.cache_bytes}};
    answer.update(memory_json(model));
    tool::print(std::move(answer));
  } else {
    if (made.tokens.empty()) shown.add(given.prompt);
    shown.end();
    if (!given.common.quiet) {
      std::cout << '\n'
                << made.tokens.size() << " tokens, " << tool::significant(speed, 3) << " a second after a prompt of "
                << prompt.size() << " in " << tool::duration(made.prompt_seconds) << "; " << memory_text(model) << '\n';
    }
  }
  return {};
}

struct perplexity_arguments : model_options {
  std::string file;
  bool tokens_u16 = false;
  llama::perplexity_options how;
};

ecq::result<std::vector<std::uint32_t>> tokens_of_file(const perplexity_arguments& given, std::size_t vocabulary) {
  if (given.tokens_u16) return llama::read_tokens_u16(given.file);
  ECQ_TRY(words, llama::tokenizer::load(llama::folder_of(given.path), vocabulary));
  ECQ_TRY(file, ecq::mapped_file::open(given.file));
  const auto bytes = file.bytes();
  return tool::naming(given.file, words.encode({reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
}

ecq::result<void> perplexity(const perplexity_arguments& given) {
  ECQ_TRY(model, open_model(given));
  ECQ_TRY(tokens, tokens_of_file(given, model.config().vocabulary));
  llama::thread_pool pool(given.common.threads);
  llama::forward_pass pass(model, pool);
  tool::progress_bar bar(given.common.quiet, "tokens");
  const auto report_progress = [&](std::size_t done, std::size_t all) {
    bar.update({"predicting", "", done * given.how.window, all * given.how.window});
  };
  ECQ_TRY(measured, tool::naming(given.file, llama::measure_perplexity(pass, pool, model.config(), tokens, given.how,
                                                                       report_progress)));
  bar.clear();
  const double speed = rate(measured.predictions, measured.seconds);
  if (given.common.as_json) {
    tool::json answer{
        {"model", given.path},         {"mode", given.mode},         {"activations", given.activations},
        {"file", given.file},          {"loss", measured.loss},      {"perplexity", measured.perplexity()},
        {"windows", measured.windows}, {"window", given.how.window}, {"predictions", measured.predictions},
        {"seconds", measured.seconds}, {"tokens_per_second", speed}};
    answer.update(memory_json(model));
    tool::print(std::move(answer));
  } else if (!given.common.quiet) {
    std::cout << "loss " << tool::decimal(measured.loss, 4) << " nats a token (perplexity "
              << tool::significant(measured.perplexity(), 4) << ") over " << tool::grouped(measured.predictions)
              << " predictions in " << measured.windows << " windows; " << tool::significant(speed, 3)
              << " tokens a second, " << memory_text(model) << '\n';
  }
  return {};
}

struct super_weights_arguments : model_options {
  std::string text = "The quick brown fox jumps over the lazy dog.";
  std::string output;
  llama::super_weight_options how;
};

/// Opens a file that will hold what was found in the model at `path`. Errors: those of ecq::output_file::create and
/// ecq::refuse_to_overwrite.
ecq::result<ecq::output_file> open_list(const std::string& path, const std::string& output) {
  ECQ_TRY(files, ecq::model_files::of(path));
  std::vector<std::filesystem::path> inputs{files.folder / "config.json", files.folder / "tokenizer.json"};
  if (!files.index.empty()) inputs.push_back(files.folder / files.index);
  for (const auto& shard : files.shards) inputs.push_back(files.folder / shard);
  ECQ_CHECK(ecq::refuse_to_overwrite(output, inputs));
  return ecq::output_file::create(output);
}

ecq::result<void> write_list(ecq::output_file& list, const tool::json& content) {
  const std::string text = content.dump() + "\n";
  ECQ_CHECK(list.append(std::as_bytes(std::span(text))));
  return list.commit();
}

/// Pairs of row and column by the name of their tensor.
tool::json list_of(std::span<const llama::super_weight> weights) {
  tool::json list = tool::json::object();
  for (const llama::super_weight& one : weights) {
    list[llama::tensor_name(one.layer, llama::projection::down)].push_back({one.row, one.column});
  }
  return list;
}

tool::json details_of(std::span<const llama::super_weight> weights) {
  tool::json details = tool::json::array();
  for (const llama::super_weight& one : weights) {
    details.push_back({{"tensor", llama::tensor_name(one.layer, llama::projection::down)},
                       {"row", one.row},
                       {"column", one.column},
                       {"weight", one.weight},
                       {"input", one.input},
                       {"output", one.output}});
  }
  return details;
}

tool::table as_table(const llama::super_weights& seen) {
  tool::table shown({"tensor", "row", "column", "weight", "|input|", "|output|"}, 1);
  const auto add = [&](const llama::super_weight& one) {
    const auto number = [](float value) { return tool::significant(static_cast<double>(value), 4); };
    shown.add({llama::tensor_name(one.layer, llama::projection::down), std::to_string(one.row),
               std::to_string(one.column), number(one.weight), number(one.input), number(one.output)});
  };
  for (const llama::super_weight& one : seen.found) add(one);
  if (!seen.found.empty() && !seen.others.empty()) shown.rule();
  for (const llama::super_weight& one : seen.others) add(one);
  return shown;
}

ecq::result<void> find_super_weights(const super_weights_arguments& given) {
  if (given.text.empty()) return ecq::error(ecq::errc::invalid_argument, "--text: no text");
  ECQ_TRY(model, open_model(given));
  ECQ_TRY(words, llama::tokenizer::load(llama::folder_of(given.path), model.config().vocabulary));
  ECQ_TRY(prompt, prompt_tokens(given.text, words, model.config()));
  std::optional<ecq::output_file> list;
  if (!given.output.empty()) {
    ECQ_TRY(opened, open_list(given.path, given.output));
    list.emplace(std::move(opened));
  }
  llama::thread_pool pool(given.common.threads);
  ECQ_TRY(seen, tool::naming(given.path, llama::find_super_weights(model, pool, prompt, given.how)));
  if (list) ECQ_CHECK(write_list(*list, list_of(seen.found)));
  if (given.common.as_json) {
    tool::print({{"model", given.path},
                 {"mode", given.mode},
                 {"activations", given.activations},
                 {"threshold", given.how.threshold},
                 {"prompt_tokens", prompt},
                 {"super_weights", details_of(seen.found)},
                 {"others", details_of(seen.others)}});
    return {};
  }
  if (!seen.found.empty() || !seen.others.empty()) std::cout << as_table(seen);
  if (!given.common.quiet) {
    std::cout << seen.found.size() << (seen.found.size() == 1 ? " super weight" : " super weights")
              << ", whose input and output exceed " << tool::significant(given.how.threshold, 4) << " in a text of "
              << prompt.size() << " tokens\n";
  }
  return {};
}

struct calibrate_arguments {
  std::string path, output;
  llama::calibration_options how;
  tool::common_options common;
};

ecq::result<void> calibrate(const calibrate_arguments& given) {
  tool::progress_bar bar(given.common.quiet);
  ECQ_TRY(model, tool::naming(given.path, llama::model::open(given.path, llama::weight_mode::dense,
                                                             given.common.backend(), bar.callback())));
  ECQ_TRY(words, llama::tokenizer::load(llama::folder_of(given.path), model.config().vocabulary));
  ECQ_TRY(prompt, prompt_tokens("", words, model.config()));
  ECQ_TRY(list, open_list(given.path, given.output));
  llama::thread_pool pool(given.common.threads);
  llama::calibration_options how = given.how;
  how.window = (std::min)({how.window, model.config().positions, llama::forward_pass::most_tokens});
  tool::progress_bar steps(given.common.quiet, "steps");
  const auto start = std::chrono::steady_clock::now();
  ECQ_TRY(measured,
          tool::naming(given.path, llama::calibrate(model, pool, prompt, how,
                                                    [&](std::string_view stage, std::size_t done, std::size_t total) {
                                                      steps.update({stage, "", done, total});
                                                    })));
  steps.clear();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  tool::json content = tool::json::object(), details = tool::json::array();
  tool::table shown({"tensor", "relative error", "divergence", "sensitivity"}, 1);
  for (const llama::matrix_sensitivity& one : measured) {
    const std::string name = llama::tensor_name(one.layer, one.which);
    content[name] = one.sensitivity;
    details.push_back({{"tensor", name},
                       {"relative_error", one.relative_error},
                       {"divergence", one.divergence},
                       {"sensitivity", one.sensitivity}});
    shown.add({name, tool::significant(one.relative_error, 3), tool::significant(one.divergence, 3),
               tool::significant(one.sensitivity, 3)});
  }
  ECQ_CHECK(write_list(list, content));
  if (given.common.as_json) {
    tool::print({{"model", given.path}, {"tensors", details}, {"seconds", seconds}});
  } else if (!given.common.quiet) {
    std::cout << shown << given.output << ": sensitivities of " << measured.size() << " tensors, in "
              << tool::duration(seconds) << '\n';
  }
  return {};
}

void add_generate(CLI::App& app, tool::action& chosen) {
  auto* const command = app.add_subcommand("generate", "Continue a text");
  const auto given = std::make_shared<generate_arguments>();
  add_model_options(*command, *given);
  command->add_option("--prompt", given->prompt, "The text; without one, the token that begins texts, or a line end");
  command->add_option("--tokens", given->how.tokens, "How many tokens at most")
      ->check(tool::number_between(0, 1e9))
      ->capture_default_str();
  command->add_option("--temperature", given->how.temperature, "0: always the likeliest token")
      ->check(tool::number_between(0, 1e6))
      ->capture_default_str();
  command->add_option("--seed", given->how.seed, "Of the random choice of tokens")->capture_default_str();
  command->callback([given, &chosen] { chosen = [given] { return generate(*given); }; });
}

void add_perplexity(CLI::App& app, tool::action& chosen) {
  auto* const command = app.add_subcommand("perplexity", "Measure how well a model predicts a text");
  const auto given = std::make_shared<perplexity_arguments>();
  add_model_options(*command, *given);
  command->add_option("FILE", given->file, "The text")->required();
  command->add_flag("--tokens-u16", given->tokens_u16, "FILE holds tokens: little-endian numbers of 16 bits");
  command->add_option("--window", given->how.window, "Predictions from one beginning")
      ->check(tool::number_between(0, 1e9))
      ->capture_default_str();
  command->add_option("--windows", given->how.windows, "How many windows at most; 0: all")
      ->check(tool::number_between(0, 1e9))
      ->capture_default_str();
  command->callback([given, &chosen] { chosen = [given] { return perplexity(*given); }; });
}

void add_super_weights(CLI::App& app, tool::action& chosen) {
  auto* const command = app.add_subcommand(
      "super-weights", "Find weights of down projections whose input and output are far above all others");
  const auto given = std::make_shared<super_weights_arguments>();
  add_model_options(*command, *given);
  command
      ->add_option("--threshold", given->how.threshold,
                   "A weight of a down projection is super if the magnitudes of its input and its output exceed this")
      ->check(tool::number_between(0, 1e30))
      ->capture_default_str();
  command->add_option("--text", given->text, "What the model reads")->capture_default_str();
  command->add_option("--top", given->how.others, "Show so many of the strongest that stay below the threshold, too")
      ->check(tool::number_between(0, 1e6))
      ->capture_default_str();
  command
      ->add_option("-o,--output", given->output,
                   "Write them to this file, as JSON: [row, column] pairs by the name of their tensor")
      ->check(tool::seekable_name());
  command->callback([given, &chosen] { chosen = [given] { return find_super_weights(*given); }; });
}

void add_calibrate(CLI::App& app, tool::action& chosen) {
  auto* const command = app.add_subcommand(
      "calibrate", "Measure how much the predictions depend on each matrix, for 'ecq compress --sensitivity'");
  const auto given = std::make_shared<calibrate_arguments>();
  command->add_option("MODEL", given->path, "Folder with config.json and weights, plain or compressed by ecq")
      ->required();
  command->add_option("-o,--output", given->output, "File for the sensitivities, as JSON by the names of tensors")
      ->check(tool::seekable_name())
      ->required();
  command
      ->add_option("--tokens", given->how.tokens,
                   "Text that the model writes, and then reads once for each matrix and once for each layer")
      ->check(tool::number_between(1, 1e9))
      ->capture_default_str();
  command->add_option("--window", given->how.window, "Tokens of each text, at most the context and 1024")
      ->check(tool::number_between(2, 1e9))
      ->capture_default_str();
  command->add_option("--seed", given->how.seed, "Seed of the texts")
      ->check(tool::number_between(0, 1e15))
      ->capture_default_str();
  tool::add_common_options(*command, given->common);
  command->callback([given, &chosen] { chosen = [given] { return calibrate(*given); }; });
}

void add_all(CLI::App& app, tool::action& chosen) {
  add_generate(app, chosen);
  add_perplexity(app, chosen);
  add_super_weights(app, chosen);
  add_calibrate(app, chosen);
}

}  // namespace

int main(int argc, char** argv) {
  return tool::program("ecq-llama",
                       "Runs a Llama-shaped model from weights that ecq has compressed, or from plain ones.")
      .run(argc, argv, add_all);
}
