#pragma once
/// \file
/// JSON files of other people, and members of them that have to be as expected.

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "ecq/base/result.hpp"
#include "ecq/io/limits.hpp"
#include "ecq/io/mapped_file.hpp"

namespace llama {

using json = nlohmann::json;

/// Parses an object. Errors: ecq::errc::corrupt for anything else, NaN and infinity included, which JSON does not have.
inline ecq::result<json> parse_json_object(std::string_view text) {
  json parsed = json::parse(text, nullptr, false);
  if (parsed.is_discarded()) return ecq::error(ecq::errc::corrupt, "is not JSON");
  if (!parsed.is_object()) return ecq::error(ecq::errc::corrupt, "is not a JSON object");
  return parsed;
}

/// Reads the JSON object in the file at `path`. Errors name the file.
inline ecq::result<json> read_json_object(const std::filesystem::path& path) {
  ECQ_TRY(file, ecq::mapped_file::open(path));
  const auto bytes = file.bytes();
  const std::string label = "'" + path.string() + "'";
  if (bytes.size() > ecq::file_limits::header_bytes) {
    return ecq::error(ecq::errc::limit_exceeded, label, ": ", bytes.size(), " bytes, at most ",
                      ecq::file_limits::header_bytes, " are read");
  }
  auto parsed = parse_json_object({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  if (!parsed) return std::move(parsed).error().within(label);
  return parsed;
}

/// The member `name` of an object, or null if it is missing or JSON's null.
inline const json* find_member(const json& object, const char* name) {
  const auto found = object.find(name);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

/// The value of an integer that is not negative; nothing for anything else.
inline std::optional<std::uint64_t> natural_of(const json& value) {
  if (value.is_number_unsigned()) return value.get<std::uint64_t>();
  if (!value.is_number_integer() || value.get<std::int64_t>() < 0) return std::nullopt;
  return static_cast<std::uint64_t>(value.get<std::int64_t>());
}

/// The member `name`, an integer from `low` to `high`; `otherwise` if it is missing. Errors name the member:
/// ecq::errc::not_found if it is missing and there is nothing else, ecq::errc::corrupt if it is no such integer.
inline ecq::result<std::uint64_t> integer_member(const json& object, const char* name, std::uint64_t low,
                                                 std::uint64_t high, std::optional<std::uint64_t> otherwise = {}) {
  const json* found = find_member(object, name);
  if (found == nullptr && otherwise) return *otherwise;
  if (found == nullptr) return ecq::error(ecq::errc::not_found, name, " is missing");
  if (const auto value = natural_of(*found); value && *value >= low && *value <= high) return *value;
  return ecq::error(ecq::errc::corrupt, name, ": not an integer from ", low, " to ", high);
}

/// The member `name`, a finite number above zero; `otherwise` if it is missing. Errors name the member.
inline ecq::result<double> positive_member(const json& object, const char* name, double otherwise) {
  const json* found = find_member(object, name);
  if (found == nullptr) return otherwise;
  const double value = found->is_number() ? found->get<double>() : 0.0;
  if (std::isfinite(value) && value > 0) return value;
  return ecq::error(ecq::errc::corrupt, name, ": not a finite number above 0");
}

/// The member `name`, true or false; false if it is missing. Errors name the member.
inline ecq::result<bool> flag_member(const json& object, const char* name) {
  const json* found = find_member(object, name);
  if (found == nullptr) return false;
  if (found->is_boolean()) return found->get<bool>();
  return ecq::error(ecq::errc::corrupt, name, ": neither true nor false");
}

/// The member `name`, a string; empty if it is missing or something else.
inline std::string_view text_member(const json& object, const char* name) {
  const json* found = find_member(object, name);
  return found != nullptr && found->is_string() ? std::string_view(found->get_ref<const std::string&>()) : "";
}

}  // namespace llama
