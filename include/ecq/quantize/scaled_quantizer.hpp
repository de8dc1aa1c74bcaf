#pragma once
/// \file
/// A quantiser made of a scale search and a granularity.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "ecq/base/backend.hpp"
#include "ecq/base/result.hpp"
#include "ecq/format/bf16.hpp"
#include "ecq/format/fp32.hpp"
#include "ecq/format/weights_view.hpp"
#include "ecq/quantize/absmax_search.hpp"
#include "ecq/quantize/finite.hpp"
#include "ecq/quantize/granularity.hpp"
#include "ecq/quantize/padded_row.hpp"
#include "ecq/quantize/quantizer.hpp"
#include "ecq/quantize/rounding.hpp"
#include "ecq/quantize/scale_search.hpp"
#include "ecq/quantize/stored_scale.hpp"

namespace ecq {

namespace detail {

/// Sets codes[i] to Format::encode(weights[i] * (1 / scale)), with quotient and product each rounded to FP32, and -0
/// encoded as +0. Precondition: `weights` is padded to a multiple of row_padding, and `codes` is not longer.
template <class Format>
void encode_weights(std::span<const float> weights, float scale, std::span<std::uint8_t> codes) noexcept {
  const float inverse = 1.0F / scale;
  for (std::size_t first = 0; first < codes.size(); first += row_padding) {
    std::uint32_t words[row_padding];
    for (std::size_t at = 0; at < row_padding; at += lanes_at_once) {
      float_lanes values;
      std::memcpy(&values, weights.data() + first + at, sizeof values);
      const word_lanes encoded = rounding<Format>::encode(values * inverse);
      std::memcpy(words + at, &encoded, sizeof encoded);
    }
    std::uint8_t bytes[row_padding];
    for (std::size_t at = 0; at < row_padding; ++at) bytes[at] = static_cast<std::uint8_t>(words[at]);
    std::memcpy(codes.data() + first, bytes, (std::min)(row_padding, codes.size() - first));
  }
}

}  // namespace detail

/// A quantiser whose scales are found by `Search`, shared as `Granularity` says, and stored as BF16. Codes follow from
/// the stored scale: Format::encode(w * (1 / scale)), with the reciprocal and the product each rounded to FP32, and -0
/// encoded as +0.
template <class Search, granularity Granularity = per_channel>
struct scaled_quantizer {
  static constexpr std::string_view name = Search::name;

  Search scale_search{};
  Granularity granularity{};

  constexpr group_layout layout(std::size_t rows, std::size_t columns) const noexcept {
    return granularity.layout(rows, columns);
  }

  /// Returns a copy with these factors of lambda for its rows (row_weighted), if the search supports them.
  constexpr scaled_quantizer with_row_factors(std::span<const double> factors) const noexcept
    requires requires(Search search) { search.row_factors = factors; }
  {
    scaled_quantizer weighted = *this;
    weighted.scale_search.row_factors = factors;
    return weighted;
  }

  /// Writes rows * columns codes, row-major, and layout(rows, columns).count() scales. Errors: errc::invalid_argument
  /// if the spans have other sizes or the search finds a scale that is not positive and finite, errc::non_finite for
  /// NaN or infinity among the weights, and those of the search. Needs memory for about one row per thread.
  template <code_format Format>
    requires ecq::scale_search<Search, Format>
  result<void> quantize(const cpu& backend, weights_view weights, std::span<std::uint8_t> codes,
                        std::span<bf16> scales) const;
};

template <class Search, granularity Granularity>
template <code_format Format>
  requires ecq::scale_search<Search, Format>
result<void> scaled_quantizer<Search, Granularity>::quantize(const cpu& backend, weights_view weights,
                                                             std::span<std::uint8_t> codes,
                                                             std::span<bf16> scales) const {
  const group_layout groups = layout(weights.rows(), weights.columns());
  ECQ_CHECK(detail::check_layout(weights, groups, scales.size()));
  if (codes.size() != weights.size()) {
    return error(errc::invalid_argument, "output has room for ", codes.size(), " codes, but there are ", weights.size(),
                 " weights");
  }
  ECQ_CHECK(check_finite(backend, weights));
  std::vector<float> exact_scales(scales.size());
  ECQ_CHECK(scale_search.template search<Format>(backend, weights, groups, std::span<float>(exact_scales)));
  for (std::size_t group = 0; group < scales.size(); ++group) {
    if (!(exact_scales[group] > 0) || !fp32::is_finite(std::bit_cast<std::uint32_t>(exact_scales[group]))) {
      return error(errc::invalid_argument, "scale search '", name, "' returned the invalid scale ", exact_scales[group],
                   " for row ", group / groups.groups_across() * groups.rows_per_group, ", column ",
                   group % groups.groups_across() * groups.columns_per_group);
    }
    scales[group] = stored_scale<Format>(exact_scales[group]);
  }
  if (weights.empty()) return {};  // however many rows there are
  return parallel_for(backend, weights.rows(), [&](std::size_t row) -> result<void> {
    const std::size_t first_group = row / groups.rows_per_group * groups.groups_across();
    std::vector<float> values;
    for (std::size_t across = 0; across < groups.groups_across(); ++across) {
      const std::size_t column = across * groups.columns_per_group;
      const std::size_t count = (std::min)(groups.columns_per_group, groups.columns - column);
      detail::load_padded(weights, row, column, count, values);
      detail::encode_weights<Format>(values, scales[first_group + across],
                                     codes.subspan(row * groups.columns + column, count));
    }
    return {};
  });
}

/// AbsMax: the largest weight of every row becomes the largest code.
using absmax = scaled_quantizer<absmax_search>;

static_assert(quantizer<absmax, fp8_e4m3>);

}  // namespace ecq
