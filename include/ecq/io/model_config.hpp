#pragma once
/// \file
/// What a model's config.json says of its quantisation.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ecq/base/config.hpp"
#include "ecq/base/result.hpp"

namespace ecq {

/// The `quantization_config` of a model.
struct quantization_config {
  std::string method{};                ///< `quant_method`, such as "fp8" or "gptq"; empty if there is none
  std::vector<std::uint64_t> block{};  ///< `weight_block_size`: rows and columns that share a scale; or empty
};

/// Reads `quantization_config` from the text of a config.json; nothing if there is none or it is null. Errors:
/// errc::corrupt for text that is not JSON.
result<std::optional<quantization_config>> parse_quantization_config(std::string_view text);

/// The `quantization_config` in config.json in `folder`. A file that is missing, too large or no JSON says nothing: it
/// is not part of the weights.
std::optional<quantization_config> read_quantization_config(const std::filesystem::path& folder);

/// The text of a config.json without `quantization_config`; everything else stays as it is. Errors: errc::corrupt for
/// text that is not JSON.
result<std::string> without_quantization_config(std::string_view text);

/// Copies config.json from one folder to another without `quantization_config`, if there is one; as it is, if it is no
/// JSON.
result<void> copy_without_quantization_config(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace ecq

#if ECQ_HEADER_ONLY
#include "ecq/io/model_config-inl.hpp"
#endif
