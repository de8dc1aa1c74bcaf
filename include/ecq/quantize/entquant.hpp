#pragma once
/// \file
/// EntQuant: scales chosen for the entropy of the codes.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "ecq/analysis/code_statistics.hpp"
#include "ecq/base/backend.hpp"
#include "ecq/base/config.hpp"
#include "ecq/base/result.hpp"
#include "ecq/entropy/histogram.hpp"
#include "ecq/format/bf16.hpp"
#include "ecq/format/fp8_e4m3.hpp"
#include "ecq/format/fp8_e5m2.hpp"
#include "ecq/format/int8.hpp"
#include "ecq/format/weights_view.hpp"
#include "ecq/quantize/granularity.hpp"
#include "ecq/quantize/quantizer.hpp"
#include "ecq/quantize/rate_correction.hpp"
#include "ecq/quantize/row_root.hpp"
#include "ecq/quantize/scaled_quantizer.hpp"
#include "ecq/quantize/target_bits.hpp"

namespace ecq {

/// A scale search with one parameter, lambda: the more of it, the fewer bits.
template <class Search>
concept lambda_search = std::copyable<Search> && requires(const Search search, double lambda) {
  { Search::name } -> std::convertible_to<std::string_view>;
  { search.lambda } -> std::convertible_to<double>;
  Search{lambda};
};

/// Distortion plus lambda times a regulariser, minimised by `Search`: by default EntQuant's relative L1 distortion and
/// L1 norm of the codes. Others are named in the search, `basic_entquant<row_root<squared_error>>`, or by a search of
/// one's own. Exactly one of the two parameters is set: `entquant{.target_bits = 3.0}` or `entquant{.lambda = 14.5}`.
template <lambda_search Search = row_root<>, ecq::granularity Granularity = per_channel>
struct basic_entquant {
  static constexpr std::string_view name = "entquant";

  /// Bits a weight, scales included. 1.3 to 6.5 are met within rate_correction::tolerance where there are weights
  /// enough to choose from; more than AbsMax needs gives AbsMax.
  std::optional<double> target_bits{};
  /// At least 0. For Gaussian weights in FP8, 3.9, 14.5, 58 and 256 give 3.9, 3.0, 2.1 and 1.3 bits; 0 is AbsMax.
  std::optional<double> lambda{};
  /// Every matrix of a block or of a model meets target_bits, by a lambda of its own, instead of all of them together.
  bool each_matrix = false;
  Granularity granularity{};

  constexpr group_layout layout(std::size_t rows, std::size_t columns) const noexcept {
    return granularity.layout(rows, columns);
  }

  /// The quantiser once lambda is known, as for a model where lambda_for_bits() finds one for all matrices.
  constexpr scaled_quantizer<Search, Granularity> at(double chosen_lambda) const noexcept {
    return {Search{chosen_lambda}, granularity};
  }

  /// errc::invalid_argument unless exactly one parameter is set, and for each_matrix without target_bits.
  result<void> check() const {
    if (each_matrix && !target_bits) {
      return error(errc::invalid_argument, "entquant: each_matrix is set, but not target_bits");
    }
    if (target_bits.has_value() != lambda.has_value()) return {};
    return error(errc::invalid_argument, target_bits ? "entquant: target_bits and lambda are both set"
                                                     : "entquant: neither target_bits nor lambda is set");
  }

  /// Codes and scales as scaled_quantizer::quantize makes them; errors of check() and, with target_bits, of
  /// lambda_for_bits() and rate_correction::check() besides. Target bits count the entropy of the codes, and scales.
  template <symmetric_format Format>
    requires scale_search<Search, Format>
  result<void> quantize(const cpu& backend, weights_view weights, std::span<std::uint8_t> codes,
                        std::span<bf16> scales) const;
};

template <lambda_search Search, ecq::granularity Granularity>
template <symmetric_format Format>
  requires scale_search<Search, Format>
result<void> basic_entquant<Search, Granularity>::quantize(const cpu& backend, weights_view weights,
                                                           std::span<std::uint8_t> codes,
                                                           std::span<bf16> scales) const {
  ECQ_CHECK(check());
  if (lambda) return at(*lambda).template quantize<Format>(backend, weights, codes, scales);
  const rate_input input{weights, 0};
  const auto quantizer_at = [this](double chosen) { return at(chosen); };
  ECQ_TRY(chosen,
          lambda_for_bits<Format>(backend, std::span(&input, 1), *target_bits, no_overhead{}, {}, quantizer_at));
  return meet_rate(target_bits, [&](const rate_correction& correction) -> result<measured_rate> {
    const double corrected = correction.at(chosen);
    ECQ_CHECK(at(corrected).template quantize<Format>(backend, weights, codes, scales));
    if (weights.empty()) return measured_rate{};
    ECQ_TRY(counts, count_codes(backend, codes));
    const double rate =
        entropy_of(counts) + 16.0 * static_cast<double>(scales.size()) / static_cast<double>(weights.size());
    return measured_rate{rate, weights.size(), corrected == 0};
  });
}

/// One scale a row, as published.
using entquant = basic_entquant<>;

static_assert(lambda_search<row_root<>>);
static_assert(quantizer<entquant, fp8_e4m3> && quantizer<basic_entquant<row_root<squared_error>>, fp8_e4m3>);

/// \def ECQ_INSTANCES_OF_ENTQUANT
/// The shipped compositions: the library has them, searches and granularities of one's own are made where they are
/// used.
#define ECQ_INSTANCES_OF_ENTQUANT(TEMPLATE, FORMAT)                                                                    \
  TEMPLATE result<void> absmax_search::search<FORMAT>(const cpu&, weights_view, group_layout, std::span<float>) const; \
  TEMPLATE result<void> row_root<>::search<FORMAT>(const cpu&, weights_view, group_layout, std::span<float>) const;    \
  TEMPLATE result<void> absmax::quantize<FORMAT>(const cpu&, weights_view, std::span<std::uint8_t>, std::span<bf16>)   \
      const;                                                                                                           \
  TEMPLATE result<void> scaled_quantizer<row_root<>>::quantize<FORMAT>(                                                \
      const cpu&, weights_view, std::span<std::uint8_t>, std::span<bf16>) const;                                       \
  TEMPLATE result<void> entquant::quantize<FORMAT>(const cpu&, weights_view, std::span<std::uint8_t>, std::span<bf16>) \
      const;

#if !ECQ_HEADER_ONLY
ECQ_INSTANCES_OF_ENTQUANT(extern template, fp8_e4m3)
ECQ_INSTANCES_OF_ENTQUANT(extern template, fp8_e5m2)
ECQ_INSTANCES_OF_ENTQUANT(extern template, int8)
#endif

}  // namespace ecq
