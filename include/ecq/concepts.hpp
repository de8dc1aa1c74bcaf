#pragma once
/// \file
/// The map of the library: every policy concept, in the order the data flows.
///
///   weights -> quantizer (number_format, granularity, scale_search of distortion + regularizer) -> codes
///   codes   -> symbol_map -> entropy_coder -> stream of chunks -> container
///
/// and back, on any backend the coder is decodable_on; a baseline (quantize/baseline.hpp) is what it is compared with.
/// A policy is a type that models one of these concepts; each shipped one is followed by its static_assert, and
/// tests/laws runs the same laws over all of them.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "ecq/cpu/backend.hpp"
#include "ecq/entropy/entropy_coder.hpp"
#include "ecq/entropy/symbol_map.hpp"
#include "ecq/format/affine_uint.hpp"
#include "ecq/format/bf16.hpp"
#include "ecq/format/fp8_e4m3.hpp"
#include "ecq/format/number_format.hpp"
#include "ecq/quantize/baseline.hpp"
#include "ecq/quantize/granularity.hpp"
#include "ecq/result.hpp"
#include "ecq/weights_view.hpp"

namespace ecq {

/// Says which weights share a scale: see group_layout.
template <class Policy>
concept granularity = std::default_initializable<Policy> && requires(const Policy policy, std::size_t extent) {
  { policy.layout(extent, extent) } -> std::same_as<group_layout>;
};

/// How far the quantised weights are from the real ones: a sum over weights of `of(error)`, divided by the same sum
/// over the weights themselves. `of` is homogeneous, of(c * e) = |c|^degree * of(e); the straight-through gradient of
/// the sum with respect to ln(scale) is then degree times the sum.
template <class Policy>
concept distortion = requires(float error_value) {
  { Policy::name } -> std::convertible_to<std::string_view>;
  { Policy::degree } -> std::convertible_to<int>;
  { Policy::of(error_value) } -> std::same_as<float>;
};

/// A surrogate for the entropy of the codes: the mean over all weights of `weight<Format>() * |value of the code|`.
template <class Policy>
concept regularizer = requires {
  { Policy::name } -> std::convertible_to<std::string_view>;
  { Policy::template weight<fp8_e4m3>() } -> std::same_as<double>;
};

/// Chooses the scale of every group of a matrix: `scales[g]`, positive and finite, one for each group of `layout`; the
/// quantizer rounds them to BF16. Finite weights are a precondition. Groups of zeros alone may get any such scale.
template <class Policy, class Format>
concept scale_search = code_format<Format> && requires(const Policy policy, const cpu backend, weights_view weights,
                                                       group_layout layout, std::span<float> scales) {
  { Policy::name } -> std::convertible_to<std::string_view>;
  { policy.template search<Format>(backend, weights, layout, scales) } -> std::same_as<result<void>>;
};

/// Real matrix -> codes + stored scales: `codes[row * columns + column]`, `scales[g]` for each group of
/// `layout(rows, columns)`; weight = decode(code) * scale. Non-finite weights are an error naming row and column.
template <class Policy, class Format>
concept quantizer =
    code_format<Format> && requires(const Policy policy, const cpu backend, weights_view weights, std::size_t extent,
                                    std::span<std::uint8_t> codes, std::span<bf16> scales) {
      { Policy::name } -> std::convertible_to<std::string_view>;
      { policy.layout(extent, extent) } -> std::same_as<group_layout>;
      { policy.template quantize<Format>(backend, weights, codes, scales) } -> std::same_as<result<void>>;
    };

/// As quantizer for codes that count from a zero point, one for the whole matrix, which it sets as well: weight =
/// decode(code) * scale + zero. decode(code) * scale and weight are finite for every code.
template <class Policy, class Format>
concept affine_quantizer =
    affine_format<Format> && requires(const Policy policy, const cpu backend, weights_view weights, std::size_t extent,
                                      std::span<std::uint8_t> codes, std::span<bf16> scales, float& zero) {
      { Policy::name } -> std::convertible_to<std::string_view>;
      { policy.layout(extent, extent) } -> std::same_as<group_layout>;
      { policy.template quantize<Format>(backend, weights, codes, scales, zero) } -> std::same_as<result<void>>;
    };

}  // namespace ecq
