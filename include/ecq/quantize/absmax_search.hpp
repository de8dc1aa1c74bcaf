#pragma once
/// \file
/// Search for the scale that just holds the largest weight.

#include <span>
#include <string_view>

#include "ecq/base/backend.hpp"
#include "ecq/base/result.hpp"
#include "ecq/format/fp8_e4m3.hpp"
#include "ecq/format/weights_view.hpp"
#include "ecq/quantize/balanced_scale.hpp"
#include "ecq/quantize/granularity.hpp"
#include "ecq/quantize/group_weights.hpp"
#include "ecq/quantize/scale_search.hpp"
#include "ecq/quantize/stored_scale.hpp"

namespace ecq {

/// Scale search that sets the scale of every group to max|w| / Format::largest, or to 1 for a group of zeros.
struct absmax_search {
  static constexpr std::string_view name = "absmax";

  template <code_format Format>
  result<void> search(const cpu& backend, weights_view weights, group_layout layout, std::span<float> scales) const;
};

template <code_format Format>
result<void> absmax_search::search(const cpu& backend, weights_view weights, group_layout layout,
                                   std::span<float> scales) const {
  ECQ_CHECK(detail::check_layout(weights, layout, scales.size()));
  return detail::for_each_group(
      backend, weights, layout, [&](std::size_t index, const detail::group_weights& group) -> result<void> {
        const float scale = detail::plain_arithmetic::divide(group.largest(), Format::largest);
        scales[index] =
            group.all_zero() ? detail::scale_of_zeros<Format>() : detail::denormalize<Format>(scale, group.exponent());
        return {};
      });
}

static_assert(scale_search<absmax_search, fp8_e4m3>);

}  // namespace ecq
