#pragma once
/// \file
/// Definition of quantized_tensors.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ecq/base/config.hpp"
#include "ecq/base/result.hpp"
#include "ecq/base/text.hpp"
#include "ecq/checkpoint/quantized_tensors.hpp"
#include "ecq/checkpoint/selection.hpp"
#include "ecq/format/dtype.hpp"
#include "ecq/format/weight_scales.hpp"
#include "ecq/format/weights_view.hpp"
#include "ecq/io/checkpoint.hpp"
#include "ecq/io/model_config.hpp"

namespace ecq {

namespace detail {

/// Whether `extent`, which is not 0, has `count` blocks of `size` elements, the last one perhaps smaller.
constexpr bool blocks_fit(std::uint64_t extent, std::uint64_t count, std::uint64_t size) noexcept {
  return size != 0 && (extent - 1) / size + 1 == count;
}

/// Returns the number of elements of `extent` that share each of `count` scales: all, the size of a `block`, or one.
/// Without a size, returns a number that fits. Returns nothing if no number fits, or if equal parts and blocks of a
/// power of two, the last one smaller, both fit and differ: a wrong guess would change the weights.
constexpr std::optional<std::uint64_t> shared_by_each(std::uint64_t extent, std::uint64_t count,
                                                      std::optional<std::uint64_t> block) noexcept {
  if (extent == 0 || count == 0) return std::nullopt;
  const auto fits = [&](std::uint64_t size) { return blocks_fit(extent, count, size); };
  if (count == 1) return extent;
  if (block && fits(*block)) return block;
  if (count == extent) return 1;
  if (block) return std::nullopt;
  std::optional<std::uint64_t> found;
  if (extent % count == 0) found = extent / count;
  for (std::uint64_t size = 1; size != 0 && size <= extent; size *= 2) {
    if (!fits(size)) continue;
    return found.value_or(size) == size ? std::optional(size) : std::nullopt;
  }
  return found;
}

constexpr std::uint64_t product_of(std::span<const std::uint64_t> extents) noexcept {
  std::uint64_t product = 1;
  for (const std::uint64_t extent : extents) product *= extent;
  return product;
}

ECQ_INLINE std::string shape_text(std::span<const std::uint64_t> shape) {
  std::string text = "[";
  for (const std::uint64_t extent : shape) text += (text.size() == 1 ? "" : ", ") + std::to_string(extent);
  return text + "]";
}

/// Returns the tensors that hold the scales of the weights called `name`. If there are several, their meaning is not
/// known.
ECQ_INLINE std::vector<const tensor_entry*> scales_of(const checkpoint& model, std::string_view name) {
  std::vector<const tensor_entry*> all;
  for (const scale_name& names : scale_names) {
    if (!name.ends_with(names.weights)) continue;
    const std::string stem(name.substr(0, name.size() - names.weights.size()));
    if (const tensor_entry* found = model.find(stem + std::string(names.scale))) all.push_back(found);
  }
  return all;
}

/// Returns the sorted names of tensors for which `like(name)` is true.
template <class Like>
std::vector<std::string_view> sorted_names(const checkpoint& model, const Like& like) {
  std::vector<std::string_view> names;
  for (const tensor_entry& tensor : model.tensors()) {
    if (like(std::string_view(tensor.name))) names.push_back(tensor.name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// Whether a name contains one of `parts`.
ECQ_INLINE bool has_any(std::string_view name, std::initializer_list<std::string_view> parts) noexcept {
  return std::ranges::any_of(parts, [&](std::string_view part) { return name.find(part) != std::string_view::npos; });
}

/// Returns the position of the last part of a name that makes it look like one of scales, or npos.
ECQ_INLINE std::size_t last_of_scales(std::string_view name) noexcept {
  constexpr std::string_view ending = "weight_s";
  if (name.ends_with(ending)) return name.size() - ending.size();
  constexpr std::size_t none = std::string_view::npos;
  std::size_t last = none;
  for (const std::string_view part : {"scal", "dequant", "amax", "weight_max"}) {
    const std::size_t found = name.rfind(part);
    if (found != none && (last == none || found > last)) last = found;
  }
  return last;
}

/// Whether a name, or the part of it behind the name of its module, looks like one of zero points.
ECQ_INLINE bool is_like_zero_points(std::string_view name) noexcept {
  return has_any(name, {"zero", "zp", "offset", "shift"});
}

/// Returns one of `names` that may be that of the zero points of the weights: the name of the weights and more, or a
/// member of the module whose `weight` or `_data` they are. Returns an empty name if there is none. Zero points of a
/// layer's inputs and outputs do not count.
ECQ_INLINE std::string_view offset_of(std::string_view weights, std::span<const std::string_view> names) {
  std::string_view stem = weights;
  for (const scale_name& known : scale_names) {
    if (known.weights.empty() || !weights.ends_with(known.weights)) continue;
    stem = weights.substr(0, weights.size() - known.weights.size() + 1);  // with the dot
  }
  for (auto name = std::lower_bound(names.begin(), names.end(), stem); name != names.end(); ++name) {
    if (!name->starts_with(stem)) break;
    const std::string_view rest = name->substr(stem.size());
    const bool of_other = rest.find('.') != std::string_view::npos && !name->starts_with(std::string(weights) + ".");
    const bool of_activations = rest.starts_with("input") || rest.starts_with("output") || rest.starts_with("act");
    if (*name != weights && !of_other && !of_activations && is_like_zero_points(rest)) return *name;
  }
  return {};
}

/// Names that look like those of scales, or of other tensors that belong to quantised weights, to be found beside those
/// of weights. Each name is read once, however many weights lie beside it, because names come from untrusted files.
class quantization_names {
 public:
  explicit quantization_names(const checkpoint& model) {
    for (const tensor_entry& tensor : model.tensors()) {
      const std::string_view name = tensor.name;
      const std::size_t last = belongs_to_quantized(name) ? name.size() : last_of_scales(name);
      if (last != std::string_view::npos) names_.emplace_back(name, last);
    }
    std::sort(names_.begin(), names_.end());
  }

  /// Returns one of the names that is the name of the weights with another ending, or with something else in place of
  /// its last part; empty if there is none. Whether the name of the module looks like one of scales does not matter.
  std::string_view beside(std::string_view weights) {
    const std::size_t dot = weights.rfind('.');
    const std::string_view stem = dot == std::string_view::npos ? weights : weights.substr(0, dot + 1);
    const auto [found, is_new] = found_.try_emplace(stem);
    if (is_new) found->second = first_two(stem);
    return found->second[found->second[0] == weights ? 1 : 0];
  }

 private:
  /// Returns the first two names that begin with `stem` and look like those of scales behind it.
  std::array<std::string_view, 2> first_two(std::string_view stem) const {
    std::array<std::string_view, 2> found;
    std::size_t count = 0;
    auto name = std::lower_bound(names_.begin(), names_.end(), std::pair(stem, std::size_t{0}));
    for (; name != names_.end() && count < 2 && name->first.starts_with(stem); ++name) {
      if (name->second >= stem.size()) found[count++] = name->first;
    }
    return found;
  }

  std::vector<std::pair<std::string_view, std::size_t>> names_;  ///< with last_of_scales()
  std::map<std::string_view, std::array<std::string_view, 2>> found_;
};

/// Examines FP8 or INT8 weights and their scales. `more` is the name of a tensor that may hold their zero points, or
/// empty.
ECQ_INLINE quantized_tensors::finding examine(const checkpoint& model, const tensor_entry& weights,
                                              const tensor_entry& scale, std::span<const std::uint64_t> block,
                                              std::string_view more) {
  quantized_tensors::finding found{.scale = &scale};
  for (const char* const suffix : {"_scale_2", "_global_scale"}) {
    if (const tensor_entry* const other = model.find(weights.name + suffix)) more = other->name;
  }
  if (!more.empty()) {
    found.unusable = text_of("there is '", more, "' besides its scales");
    return found;
  }
  found.scales = spread_scales(weights.shape, scale.shape, block);
  const auto type = scale_type_from_safetensors(scale.dtype);
  if (!found.scales || !type) {
    found.scales.reset();
    found.unusable =
        text_of("scales of ", scale.dtype, " ", shape_text(scale.shape), " fit weights ", shape_text(weights.shape),
                " in no way, or in two that only a block size in config.json tells apart");
    if (!block.empty()) found.unusable += text_of("; config.json has ", shape_text(block));
    return found;
  }
  found.scales->type = *type;
  found.scales->data = model.bytes(scale).data();
  return found;
}

}  // namespace detail

ECQ_INLINE bool belongs_to_quantized(std::string_view name) noexcept {
  return matches_any(quantization_patterns, name);
}

namespace detail {

/// Implements spread_scales() for a stack of matrices. Each matrix has scales of its own, which spread over it as
/// `scale` says without the extents of the stack.
ECQ_INLINE std::optional<weight_scales> spread_over_stack(std::span<const std::uint64_t> weights,
                                                          std::span<const std::uint64_t> scale,
                                                          std::span<const std::uint64_t> block) {
  const auto stack = weights.first(weights.size() - 2), matrix = weights.last(2);
  if (scale.size() < stack.size() || !std::ranges::equal(stack, scale.first(stack.size()))) return std::nullopt;
  const auto spread = spread_scales(matrix, scale.subspan(stack.size()), block);
  // Each matrix has to begin with a new scale.
  if (spread && matrix[0] % spread->rows_per_scale != 0) return std::nullopt;
  return spread;
}

}  // namespace detail

ECQ_INLINE std::optional<weight_scales> spread_scales(std::span<const std::uint64_t> weights,
                                                      std::span<const std::uint64_t> scale,
                                                      std::span<const std::uint64_t> block) {
  if (weights.empty() || detail::product_of(weights) == 0 || detail::product_of(scale) == 0) return std::nullopt;
  if (detail::is_stack(weights) && detail::product_of(scale) != 1) {
    return detail::spread_over_stack(weights, scale, block);
  }
  const auto columns =
      static_cast<std::size_t>(detail::is_stack(weights) ? weights.back() : detail::product_of(weights.subspan(1)));
  weight_scales spread;
  spread.columns_per_scale = columns;
  if (detail::product_of(scale) == 1) {
    spread.rows_per_scale = static_cast<std::size_t>(detail::product_of(weights) / columns);
    return spread;
  }
  // In every known checkpoint that does not state the size of blocks of rows and columns, it is 128 for both. If
  // squares of another size fit without a remainder, the size is open.
  constexpr std::uint64_t usual[2] = {128, 128};
  if (block.empty() && weights.size() == 2 && scale.size() == 2 && scale[0] > 1 && scale[1] > 1 &&
      detail::blocks_fit(weights[0], scale[0], 128) && detail::blocks_fit(weights[1], scale[1], 128)) {
    const bool whole = weights[0] % scale[0] == 0 && weights[1] % scale[1] == 0;
    const std::uint64_t equal = weights[0] / scale[0];
    if (whole && equal == weights[1] / scale[1] && equal != usual[0]) return std::nullopt;
    block = usual;
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
  // In the matrix of shape[0] rows, blocks of the last axis are the only ones that repeat at equal distances.
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

ECQ_INLINE result<weights_view> quantized_tensors::weights_of(const tensor_entry& tensor, std::size_t position,
                                                              std::span<const std::byte> bytes) const {
  const finding& what = findings_[position];
  if (!what.unusable.empty()) {
    return error(errc::unsupported, "tensor '", tensor.name, "' is already quantised, and ", what.unusable,
                 "; exclude it by name to keep it as it is");
  }
  if (!what.scales) return as_weights(tensor, bytes);
  if (!detail::readable_in_place(dtype::fp32)) {
    return error(errc::unsupported, "tensor '", tensor.name, "': scales need a little-endian machine");
  }
  return detail::as_matrix(tensor, *dtype_from_safetensors(tensor.dtype), bytes).scaled_by(*what.scales);
}

ECQ_INLINE quantized_tensors quantized_tensors::find(const checkpoint& model) {
  const auto config = read_quantization_config(model.folder());
  const std::span<const std::uint64_t> block = config ? std::span(config->block) : std::span<const std::uint64_t>();
  const auto offsets = detail::sorted_names(model, detail::is_like_zero_points);
  quantized_tensors found;
  found.findings_.resize(model.tensors().size());
  bool scaled_fp8 = config.has_value();
  std::set<std::string_view> zero_points;
  const auto type_of = [&](std::size_t position) { return dtype_from_safetensors(model.tensors()[position].dtype); };
  const auto is_fp8 = [](std::optional<dtype> type) { return type == dtype::fp8_e4m3 || type == dtype::fp8_e5m2; };
  for (std::size_t position = 0; position < found.findings_.size(); ++position) {
    const tensor_entry& tensor = model.tensors()[position];
    finding& what = found.findings_[position];
    what.belongs = belongs_to_quantized(tensor.name);
    if (what.belongs || !(is_fp8(type_of(position)) || type_of(position) == dtype::int8)) continue;
    const auto scales = detail::scales_of(model, tensor.name);
    if (scales.empty()) continue;
    const std::string_view zero_point = detail::offset_of(tensor.name, offsets);
    if (!zero_point.empty()) zero_points.insert(zero_point);
    what = detail::examine(model, tensor, *scales.front(), block, zero_point);
    if (scales.size() > 1) {
      what.scales.reset();
      what.unusable = detail::text_of("it has scales in both ", scales[0]->name, " and ", scales[1]->name);
    }
    scaled_fp8 = scaled_fp8 || is_fp8(type_of(position));
  }
  detail::quantization_names names(model);
  for (std::size_t position = 0; position < found.findings_.size(); ++position) {
    finding& what = found.findings_[position];
    what.belongs = what.belongs || zero_points.contains(model.tensors()[position].name);
    if (what.belongs || what.scale != nullptr || !is_fp8(type_of(position))) continue;
    if (const auto other = names.beside(model.tensors()[position].name); !other.empty()) {
      what.unusable = detail::text_of("'", other, "' may or may not be its scales");
    } else if (scaled_fp8) {
      what.unusable = "the checkpoint has no scales named after it";
    }
  }
  return found;
}

}  // namespace ecq
