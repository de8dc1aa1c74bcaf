#pragma once
/// \file
/// Reads JSON files of other programs, and members of them that must be as expected.

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string_view>

#include "ecq/base/result.hpp"

namespace llama {

using json = nlohmann::json;

/// Parses a JSON object. NaN, Infinity and -Infinity, which programs in Python write, become strings of that text.
/// Errors: ecq::errc::corrupt for anything else.
ecq::result<json> parse_json_object(std::string_view text);

/// Reads the JSON object in the file at `path`. Errors name the file.
ecq::result<json> read_json_object(const std::filesystem::path& path);

/// Returns the member `name` of an object, or null if it is missing or JSON's null.
const json* find_member(const json& object, const char* name);

/// Returns the value of an integer that is not negative; nothing for anything else.
std::optional<std::uint64_t> natural_of(const json& value);

/// Returns the member `name`, an integer from `low` to `high`; `otherwise` if it is missing. Errors name the member:
/// ecq::errc::not_found if it is missing and there is no `otherwise`, ecq::errc::corrupt if it is no such integer.
ecq::result<std::uint64_t> integer_member(const json& object, const char* name, std::uint64_t low, std::uint64_t high,
                                          std::optional<std::uint64_t> otherwise = {});

/// Returns the member `name`, a finite number above zero; `otherwise` if it is missing. Errors name the member.
ecq::result<double> positive_member(const json& object, const char* name, double otherwise);

/// Returns the member `name`, true or false; `otherwise` if it is missing. Errors name the member.
ecq::result<bool> flag_member(const json& object, const char* name, bool otherwise = false);

/// Returns the member `name`, a string; an empty one if it is missing or something else.
std::string_view text_member(const json& object, const char* name);

}  // namespace llama
