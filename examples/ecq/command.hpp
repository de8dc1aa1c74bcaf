#pragma once
/// \file
/// Common code of the tool's commands: their declaration, their common options and their output.

#include <CLI/CLI.hpp>
#include <cmath>
#include <filesystem>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "ecq/base/backend.hpp"
#include "ecq/base/result.hpp"
#include "ecq/base/utf8.hpp"
#include "ecq/io/checkpoint.hpp"
#include "ecq/io/output_file.hpp"

namespace tool {

using json = nlohmann::ordered_json;

/// The action that the command line asks for; runs once the whole command line is known to be right.
using action = std::function<ecq::result<void>()>;

/// Options of every command.
struct common_options {
  bool as_json = false;
  bool quiet = false;
  unsigned threads = 0;

  ecq::cpu backend() const { return {.threads = threads}; }
};

/// Each declares a command: it adds its subcommand to `app`, which sets `chosen` when it is the one given.
void add_compress(CLI::App& app, action& chosen);
void add_lambda(CLI::App& app, action& chosen);
void add_decompress(CLI::App& app, action& chosen);
void add_inspect(CLI::App& app, action& chosen);
void add_verify(CLI::App& app, action& chosen);
void add_compare(CLI::App& app, action& chosen);
void add_generate(CLI::App& app, action& chosen);

inline void add_common_options(CLI::App& command, common_options& options) {
  command.add_flag("--json", options.as_json,
                   "Answer with JSON on stdout, and nothing else there; numbers that are not finite are strings");
  command.add_flag("-q,--quiet", options.quiet, "No progress bar and no summary");
  command.add_option("--threads", options.threads, "Threads; 0 = one a core. The result does not depend on it")
      ->check(CLI::Range(0U, 1024U))
      ->capture_default_str();
}

/// Accepts numbers from `low` to `high`, but not NaN, which CLI::Range lets pass.
inline CLI::Validator number_between(double low, double high) {
  return CLI::Validator(
      [low, high](std::string& text) {
        double value = 0;
        const bool number = CLI::detail::lexical_cast(text, value);
        if (number && value >= low && value <= high) return std::string();
        return text + " is not a number from " + CLI::detail::to_string(low) + " to " + CLI::detail::to_string(high);
      },
      "", "");
}

/// Numbers that are not finite, for which JSON has no notation, become the strings "inf", "-inf" and "nan".
inline void name_non_finite(json& value) {
  if (value.is_structured()) {
    for (json& member : value) name_non_finite(member);
  } else if (value.is_number_float() && !std::isfinite(value.get<double>())) {
    const auto number = value.get<double>();
    value = std::isnan(number) ? "nan" : number > 0 ? "inf" : "-inf";
  }
}

/// Prints JSON, in ASCII: names in a hostile file could steer a terminal otherwise. In strings that are not UTF-8,
/// invalid bytes become U+FFFD.
inline void print(json answer) {
  name_non_finite(answer);
  std::cout << answer.dump(2, ' ', true, json::error_handler_t::replace) << '\n';
}

/// Returns `outcome`; its error, if any, names the file.
template <class Value>
ecq::result<Value> naming(const std::string& file, ecq::result<Value> outcome) {
  if (outcome || outcome.error().message().find(ecq::printable(file)) != std::string::npos) return outcome;
  return std::move(outcome).error().within("'", file, "'");
}

/// Whether the output of a model in several files is a folder: unless it is called like one file.
inline bool is_for_folder(const std::filesystem::path& input, const std::filesystem::path& output) {
  std::error_code ignored;
  const bool of_files = input.extension() == ".json" || std::filesystem::is_directory(input, ignored);
  return of_files && output.extension() != ".safetensors";
}

/// Refuses "-" as the name of an output.
inline CLI::Validator seekable_name() {
  return CLI::Validator(
      [](std::string& name) {
        if (name != "-") return std::string();
        return std::string(
            "standard output cannot be sought in, as writing a checkpoint needs, or replaced as a whole; name a file "
            "('./-' is one called '-')");
      },
      "", "");
}

/// Opens the file of a picture about `model`, if one has a name. Errors are those of ecq::output_file::create and
/// ecq::refuse_to_overwrite.
inline ecq::result<std::optional<ecq::output_file>> open_picture(const std::string& name,
                                                                 const ecq::checkpoint& model) {
  if (name.empty()) return std::optional<ecq::output_file>();
  ECQ_CHECK(ecq::refuse_to_overwrite(name, model.files()));
  ECQ_TRY(file, ecq::output_file::create(name));
  return std::optional<ecq::output_file>(std::move(file));
}

/// Gives a file its whole content and its name. Errors: those of ecq::output_file.
inline ecq::result<void> commit(ecq::output_file& file, std::string_view content) {
  ECQ_CHECK(file.append(std::as_bytes(std::span(content))));
  return file.commit();
}

}  // namespace tool
