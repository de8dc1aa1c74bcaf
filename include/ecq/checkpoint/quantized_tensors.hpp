#pragma once
/// \file
/// Which tensors of a checkpoint are quantised already, and which belong to such weights.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ecq/base/result.hpp"
#include "ecq/checkpoint/selection.hpp"
#include "ecq/format/dtype.hpp"
#include "ecq/format/weight_scales.hpp"
#include "ecq/format/weights_view.hpp"
#include "ecq/io/checkpoint.hpp"
#include "ecq/io/model_config.hpp"

namespace ecq {

/// Patterns of the names of tensors that hold scales, zero points, indices, tables or packed codes of quantised
/// weights. Such tensors are no weights themselves, whatever their type: only lossless methods take them. They are the
/// names of FP8 checkpoints (DeepSeek, FBGEMM, ModelOpt), compressed-tensors, NVFP4 and MXFP4, GPTQ, AWQ, bitsandbytes,
/// HQQ, MLX and Quanto.
inline constexpr std::array<std::string_view, 28> quantization_patterns{
    "*_scale",        "*_scale_inv",   "*_scale_2",    "*_scales",        "*.scale",  "*.scales",     "*.scale_inv",
    "*.scale_weight", "*.scale_input", "*_zero_point", "*.zero_point",    "*.zeros",  "*.zero",       "*_zeros",
    "*.qweight",      "*.qzeros",      "*.g_idx",      "*_g_idx",         "*_packed", "*_blocks",     "*.biases",
    "*.SCB",          "*absmax",       "*quant_map",   "*.quant_state.*", "*._scale", "*._zeropoint", "*.W_q"};

/// How scales are named after their weights: one ending takes the place of another.
struct scale_name {
  std::string_view weights;  ///< how the name of the weights ends
  std::string_view scale;    ///< what takes that place in the name of the scales
};

/// The names that checkpoints give to scales, in the order in which they are looked for.
inline constexpr std::array<scale_name, 5> scale_names{
    {{"", "_scale_inv"}, {"", "_scale"}, {".weight", ".scale_weight"}, {".weight", ".scale"}, {"._data", "._scale"}}};

/// True if the name is one of those in quantization_patterns.
bool belongs_to_quantized(std::string_view name) noexcept;

/// The format of a checkpoint's scales, by the name that safetensors files have for it, or nothing.
constexpr std::optional<scale_type> scale_type_from_safetensors(std::string_view name) noexcept {
  if (name == "F32") return scale_type::fp32;
  if (name == "F16") return scale_type::fp16;
  if (name == "BF16") return scale_type::bf16;
  if (name == "F8_E4M3") return scale_type::fp8_e4m3;
  if (name == "F8_E8M0") return scale_type::e8m0;
  return std::nullopt;
}

/// How scales of shape `scale` spread over weights of shape `weights`, which count as a matrix of shape[0] rows
/// (as_weights): one for all, one a row, or one for each block of rows and columns. Without `block`, the extents of a
/// block are the power of two that leads to that many scales, or else divide the weights evenly. Nothing if the shapes
/// allow none of this. Sets all members but data and type.
std::optional<weight_scales> spread_scales(std::span<const std::uint64_t> weights, std::span<const std::uint64_t> scale,
                                           std::span<const std::uint64_t> block = {});

/// The quantised weights of a checkpoint and their scales.
class quantized_tensors {
 public:
  /// Looks through all tensors of `model` for FP8 and INT8 weights with scales. The scales stay in the model's files.
  static quantized_tensors find(const checkpoint& model);

  /// What is to be known of one of the model's tensors.
  struct finding {
    bool belongs = false;                   ///< it belongs to quantised weights, and is none itself
    const tensor_entry* scale = nullptr;    ///< the tensor of its scales; null without any
    std::optional<weight_scales> scales{};  ///< by which its elements are multiplied
    std::string unusable{};                 ///< why its elements mean nothing without what cannot be applied
  };

