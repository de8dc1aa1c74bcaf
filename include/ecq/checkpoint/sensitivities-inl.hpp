#pragma once
/// \file
/// Definition of the sensitivities of tensors.

#include <filesystem>
#include <locale>
#include <new>
#include <sstream>
#include <string>
#include <string_view>

#include "ecq/base/config.hpp"
#include "ecq/base/result.hpp"
#include "ecq/checkpoint/sensitivities.hpp"
#include "ecq/io/json.hpp"
#include "ecq/io/json_file.hpp"

namespace ecq {

ECQ_INLINE result<sensitivity_map> parse_sensitivities(std::string_view text) {
  try {
    sensitivity_map sensitivities;
    json_reader json(text);
    ECQ_CHECK(json.object([&](const std::string& tensor) -> result<void> {
      ECQ_TRY(digits, json.number_text());
      std::istringstream in{std::string(digits)};
      in.imbue(std::locale::classic());
      double value = 0;
      in >> value;
      if (!in || !(value >= least_sensitivity && value <= greatest_sensitivity)) {
        return json.fail("a sensitivity of ", digits, " before, not from 1e-12 to 1e12");
      }
      sensitivities.emplace(tensor, value);
      return {};
    }));
    ECQ_CHECK(json.finish());
    return sensitivities;
  } catch (const std::bad_alloc&) {
    return error(errc::out_of_memory, "no memory for the sensitivities of tensors");
  }
}

ECQ_INLINE result<sensitivity_map> read_sensitivities(const std::filesystem::path& path) {
  return parse_json_file(path, parse_sensitivities);
}

}  // namespace ecq
