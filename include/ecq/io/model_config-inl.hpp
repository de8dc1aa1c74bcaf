#pragma once
/// \file
/// Definition of what is read from config.json.

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
  json_reader json(text);
  ECQ_CHECK(json.object([&](const std::string& key) -> result<void> {
    if (key != "quantization_config" || !json.next_is('{')) return json.skip();
    ECQ_TRY(config, detail::read_members_of_quantization(json));
    found = std::move(config);
    return {};
  }));
  ECQ_CHECK(json.finish());
  return found;
}

ECQ_INLINE result<std::string> without_quantization_config(std::string_view text) {
  json_reader json(text);
  std::size_t before = 0, begin = 0, end = 0;  // of the member before, and of the one to leave out
  bool first = true, found = false, followed = false;
  ECQ_CHECK(json.object([&](const std::string& key) -> result<void> {
    if (found && !followed) {
      followed = true;
      // Without a member before it, the comma behind it goes, too.
      if (begin == 0) end = text.find(',', end) + 1;
    }
    const bool leave_out = key == "quantization_config";
    if (leave_out && !first) begin = before;
    if (auto skipped = json.skip(); !skipped) return skipped;
    before = json.position();
    if (leave_out) {
      end = before;
      found = true;
    }
    first = false;
    return {};
  }));
  ECQ_CHECK(json.finish());
  if (!found) return std::string(text);
  if (begin == 0) begin = text.find('{') + 1;
  return std::string(text.substr(0, begin)) + std::string(text.substr(end));
}

ECQ_INLINE result<void> copy_without_quantization_config(const std::filesystem::path& from,
                                                         const std::filesystem::path& to) {
  std::error_code failure;
  if (std::filesystem::is_empty(from / "config.json", failure) && !failure) {  // nothing to map
    return copy_whole_file(from / "config.json", to / "config.json");
  }
  const auto file = mapped_file::open(from / "config.json");
  if (!file) return file.error().code() == errc::not_found ? result<void>() : result<void>(file.error());
  const std::string_view text(reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size());
  const auto changed = without_quantization_config(text);
  const std::string_view written = changed ? std::string_view(*changed) : text;
  ECQ_TRY(copy, output_file::create(to / "config.json"));
  ECQ_CHECK(copy.append(std::as_bytes(std::span(written))));
  return copy.commit();
}

ECQ_INLINE std::optional<quantization_config> read_quantization_config(const std::filesystem::path& folder) {
  const auto file = mapped_file::open(folder / "config.json");
  if (!file || file->bytes().size() > file_limits::header_bytes) return std::nullopt;
  auto parsed = parse_quantization_config({reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size()});
  if (!parsed) return std::nullopt;
  return std::move(*parsed);
}

}  // namespace ecq