  /// `position` is that of the tensor among the model's.
  const finding& operator[](std::size_t position) const noexcept { return findings_[position]; }

  /// The format of the tensor as weights that may be compressed with loss: BF16 for quantised ones, nothing for what
  /// belongs to them. `tensor` is the model's at `position`.
  std::optional<dtype> weight_type(const tensor_entry& tensor, std::size_t position) const noexcept {
    if (findings_[position].belongs) return std::nullopt;
    return findings_[position].scales ? dtype::bf16 : dtype_from_safetensors(tensor.dtype);
  }

  /// The tensor's weights, times their scales if it has any. `bytes` are its data. Errors: those of as_weights;
  /// unsupported for quantised weights whose scales cannot be applied.
  result<weights_view> weights_of(const tensor_entry& tensor, std::size_t position,
                                  std::span<const std::byte> bytes) const;

 private:
  std::vector<finding> findings_;
};

namespace detail {

/// The number of elements of `extent` that share each of `count` scales, or nothing.
constexpr std::optional<std::uint64_t> shared_by_each(std::uint64_t extent, std::uint64_t count,
                                                      std::optional<std::uint64_t> block) noexcept {
  if (extent == 0 || count == 0) return std::nullopt;
  const auto fits = [&](std::uint64_t size) { return size != 0 && (extent - 1) / size + 1 == count; };
  if (count == 1) return extent;
  if (block && fits(*block)) return block;
  for (std::uint64_t size = 1; size != 0 && size <= extent; size *= 2) {
    if (fits(size)) return size;
  }
  if (extent % count == 0) return extent / count;
  return std::nullopt;
}

constexpr std::uint64_t product_of(std::span<const std::uint64_t> extents) noexcept {
  std::uint64_t product = 1;
  for (const std::uint64_t extent : extents) product *= extent;
  return product;
}

/// The text of a shape in errors: [3, 4].
inline std::string shape_text(std::span<const std::uint64_t> shape) {
  std::string text = "[";
  for (const std::uint64_t extent : shape) text += (text.size() == 1 ? "" : ", ") + std::to_string(extent);
  return text + "]";
}

/// The tensor of the scales of the weights called `name`, or null.
inline const tensor_entry* scales_of(const checkpoint& model, std::string_view name) {
  for (const scale_name& names : scale_names) {
    if (!name.ends_with(names.weights)) continue;
    const std::string stem(name.substr(0, name.size() - names.weights.size()));
    if (const tensor_entry* found = model.find(stem + std::string(names.scale))) return found;
  }
  return nullptr;
}

/// Looks at FP8 or INT8 weights and their scales.
inline quantized_tensors::finding examine(const checkpoint& model, const tensor_entry& weights,
                                          const tensor_entry& scale, std::span<const std::uint64_t> block) {
  quantized_tensors::finding found{.scale = &scale};
  const auto beside = [&](std::string_view suffix) {
    return model.find(weights.name + std::string(suffix)) != nullptr;
  };
  if (beside("_zero_point") || beside("_scale_2") || beside("_global_scale")) {
    found.unusable = "it has more than scales";
    return found;
  }
  found.scales = spread_scales(weights.shape, scale.shape, block);
  const auto type = scale_type_from_safetensors(scale.dtype);
  if (!found.scales || !type) {
    found.scales.reset();
    found.unusable = text_of("scales of ", scale.dtype, " ", shape_text(scale.shape), " do not spread over weights ",
                             shape_text(weights.shape));
    return found;
  }
  found.scales->type = *type;
  found.scales->data = model.bytes(scale).data();
  return found;
}

}  // namespace detail

inline bool belongs_to_quantized(std::string_view name) noexcept { return matches_any(quantization_patterns, name); }

inline std::optional<weight_scales> spread_scales(std::span<const std::uint64_t> weights,
                                                  std::span<const std::uint64_t> scale,
                                                  std::span<const std::uint64_t> block) {
  if (weights.empty() || detail::product_of(weights) == 0 || detail::product_of(scale) == 0) return std::nullopt;
  const auto columns = static_cast<std::size_t>(detail::product_of(weights.subspan(1)));
  weight_scales spread;
  spread.columns_per_scale = columns;
  if (detail::product_of(scale) == 1) {
    spread.rows_per_scale = static_cast<std::size_t>(weights[0]);
    return spread;
  }
  const auto block_of = [&](std::size_t axis) -> std::optional<std::uint64_t> {
    if (block.size() != 2 || weights.size() < 2 || axis + 2 < weights.size()) return std::nullopt;
    return block[axis + 2 - weights.size()];
  };
  const auto rows = detail::shared_by_each(weights[0], scale[0], block_of(0));
  if (!rows) return std::nullopt;
  spread.rows_per_scale = static_cast<std::size_t>(*rows);
  const auto trailing = scale.subspan(1);
  if (detail::product_of(trailing) == 1) return spread;
  if (scale.size() != weights.size()) return std::nullopt;
  // In the matrix of shape[0] rows, blocks of the last axis are the only ones that repeat at even distances.
  const std::size_t last = weights.size() - 1;
  for (std::size_t axis = 1; axis < last; ++axis) {
    if (weights[axis] != scale[axis]) return std::nullopt;
  }
  const auto wide = detail::shared_by_each(weights[last], scale[last], block_of(last));
  if (!wide || (last > 1 && weights[last] % *wide != 0)) return std::nullopt;
  spread.columns_per_scale = static_cast<std::size_t>(*wide);
  spread.across = static_cast<std::size_t>(detail::product_of(trailing));
  return spread;
}

inline result<weights_view> quantized_tensors::weights_of(const tensor_entry& tensor, std::size_t position,
                                                          std::span<const std::byte> bytes) const {
  const finding& what = findings_[position];
  if (!what.unusable.empty()) {
    return error(errc::unsupported, "tensor '", tensor.name, "' is quantised already, and ", what.unusable,
                 "; excluded by name, it stays as it is");
  }
  if (!what.scales) return as_weights(tensor, bytes);
  if (!detail::readable_in_place(dtype::fp32)) {
    return error(errc::unsupported, "tensor '", tensor.name, "': scales need a little-endian machine");
  }
  return detail::as_matrix(tensor, *dtype_from_safetensors(tensor.dtype), bytes).scaled_by(*what.scales);
}

inline quantized_tensors quantized_tensors::find(const checkpoint& model) {
  const auto config = read_quantization_config(model.folder());
  const std::span<const std::uint64_t> block = config ? std::span(config->block) : std::span<const std::uint64_t>();
  quantized_tensors found;
  found.findings_.resize(model.tensors().size());
  bool scaled_fp8 = config.has_value();
  const auto type_of = [&](std::size_t position) { return dtype_from_safetensors(model.tensors()[position].dtype); };
  const auto is_fp8 = [](std::optional<dtype> type) { return type == dtype::fp8_e4m3 || type == dtype::fp8_e5m2; };
  for (std::size_t position = 0; position < found.findings_.size(); ++position) {
    const tensor_entry& tensor = model.tensors()[position];
    finding& what = found.findings_[position];
    what.belongs = belongs_to_quantized(tensor.name);
    if (what.belongs || !(is_fp8(type_of(position)) || type_of(position) == dtype::int8)) continue;
    const tensor_entry* scale = detail::scales_of(model, tensor.name);
    if (scale == nullptr) continue;
    what = detail::examine(model, tensor, *scale, block);
    scaled_fp8 = scaled_fp8 || is_fp8(type_of(position));
  }
  if (!scaled_fp8) return found;
  for (std::size_t position = 0; position < found.findings_.size(); ++position) {
    finding& what = found.findings_[position];
    if (!what.belongs && what.scale == nullptr && is_fp8(type_of(position))) {
      what.unusable = "the checkpoint is quantised, but there are no scales of its name";
    }
  }
  return found;
}

}  // namespace ecq
