#pragma once
/// \file
/// Explanations of wrong command lines, with suggestions.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstddef>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tool {

/// Returns the least number of characters to insert, delete, replace or swap with their neighbour that turns `left`
/// into `right`.
inline std::size_t edit_distance(std::string_view left, std::string_view right) {
  std::vector<std::size_t> before, above(right.size() + 1), row(right.size() + 1);
  std::iota(above.begin(), above.end(), std::size_t{0});
  for (std::size_t at = 1; at <= left.size(); ++at) {
    row[0] = at;
    for (std::size_t to = 1; to <= right.size(); ++to) {
      const bool same = left[at - 1] == right[to - 1];
      row[to] = (std::min)({above[to] + 1, row[to - 1] + 1, above[to - 1] + (same ? 0U : 1U)});
      if (at > 1 && to > 1 && left[at - 1] == right[to - 2] && left[at - 2] == right[to - 1]) {
        row[to] = (std::min)(row[to], before[to - 2] + 1);
      }
    }
    before = std::exchange(above, row);
  }
  return above.back();
}

/// Returns the one of `words` that `typed` most likely stands for: it begins with `typed`, or at most a third of the
/// characters differ. Returns nothing if there is none.
inline std::optional<std::string> nearest(std::string_view typed, const std::vector<std::string>& words) {
  std::optional<std::string> found;
  std::size_t least = (std::max)(typed.size() / 3, std::size_t{1}) + 1;
  for (const std::string& word : words) {
    const bool begun = typed.size() > 1 && word.size() > typed.size() && word.starts_with(typed);
    const std::size_t distance = begun ? 1 : edit_distance(typed, word);
    if (distance >= least) continue;
    least = distance;
    found = word;
  }
  return found;
}

/// Returns the long names of a command's options, with their dashes.
inline std::vector<std::string> option_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

namespace detail {

inline bool looks_like_option(std::string_view word) {
  return word.size() > 1 && word[0] == '-' && word.find_first_of("0123456789.") != 1;
}

inline std::string with_suggestion(const std::string& typed, std::string_view kind,
                                   const std::vector<std::string>& words) {
  const auto meant = nearest(typed, words);
  return typed + (meant ? ": did you mean " + *meant + "?" : ": no such " + std::string(kind));
}

}  // namespace detail

/// Returns one line about a wrong command line, without "ecq: ": the mistake, the intended word if it can be guessed,
/// and the command whose help explains it. `app` has parsed the line and thrown `wrong`.
inline std::string explanation(const CLI::App& app, const CLI::ParseError& wrong) {
  const std::vector<CLI::App*> given = app.get_subcommands();
  const std::string hint =
      " (see " + app.get_name() + (given.empty() ? "" : " " + given.front()->get_name()) + " --help)";
  const int kind = wrong.get_exit_code();
  // A missing option may have been misspelt.
  const bool left_over =
      kind == static_cast<int>(CLI::ExitCodes::ExtrasError) || kind == static_cast<int>(CLI::ExitCodes::RequiredError);
  const auto find_option = [](const std::vector<std::string>& words) -> std::string {
    const auto found = std::find_if(words.begin(), words.end(), detail::looks_like_option);
    return found == words.end() ? "" : found->substr(0, found->find('='));
  };
  if (left_over && given.empty()) {
    const std::vector<std::string> words = app.remaining();
    if (!words.empty() && detail::looks_like_option(words.front())) {
      return "invalid option: " + detail::with_suggestion(words.front(), "option", option_names(app)) + hint;
    }
    if (!words.empty()) {
      std::vector<std::string> commands;
      for (const CLI::App* command : app.get_subcommands({})) commands.push_back(command->get_name());
      return "invalid command: " + detail::with_suggestion(words.front(), "command", commands) + hint;
    }
  } else if (left_over) {
    const std::vector<std::string> names = option_names(*given.front());
    if (const std::string typed = find_option(given.front()->remaining()); !typed.empty()) {
      return "invalid option: " + detail::with_suggestion(typed, "option", names) + hint;
    }
    if (const std::string typed = find_option(app.remaining()); std::count(names.begin(), names.end(), typed) != 0) {
      return "invalid option: " + typed + " belongs after the command" + hint;
    }
  }
  return "invalid option: " + std::string(wrong.what()) + hint;
}

}  // namespace tool
