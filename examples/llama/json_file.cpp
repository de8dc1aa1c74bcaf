// Reads JSON files of other programs. Unexpected content is an error that names it.

#include "json_file.hpp"

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "ecq/io/limits.hpp"
#include "ecq/io/mapped_file.hpp"

namespace llama {

namespace {

/// Returns the text with NaN, Infinity and -Infinity, which JSON does not have, as strings. Members that need a number
/// then reject them by name, and all others stay readable.
std::string with_quoted_words(std::string_view text) {
  std::string quoted;
  bool in_string = false;
  for (std::size_t at = 0; at < text.size();) {
    const auto rest = text.substr(at);
    std::size_t length = in_string && rest[0] == '\\' ? 2 : 1;
    bool is_word = false;
    for (const std::string_view word : {"NaN", "Infinity", "-Infinity"}) {
      if (in_string || !rest.starts_with(word)) continue;
      length = word.size();
      is_word = true;
    }
    if (rest[0] == '"') in_string = !in_string;
    if (is_word) quoted += '"';
    quoted += rest.substr(0, length);
    if (is_word) quoted += '"';
    at += length;
  }
  return quoted;
}

/// Whether arrays and objects lie deeper in each other than any config has them. Copying and printing of JSON recurse.
bool is_too_deep(std::string_view text) {
  constexpr std::size_t deepest = 64;
  std::size_t depth = 0;
  bool in_string = false;
  for (std::size_t at = 0; at < text.size() && depth <= deepest; ++at) {
    const char next = text[at];
    if (next == '"') in_string = !in_string;
    if (in_string && next == '\\') ++at;
    if (in_string) continue;
    if (next == '[' || next == '{') ++depth;
    if ((next == ']' || next == '}') && depth > 0) --depth;
  }
  return depth > deepest;
}

}  // namespace

ecq::result<json> parse_json_object(std::string_view text) {
  if (is_too_deep(text)) return ecq::error(ecq::errc::corrupt, "is JSON nested more than 64 levels deep");
  json parsed = json::parse(text, nullptr, false);
  if (parsed.is_discarded()) parsed = json::parse(with_quoted_words(text), nullptr, false);
  if (parsed.is_discarded()) return ecq::error(ecq::errc::corrupt, "is not JSON");
  if (!parsed.is_object()) return ecq::error(ecq::errc::corrupt, "is not a JSON object");
  return parsed;
}

ecq::result<json> read_json_object(const std::filesystem::path& path) {
  ECQ_TRY(file, ecq::mapped_file::open(path));
  const auto bytes = file.bytes();
  if (bytes.size() > ecq::file_limits::header_bytes) {
    return ecq::error(ecq::errc::limit_exceeded, "'", path.string(), "': ", bytes.size(),
                      " bytes, more than the limit of ", ecq::file_limits::header_bytes);
  }
  auto parsed = parse_json_object({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  if (!parsed) return std::move(parsed).error().within("'", path.string(), "'");
  return parsed;
}

const json* find_member(const json& object, const char* name) {
  const auto found = object.find(name);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

std::optional<std::uint64_t> natural_of(const json& value) {
  if (value.is_number_unsigned()) return value.get<std::uint64_t>();
  if (!value.is_number_integer() || value.get<std::int64_t>() < 0) return std::nullopt;
  return static_cast<std::uint64_t>(value.get<std::int64_t>());
}

ecq::result<std::uint64_t> integer_member(const json& object, const char* name, std::uint64_t low, std::uint64_t high,
                                          std::optional<std::uint64_t> otherwise) {
  const json* found = find_member(object, name);
  if (found == nullptr && otherwise) return *otherwise;
  if (found == nullptr) return ecq::error(ecq::errc::not_found, name, " is missing");
  if (const auto value = natural_of(*found); value && *value >= low && *value <= high) return *value;
  return ecq::error(ecq::errc::corrupt, name, ": not an integer from ", low, " to ", high);
}

ecq::result<double> positive_member(const json& object, const char* name, double otherwise) {
  const json* found = find_member(object, name);
  if (found == nullptr) return otherwise;
  const double value = found->is_number() ? found->get<double>() : 0.0;
  if (std::isfinite(value) && value > 0) return value;
  return ecq::error(ecq::errc::corrupt, name, ": not a finite number above 0");
}

ecq::result<bool> flag_member(const json& object, const char* name, bool otherwise) {
  const json* found = find_member(object, name);
  if (found == nullptr) return otherwise;
  if (found->is_boolean()) return found->get<bool>();
  return ecq::error(ecq::errc::corrupt, name, ": neither true nor false");
}

std::string_view text_member(const json& object, const char* name) {
  const json* found = find_member(object, name);
  return found != nullptr && found->is_string() ? std::string_view(found->get_ref<const std::string&>()) : "";
}

}  // namespace llama
