#pragma once
/// \file
/// Common code of the tool's commands: their declaration, their options and their files.

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "answer.hpp"
#include "ecq/base/result.hpp"
#include "ecq/io/output_file.hpp"

namespace tool {

/// Action that the command line asks for. It runs once the whole command line is known to be valid.
using action = std::function<ecq::result<void>()>;

/// Each of these functions declares a command: it adds a subcommand to `app` that sets `chosen` if the command line
/// names it.
void add_compress(CLI::App& app, action& chosen);
void add_lambda(CLI::App& app, action& chosen);
void add_decompress(CLI::App& app, action& chosen);
void add_inspect(CLI::App& app, action& chosen);
void add_verify(CLI::App& app, action& chosen);
void add_compare(CLI::App& app, action& chosen);
void add_generate(CLI::App& app, action& chosen);

inline void add_common_options(CLI::App& command, common_options& options) {
  command.add_flag("--json", options.as_json,
                   "Print JSON, and nothing else, on stdout; numbers that are not finite are strings");
  command.add_flag("-q,--quiet", options.quiet, "Show neither a progress bar nor a summary");
  command
      .add_option("--threads", options.threads, "Number of threads; 0 = one per core. The result does not depend on it")
      ->check(CLI::Range(0U, 1024U))
      ->capture_default_str();
}

/// Whether a number begins with a 0 that CLI11 would take for the sign of an octal number, unlike users.
inline bool looks_octal(std::string_view text) {
  return text.size() > 1 && text[0] == '0' && text[1] >= '0' && text[1] <= '9';
}

/// Returns a validator for numbers from `low` to `high`. It rejects NaN, which CLI::Range accepts.
inline CLI::Validator number_between(double low, double high) {
  return CLI::Validator(
      [low, high](std::string& text) {
        double value = 0;
        const bool number = CLI::detail::lexical_cast(text, value);
        if (number && value >= low && value <= high && !looks_octal(text)) return std::string();
        return text + " is not a number from " + CLI::detail::to_string(low) + " to " + CLI::detail::to_string(high);
      },
      "", "");
}

/// Reads a number that is all digits and fits `Number`; returns whether `text` is one. CLI11 reads -1 as the largest.
template <class Number>
bool read_whole_number(std::string_view text, Number& value) {
  const auto [stop, wrong] = std::from_chars(text.data(), text.data() + text.size(), value);
  return wrong == std::errc() && stop == text.data() + text.size();
}

/// Returns a validator for whole numbers below 2^64.
inline CLI::Validator whole_number() {
  return CLI::Validator(
      [](std::string& text) {
        std::uint64_t value = 0;
        const bool read = read_whole_number(text, value) && !looks_octal(text);
        return read ? std::string() : text + " is not a whole number below 2^64";
      },
      "", "");
}

/// Whether an input is a folder or an index.
inline bool is_of_files(const std::filesystem::path& input) {
  std::error_code ignored;
  return input.extension() == ".json" || std::filesystem::is_directory(input, ignored);
}

/// Whether the output of a model is a folder: it is if the input is a folder or an index, unless the output is named
/// like one file.
inline bool is_for_folder(const std::filesystem::path& input, const std::filesystem::path& output) {
  return is_of_files(input) && output.extension() != ".safetensors";
}

/// Returns a validator that rejects an empty name, as scripts give it if they forget to set a variable.
inline CLI::Validator not_empty() {
  return CLI::Validator([](std::string& name) { return std::string(name.empty() ? "the name is empty" : ""); }, "", "");
}

/// Returns a validator that rejects "-" and an empty name as the name of an output.
inline CLI::Validator seekable_name() {
  return CLI::Validator(
      [](std::string& name) {
        if (name.empty()) return std::string("the name is empty");
        if (name != "-") return std::string();
        return std::string(
            "standard output is neither seekable nor replaceable as a whole; name a file ('./-' for one named '-')");
      },
      "", "");
}

/// Opens the file for a picture of the files `inputs`; returns nothing if `name` is empty. Errors: those of
/// ecq::output_file::create and ecq::refuse_to_overwrite.
inline ecq::result<std::optional<ecq::output_file>> open_picture(const std::string& name,
                                                                 std::span<const std::filesystem::path> inputs) {
  if (name.empty()) return std::optional<ecq::output_file>();
  ECQ_CHECK(ecq::refuse_to_overwrite(name, inputs));
  ECQ_TRY(file, ecq::output_file::create(name));
  return std::optional<ecq::output_file>(std::move(file));
}

}  // namespace tool
