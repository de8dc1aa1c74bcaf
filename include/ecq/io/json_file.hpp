#pragma once
/// \file
/// Reading of JSON files, each with its own schema.

#include <filesystem>
#include <string_view>
#include <utility>

#include "ecq/base/result.hpp"
#include "ecq/io/limits.hpp"
#include "ecq/io/mapped_file.hpp"
#include "ecq/io/output_file.hpp"

namespace ecq {

/// Returns parse(text), a result, for the text of a file. Errors name the file: those of mapped_file::open and of
/// `parse`, and errc::limit_exceeded for more than file_limits::header_bytes.
template <class Parse>
auto parse_json_file(const std::filesystem::path& path, const Parse& parse) -> decltype(parse(std::string_view())) {
  ECQ_TRY(file, mapped_file::open(path));
  const auto bytes = file.bytes();
  if (bytes.size() > file_limits::header_bytes) {
    return error(errc::limit_exceeded, detail::quoted(path), ": ", bytes.size(),
                 " bytes of JSON, more than the limit of ", file_limits::header_bytes);
  }
  auto parsed = parse(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  if (!parsed) return std::move(parsed).error().within(detail::quoted(path));
  return parsed;
}

}  // namespace ecq
