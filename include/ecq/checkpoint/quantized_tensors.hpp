#pragma once
/// \file
/// Search for tensors of a checkpoint that are already quantised weights, and for tensors that belong to such weights.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ecq/base/config.hpp"
#include "ecq/base/result.hpp"
#include "ecq/format/dtype.hpp"
#include "ecq/format/weight_scales.hpp"
#include "ecq/format/weights_view.hpp"
#include "ecq/io/checkpoint.hpp"

namespace ecq {

/// Name patterns of tensors that hold scales, zero points, indices, tables or packed codes of quantised weights. Such
/// tensors are not weights themselves, whatever their type; only lossless methods take them. The names are those of FP8
/// checkpoints (DeepSeek, FBGEMM, ModelOpt, TensorRT-LLM), compressed-tensors, NVFP4 and MXFP4, GPTQ, AWQ,
/// bitsandbytes, HQQ, MLX and Quanto, and common names of zero points.
inline constexpr std::array<std::string_view, 36> quantization_patterns{
    "*_scale",     "*_scale_inv",    "*_scale_2",     "*_scales",     "*.scale",      "*.scales",
    "*.scale_inv", "*.scale_weight", "*.scale_input", "*_zero_point", "*.zero_point", "*.zeros",
    "*.zero",      "*_zeros",        "*_zero",        "*_offset",     "*.offset",     "*_zp",
    "*.zp",        "*.qweight",      "*.qzeros",      "*.g_idx",      "*_g_idx",      "*_packed",
    "*_blocks",    "*.biases",       "*.SCB",         "*absmax",      "*quant_map",   "*.quant_state.*",
    "*._scale",    "*._zeropoint",   "*.W_q",         "*._amax",      "*.codebooks",  "*scaling_factor"};

/// A rule by which scales are named after their weights: one ending replaces another.
struct scale_name {
  std::string_view weights;  ///< ending of the name of the weights
  std::string_view scale;    ///< ending of the name of the scales
};

/// Names that checkpoints give to scales, in the order of the search.
inline constexpr std::array<scale_name, 5> scale_names{
    {{"", "_scale_inv"}, {"", "_scale"}, {".weight", ".scale_weight"}, {".weight", ".scale"}, {"._data", "._scale"}}};

/// Whether one of quantization_patterns matches the name.
bool belongs_to_quantized(std::string_view name) noexcept;

/// Returns the format of a checkpoint's scales for its name in safetensors files, or nothing for other formats.
constexpr std::optional<scale_type> scale_type_from_safetensors(std::string_view name) noexcept {
  if (name == "F32") return scale_type::fp32;
  if (name == "F16") return scale_type::fp16;
  if (name == "BF16") return scale_type::bf16;
  if (name == "F8_E4M3") return scale_type::fp8_e4m3;
  if (name == "F8_E8M0") return scale_type::e8m0;
  return std::nullopt;
}

/// Finds how scales of shape `scale` spread over weights of shape `weights`, taken as a matrix (as_weights): one scale
/// for all weights, one per row, or one for each block of rows and columns; in a stack, likewise for each of its
/// matrices. `block` holds the extents of a block. Without it, they are 128 both ways if that fits, or the power of two
/// that leads to that many scales, or divide the weights evenly. Returns nothing if the shapes allow none of this, or
/// if the last two are both possible and differ. Sets all members but data and type.
std::optional<weight_scales> spread_scales(std::span<const std::uint64_t> weights, std::span<const std::uint64_t> scale,
                                           std::span<const std::uint64_t> block = {});

/// The quantised weights of a checkpoint and their scales.
class quantized_tensors {
 public:
  /// Looks through all tensors of `model` for FP8 and INT8 weights with scales. The scales stay in the model's files.
  static quantized_tensors find(const checkpoint& model);

  /// Properties of one of the model's tensors.
  struct finding {
    bool belongs = false;                   ///< it belongs to quantised weights, but is not one of them
    const tensor_entry* scale = nullptr;    ///< the tensor of its scales; null without any
    std::optional<weight_scales> scales{};  ///< scales by which its elements are multiplied
    std::string unusable{};                 ///< why its elements cannot be used as weights; empty if they can
  };

  /// Returns the properties of tensor `position` of the model.
  const finding& operator[](std::size_t position) const noexcept { return findings_[position]; }

  /// Returns the format of the tensor as weights that may be compressed with loss: BF16 for quantised weights, nothing
  /// for tensors that belong to them. `tensor` is tensor `position` of the model.
  std::optional<dtype> weight_type(const tensor_entry& tensor, std::size_t position) const noexcept {
    if (findings_[position].belongs) return std::nullopt;
    return findings_[position].scales ? dtype::bf16 : dtype_from_safetensors(tensor.dtype);
  }

  /// Returns the tensor's weights, multiplied by their scales if it has any. `bytes` are its data. Errors: those of
  /// as_weights; unsupported for quantised weights whose scales cannot be applied.
  result<weights_view> weights_of(const tensor_entry& tensor, std::size_t position,
                                  std::span<const std::byte> bytes) const;

 private:
  std::vector<finding> findings_;
};

namespace detail {

/// Returns the text of a shape for errors, such as [3, 4].
std::string shape_text(std::span<const std::uint64_t> shape);

}  // namespace detail

}  // namespace ecq

#if ECQ_HEADER_ONLY
#include "ecq/checkpoint/quantized_tensors-inl.hpp"
#endif
