#pragma once
/// \file
/// Which tensors of a checkpoint are quantised already, and which belong to such weights.

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

/// Patterns of the names of tensors that hold scales, zero points, indices, tables or packed codes of quantised
/// weights. Such tensors are no weights themselves, whatever their type: only lossless methods take them. They are the
/// names of FP8 checkpoints (DeepSeek, FBGEMM, ModelOpt, TensorRT-LLM), compressed-tensors, NVFP4 and MXFP4, GPTQ, AWQ,
/// bitsandbytes, HQQ, MLX and Quanto, and common ones of zero points.
inline constexpr std::array<std::string_view, 36> quantization_patterns{
    "*_scale",     "*_scale_inv",    "*_scale_2",     "*_scales",     "*.scale",      "*.scales",
    "*.scale_inv", "*.scale_weight", "*.scale_input", "*_zero_point", "*.zero_point", "*.zeros",
    "*.zero",      "*_zeros",        "*_zero",        "*_offset",     "*.offset",     "*_zp",
    "*.zp",        "*.qweight",      "*.qzeros",      "*.g_idx",      "*_g_idx",      "*_packed",
    "*_blocks",    "*.biases",       "*.SCB",         "*absmax",      "*quant_map",   "*.quant_state.*",
    "*._scale",    "*._zeropoint",   "*.W_q",         "*._amax",      "*.codebooks",  "*scaling_factor"};

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

/// How scales of shape `scale` spread over weights of shape `weights`, which count as a matrix (as_weights): one for
/// all, one a row, or one for each block of rows and columns, in a stack for each of its matrices alike. `block` holds
/// the extents of a block. Without it, they are 128 both ways if that fits, or the power of two that leads to that many
/// scales, or divide the weights evenly. Nothing if the shapes allow none of this, or if the last two are both possible
/// and differ. Sets all members but data and type.
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

/// The text of a shape in errors: [3, 4].
std::string shape_text(std::span<const std::uint64_t> shape);

}  // namespace detail

}  // namespace ecq

#if ECQ_HEADER_ONLY
#include "ecq/checkpoint/quantized_tensors-inl.hpp"
#endif
