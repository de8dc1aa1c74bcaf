#pragma once
/// \file
/// Concepts of quantisers, which turn matrices into codes and scales.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "ecq/base/backend.hpp"
#include "ecq/base/result.hpp"
#include "ecq/format/affine_uint.hpp"
#include "ecq/format/bf16.hpp"
#include "ecq/format/number_format.hpp"
#include "ecq/format/weights_view.hpp"
#include "ecq/quantize/granularity.hpp"

namespace ecq {

/// A policy that turns a real matrix into codes and stored scales: `codes[row * columns + column]`, and `scales[g]` for
/// each group of `layout(rows, columns)`; weight = decode(code) * scale. Non-finite weights are an error naming row and
/// column.
template <class Policy, class Format>
concept quantizer =
    code_format<Format> && requires(const Policy policy, const cpu backend, weights_view weights, std::size_t extent,
                                    std::span<std::uint8_t> codes, std::span<bf16> scales) {
      { Policy::name } -> std::convertible_to<std::string_view>;
      { policy.layout(extent, extent) } -> std::same_as<group_layout>;
      { policy.template quantize<Format>(backend, weights, codes, scales) } -> std::same_as<result<void>>;
    };

/// A policy that turns a real matrix into codes on one grid, in two steps: `fit` finds the grid of a whole matrix,
/// `encode` the codes on it; weight = decode(code) * scale + zero. decode(code) * scale and weight are finite for every
/// code. Non-finite weights are an error naming row and column. `layout` has one group, or none if there are no
/// weights.
template <class Policy, class Format>
concept affine_quantizer =
    affine_format<Format> && requires(const Policy policy, const cpu backend, const weights_view& weights,
                                      std::size_t extent, const affine_grid& grid, std::span<std::uint8_t> codes) {
      { Policy::name } -> std::convertible_to<std::string_view>;
      { policy.layout(extent, extent) } -> std::same_as<group_layout>;
      { policy.template fit<Format>(backend, weights) } -> std::same_as<result<affine_grid>>;
      { policy.template encode<Format>(backend, weights, grid, codes) } -> std::same_as<result<void>>;
    };

/// A quantiser whose lambda may differ from row to row. with_row_factors(factors) returns a copy that quantises row r
/// at factors[r] times its lambda. There is one factor for each row, and `factors` outlives the copy. Layouts in which
/// rows share a scale take no factors.
template <class Policy>
concept row_weighted = requires(const Policy policy, std::span<const double> factors) {
  { policy.with_row_factors(factors) } -> std::same_as<Policy>;
};

}  // namespace ecq
