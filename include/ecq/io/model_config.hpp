#pragma once
/// \file
/// Quantisation settings in a model's config.json. Programs in Python write such files, so NaN and infinity are numbers
/// in them (json_dialect::python).

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ecq/base/config.hpp"
#include "ecq/base/result.hpp"
#include "ecq/io/output_file.hpp"

namespace ecq {

/// The `quantization_config` of a model.
struct quantization_config {
  std::string method{};                ///< `quant_method`, such as "fp8" or "gptq"; empty if there is none
  std::vector<std::uint64_t> block{};  ///< `weight_block_size`: rows and columns that share a scale; or empty
};

/// Reads `quantization_config` from the text of a config.json. Returns nothing if there is none or it is null. Errors:
/// errc::corrupt for text that is not JSON.
result<std::optional<quantization_config>> parse_quantization_config(std::string_view text);

/// Reads `quantization_config` from config.json in `folder`. Returns nothing if the file is missing, too large or not
/// JSON, because it is not part of the weights.
std::optional<quantization_config> read_quantization_config(const std::filesystem::path& folder);

/// Returns the text of a config.json without `quantization_config`; everything else stays as it is. Errors:
/// errc::corrupt for text that is not JSON.
result<std::string> without_quantization_config(std::string_view text);

/// Returns the text of the config.json of a compressed model, whose `quantization_config` is `{"format": "ecq"}`. It
/// has no `quant_method`, so that programs which need one to load a model, such as transformers, refuse the model
/// instead of starting from random weights. An existing `quantization_config` becomes the member `original`; everything
/// else stays as it is. Errors: errc::corrupt for text that is not JSON.
result<std::string> marked_as_compressed(std::string_view text);

/// Reverses marked_as_compressed(), byte for byte. Removes the mark from text that another program has rewritten since,
/// and returns text without a mark unchanged. Errors: errc::corrupt for text that is not JSON.
result<std::string> without_mark(std::string_view text);

/// Copies config.json from one folder to another, with its text changed by `change`, and with its permissions. If
/// `change` fails, because the text is not JSON, the file is copied unchanged. The copy is on the disk, but has its
/// name only once it is committed. Errors name the file.
result<output_file> copy_of_config(const std::filesystem::path& from, const std::filesystem::path& to,
                                   result<std::string> (*change)(std::string_view));

}  // namespace ecq

#if ECQ_HEADER_ONLY
#include "ecq/io/model_config-inl.hpp"
#endif
