#pragma once
/// \file
/// Definition of the checks of packed matrices.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "ecq/analysis/code_statistics.hpp"
#include "ecq/base/config.hpp"
#include "ecq/base/result.hpp"
#include "ecq/base/text.hpp"
#include "ecq/format/affine_uint.hpp"
#include "ecq/format/bf16.hpp"
#include "ecq/format/dtype.hpp"
#include "ecq/format/fp32.hpp"
#include "ecq/packed.hpp"
#include "ecq/packed_check.hpp"

namespace ecq {
namespace detail {

ECQ_INLINE std::string label_of(const packed_matrix& matrix, std::size_t index) {
  return matrix.name.empty() ? text_of("matrix ", index) : text_of("matrix '", matrix.name, "'");
}

ECQ_INLINE result<void> check_exact_weights(const packed_matrix& matrix) {
  if (matrix.exact.empty()) return {};
  if (matrix.lossless()) return error(errc::corrupt, "exact weights in a lossless matrix");
  const std::uint64_t weights = std::uint64_t{matrix.layout.rows} * matrix.layout.columns;
  for (std::size_t index = 0; index < matrix.exact.size(); ++index) {
    const auto& [position, weight] = matrix.exact[index];
    const bool ascends = index == 0 || position > matrix.exact[index - 1].position;
    if (!ascends || position >= weights) {
      return error(errc::corrupt, "exact weight ", index, " at position ", position, " of ", weights,
                   ascends ? " does not exist" : " is not after the previous one");
    }
    if (fp32::is_finite(std::bit_cast<std::uint32_t>(weight))) continue;
    return error(errc::corrupt, "exact weight ", index, " is not finite");
  }
  return {};
}

/// Checks that no code can become a weight beyond FP32. Otherwise a fused multiply-add could differ from separate
/// operations, and decoders could differ where products overflow.
ECQ_INLINE result<void> check_largest_weight(const packed_matrix& matrix) {
  float largest = 0;
  for (const float value : matrix.values_of_codes()) {
    if (fp32::is_finite(std::bit_cast<std::uint32_t>(value))) largest = (std::max)(largest, std::fabs(value));
  }
  for (std::size_t index = 0; index < matrix.scales.size(); ++index) {
    if (affine_grid{matrix.scales[index], matrix.zero}.representable(largest)) continue;
    return error(errc::corrupt, "scale ", index, ", ", static_cast<float>(matrix.scales[index]), ", takes value ",
                 largest, " with zero point ", matrix.zero, " beyond the range of FP32");
  }
  return {};
}

ECQ_INLINE result<void> check_matrix(const packed_matrix& matrix, std::uint64_t symbols,
                                     const std::optional<dtype>& format) {
  const group_layout& layout = matrix.layout;
  if ((layout.rows_per_group == 0) != (layout.columns_per_group == 0)) {
    return error(errc::corrupt, "groups without rows or columns");
  }
  if (matrix.codes_exponents() ? format != matrix.format : format.has_value() || size_of(matrix.format) != 1) {
    return error(errc::corrupt, matrix.codes_exponents() ? "weights" : "codes", " of ", to_string(matrix.format),
                 " in a stream of ", (format ? std::string(to_string(*format)) : "codes"));
  }
  if (matrix.values.size() != (matrix.format == dtype::table ? 256U : 0U)) {
    return error(errc::corrupt, matrix.values.size(), " values for codes of ", to_string(matrix.format));
  }
  const auto no_value = std::find_if(matrix.values.begin(), matrix.values.end(), [](float value) {
    return !fp32::is_finite(std::bit_cast<std::uint32_t>(value)) && value != std::numeric_limits<float>::infinity();
  });
  if (no_value != matrix.values.end()) {
    return error(errc::corrupt, "the value of code ", no_value - matrix.values.begin(), " is NaN or minus infinity");
  }
  if (layout.columns != 0 && layout.rows > (std::numeric_limits<std::size_t>::max)() / layout.columns) {
    return error(errc::corrupt, "shape ", layout.rows, " x ", layout.columns, " overflows 64 bits");
  }
  const std::uint64_t weights = static_cast<std::uint64_t>(layout.rows) * layout.columns;
  if (matrix.first_symbol > symbols || weights > symbols - matrix.first_symbol) {
    return error(errc::corrupt, "symbols ", matrix.first_symbol, " + ", weights, " exceed the stream's ", symbols);
  }
  if (matrix.scales.size() != layout.count()) {
    return error(errc::corrupt, matrix.scales.size(), " scales for ", layout.count(), " groups");
  }
  const auto bad =
      std::find_if(matrix.scales.begin(), matrix.scales.end(), [](bf16 scale) { return !bf16::is_finite(scale.bits); });
  if (bad != matrix.scales.end()) {
    return error(errc::corrupt, "scale ", bad - matrix.scales.begin(), " is not finite");
  }
  if (matrix.zero != 0 && !is_affine(matrix.format)) {
    return error(errc::corrupt, to_string(matrix.format), " cannot have a zero point");
  }
  ECQ_CHECK(check_exact_weights(matrix));
  return matrix.lossless() ? result<void>() : check_largest_weight(matrix);
}

}  // namespace detail

ECQ_INLINE result<void> check_matrices(std::span<const packed_matrix> matrices, std::uint64_t symbols,
                                       std::optional<dtype> format) {
  for (std::size_t index = 0; index < matrices.size(); ++index) {
    if (auto checked = detail::check_matrix(matrices[index], symbols, format); !checked) {
      return std::move(checked).error().within(detail::label_of(matrices[index], index));
    }
  }
  return {};
}

ECQ_INLINE result<void> check_codes(const cpu& backend, const packed_matrix& matrix,
                                    std::span<const std::uint8_t> codes) {
  const auto is_number = [](float value) { return fp32::is_finite(std::bit_cast<std::uint32_t>(value)); };
  const std::span<const float, 256> values = matrix.values_of_codes();
  if (std::ranges::all_of(values, is_number)) return {};
  ECQ_TRY(counted, count_codes(backend, codes));
  for (std::size_t code = 0; code < values.size(); ++code) {
    if (counted.counts[code] == 0 || is_number(values[code])) continue;
    return error(errc::non_finite, counted.counts[code], " codes are ", code, ", which is not a number in ",
                 to_string(matrix.format));
  }
  return {};
}

}  // namespace ecq
