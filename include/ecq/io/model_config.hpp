#pragma once
/// \file
/// What a model's config.json says of its quantisation. Programs in Python write such files: NaN and infinity are
/// numbers in them (json_dialect::python).

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

/// The text of the config.json of a compressed model: `quantization_config` is `{"format": "ecq"}`. It has no
/// `quant_method`, so that programs which load models by it, such as transformers, refuse them instead of starting from
/// random weights. A `quantization_config` that was there becomes its member `original`; everything else stays as it
/// is. Errors: errc::corrupt for text that is not JSON.
result<std::string> marked_as_compressed(std::string_view text);

/// The text that marked_as_compressed() was given, byte for byte; what has been written anew since, without its mark;
/// any other text as it is. Errors: errc::corrupt for text that is not JSON.
result<std::string> without_mark(std::string_view text);

/// Copies config.json from one folder to another as `change` makes its text, with its permissions; as it is, if
/// `change` fails, which it does where it is no JSON. Errors name the file.
result<void> copy_config(const std::filesystem::path& from, const std::filesystem::path& to,
                         result<std::string> (*change)(std::string_view));

}  // namespace ecq

#if ECQ_HEADER_ONLY
#include "ecq/io/model_config-inl.hpp"
#endif
