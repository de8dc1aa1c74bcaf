#pragma once
/// \file
/// The concept of a scale search.

#include <concepts>
#include <span>
#include <string_view>

#include "ecq/base/backend.hpp"
#include "ecq/base/result.hpp"
#include "ecq/format/number_format.hpp"
#include "ecq/format/weights_view.hpp"
#include "ecq/quantize/granularity.hpp"

namespace ecq {

/// A policy that chooses the scale of every group of a matrix: `scales[g]`, positive and finite, one for each group of
/// `layout`; the quantizer rounds them to BF16. Precondition: the weights are finite. A group of zeros may get any such
/// scale.
template <class Policy, class Format>
concept scale_search = code_format<Format> && requires(const Policy policy, const cpu backend, weights_view weights,
                                                       group_layout layout, std::span<float> scales) {
  { Policy::name } -> std::convertible_to<std::string_view>;
  { policy.template search<Format>(backend, weights, layout, scales) } -> std::same_as<result<void>>;
};

}  // namespace ecq
