#pragma once
/// \file
/// Definition of the functions that read and change config.json.

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "ecq/base/config.hpp"
#include "ecq/base/result.hpp"
#include "ecq/base/text.hpp"
#include "ecq/io/json.hpp"
#include "ecq/io/limits.hpp"
#include "ecq/io/mapped_file.hpp"
#include "ecq/io/model_config.hpp"
#include "ecq/io/model_files.hpp"
#include "ecq/io/output_file.hpp"

namespace ecq {

namespace detail {

ECQ_INLINE result<quantization_config> read_members_of_quantization(json_reader& json) {
  quantization_config config;
  ECQ_CHECK(json.object([&](const std::string& key) -> result<void> {
    if (key == "quant_method" && json.next_is('"')) {
      ECQ_TRY(method, json.string());
      config.method = std::move(method);
      return {};
    }
    if (key == "weight_block_size" && json.next_is('[')) {
      return json.array([&]() -> result<void> {
        ECQ_TRY(extent, json.integer());
        if (config.block.size() < file_limits::dimensions) config.block.push_back(extent);
        return {};
      });
    }
    return json.skip();
  }));
  return config;
}

}  // namespace detail

ECQ_INLINE result<std::optional<quantization_config>> parse_quantization_config(std::string_view text) {
  std::optional<quantization_config> found;
  json_reader json(text, json_dialect::python);
  ECQ_CHECK(json.object([&](const std::string& key) -> result<void> {
    if (key != "quantization_config" || !json.next_is('{')) return json.skip();
    ECQ_TRY(config, detail::read_members_of_quantization(json));
    found = std::move(config);
    return {};
  }));
  ECQ_CHECK(json.finish());
  return found;
}

namespace detail {

/// Position of `quantization_config` in the text of a config.json.
struct quantization_member {
  std::size_t before = 0;  ///< the end of the member before it; 0 if it is the first one
  std::size_t value = 0;   ///< after the colon; 0 if there is no such member
  std::size_t end = 0;     ///< after the value
  bool is_last = true;

  bool is_there() const noexcept { return value != 0; }
};

ECQ_INLINE result<quantization_member> find_quantization(std::string_view text) {
  quantization_member member;
  json_reader json(text, json_dialect::python);
  std::size_t before = 0;
  ECQ_CHECK(json.object([&](const std::string& key) -> result<void> {
    if (member.is_there()) member.is_last = false;
    const std::size_t value = json.position();
    if (auto skipped = json.skip(); !skipped) return skipped;
    if (key == "quantization_config") member = {before, value, json.position()};
    before = json.position();
    return {};
  }));
  ECQ_CHECK(json.finish());
  return member;
}

inline constexpr std::string_view mark_member = "\n  \"quantization_config\":";
inline constexpr std::string_view mark_value = " {\"format\": \"ecq\"}";
inline constexpr std::string_view mark_around = " {\"format\": \"ecq\", \"original\":";  // then value and brace

}  // namespace detail

ECQ_INLINE result<std::string> without_quantization_config(std::string_view text) {
  ECQ_TRY(member, detail::find_quantization(text));
  if (!member.is_there()) return std::string(text);
  std::size_t begin = member.before, end = member.end;
  if (begin == 0) {
    begin = text.find('{') + 1;
    if (!member.is_last) end = text.find(',', end) + 1;
  }
  return std::string(text.substr(0, begin)) + std::string(text.substr(end));
}

ECQ_INLINE result<std::string> marked_as_compressed(std::string_view text) {
  ECQ_TRY(member, detail::find_quantization(text));
  if (member.is_there()) {
    return detail::text_of(text.substr(0, member.value), detail::mark_around,
                           text.substr(member.value, member.end - member.value), "}", text.substr(member.end));
  }
  const std::size_t last = text.find_last_not_of(" \t\r\n", text.rfind('}') - 1);  // last member's end, or the brace
  return detail::text_of(text.substr(0, last + 1), text[last] == '{' ? "" : ",", detail::mark_member,
                         detail::mark_value, text.substr(last + 1));
}

namespace detail {

/// A `quantization_config` read as a mark of compression, which has no members but `format` and `original`.
struct mark {
  bool is_ours = false;
  std::string_view original{};  ///< text of the member of that name, if there is one
};

ECQ_INLINE result<mark> read_mark(std::string_view value) {
  json_reader json(value, json_dialect::python);
  if (!json.next_is('{')) return mark{};
  mark found;
  bool others = false;
  ECQ_CHECK(json.object([&](const std::string& key) -> result<void> {
    if (key == "format" && json.next_is('"')) {
      ECQ_TRY(format, json.string());
      found.is_ours = format == "ecq";
      return {};
    }
    const std::size_t begin = json.position();
    if (auto skipped = json.skip(); !skipped) return skipped;
    if (key == "original") {
      found.original = value.substr(begin, json.position() - begin);
    } else {
      others = true;
    }
    return {};
  }));
  return others ? mark{} : found;
}

}  // namespace detail

ECQ_INLINE result<std::string> without_mark(std::string_view text) {
  ECQ_TRY(member, detail::find_quantization(text));
  if (!member.is_there()) return std::string(text);
  const std::string_view value = text.substr(member.value, member.end - member.value);
  const std::string_view behind = text.substr(member.end);
  ECQ_TRY(mark, detail::read_mark(value));
  if (!mark.is_ours) return std::string(text);
  std::string_view ahead = text.substr(0, member.value);
  if (!mark.original.empty()) return detail::text_of(ahead, mark.original, behind);
  if (value != detail::mark_value || !ahead.ends_with(detail::mark_member)) return without_quantization_config(text);
  ahead.remove_suffix(detail::mark_member.size());
  if (ahead.ends_with(',')) ahead.remove_suffix(1);
  return detail::text_of(ahead, behind);
}

ECQ_INLINE result<output_file> copy_of_config(const std::filesystem::path& from, const std::filesystem::path& to,
                                              result<std::string> (*change)(std::string_view)) {
  const auto file = mapped_file::open(from / "config.json");
  // An empty file cannot be mapped, but is no error.
  if (!file) return copy_of(from / "config.json", to / "config.json");
  const auto changed = change({reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size()});
  if (!changed) return copy_of(from / "config.json", to / "config.json");
  std::error_code failure;
  const auto original = std::filesystem::status(from / "config.json", failure);
  ECQ_TRY(copy,
          output_file::create(to / "config.json", failure ? std::nullopt : std::optional(original.permissions())));
  ECQ_CHECK(copy.append(std::as_bytes(std::span(*changed))));
  ECQ_CHECK(copy.flush());
  return std::move(copy);
}

ECQ_INLINE std::optional<quantization_config> read_quantization_config(const std::filesystem::path& folder) {
  const auto file = mapped_file::open(folder / "config.json");
  if (!file || file->bytes().size() > file_limits::header_bytes) return std::nullopt;
  auto parsed = parse_quantization_config({reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size()});
  if (!parsed) return std::nullopt;
  return std::move(*parsed);
}

}  // namespace ecq
