#pragma once
/// \file
/// Code that the commands of programs share: common options, answers and errors. It does not include the library that
/// parses options, which is slow to compile.

#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "ecq/base/backend.hpp"
#include "ecq/base/result.hpp"
#include "ecq/base/utf8.hpp"
#include "ecq/io/output_file.hpp"

namespace tool {

using json = nlohmann::ordered_json;

/// Options that every command has.
struct common_options {
  bool as_json = false;
  bool quiet = false;
  unsigned threads = 0;

  ecq::cpu backend() const { return {.threads = threads}; }
};

/// Replaces numbers that are not finite, for which JSON has no notation, by the strings "inf", "-inf" and "nan".
inline void name_non_finite(json& value) {
  if (value.is_structured()) {
    for (json& member : value) name_non_finite(member);
  } else if (value.is_number_float() && !std::isfinite(value.get<double>())) {
    const auto number = value.get<double>();
    value = std::isnan(number) ? "nan" : number > 0 ? "inf" : "-inf";
  }
}

/// Prints JSON in ASCII, because names in a hostile file could otherwise control a terminal. In strings that are not
/// UTF-8, invalid bytes become U+FFFD.
inline void print(json answer) {
  name_non_finite(answer);
  std::cout << answer.dump(2, ' ', true, json::error_handler_t::replace) << '\n';
}

/// Returns `outcome`; its error, if any, names the file, or one in it if it is a folder.
template <class Value>
ecq::result<Value> naming(const std::string& file, ecq::result<Value> outcome) {
  const auto names = [&](std::string_view last) {
    return outcome.error().message().find("'" + ecq::printable(file) + std::string(last)) != std::string::npos;
  };
  if (outcome || names("'") || names("/") || (file.ends_with('/') && names(""))) return outcome;
  return std::move(outcome).error().within("'", file, "'");
}

/// Writes the whole content of a file and gives the file its name. Errors: those of ecq::output_file.
inline ecq::result<void> commit(ecq::output_file& file, std::string_view content) {
  ECQ_CHECK(file.append(std::as_bytes(std::span(content))));
  return file.commit();
}

}  // namespace tool
