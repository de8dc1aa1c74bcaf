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

/// A scale search with one parameter, lambda: the greater it is, the fewer bits the codes take.
template <class Search>
concept lambda_search = std::copyable<Search> && requires(const Search search, double lambda) {
  { Search::name } -> std::convertible_to<std::string_view>;
  { search.lambda } -> std::convertible_to<double>;
  Search{lambda};
};

/// A quantiser whose scales minimise distortion plus lambda times a regulariser, as found by `Search`: by default,
/// EntQuant's relative L1 distortion and the L1 norm of the codes. To use others, name them in the search,
/// `basic_entquant<row_root<squared_error>>`, or write a search. Set exactly one of the two parameters:
/// `entquant{.target_bits = 3.0}` or `entquant{.lambda = 14.5}`.
template <lambda_search Search = row_root<>, ecq::granularity Granularity = per_channel>
struct basic_entquant {
  static constexpr std::string_view name = "entquant";

  /// Bits per weight, scales included. Targets from 1.3 to 6.5 are met within rate_correction::tolerance if there are
  /// enough weights to choose from. A target above what AbsMax needs gives AbsMax.
  std::optional<double> target_bits{};
  /// At least 0. For Gaussian weights in FP8, 3.9, 14.5, 58 and 256 give 3.9, 3.0, 2.1 and 1.3 bits; 0 is AbsMax.
  std::optional<double> lambda{};
  /// Every matrix of a block or of a model meets target_bits with its own lambda, instead of all matrices together with
  /// one lambda. Matrices of fewer than 4096 weights that cannot meet it take the mean of the others' lambdas.
  bool each_matrix = false;
  Granularity granularity{};

  constexpr group_layout layout(std::size_t rows, std::size_t columns) const noexcept {
    return granularity.layout(rows, columns);
  }

  /// Returns the quantiser at a known lambda, such as the one that lambda_for_bits() finds for all matrices of a model.
  constexpr scaled_quantizer<Search, Granularity> at(double chosen_lambda) const noexcept {
    return {Search{chosen_lambda}, granularity};
  }

  /// Fails with errc::invalid_argument unless exactly one parameter is set, and if each_matrix is set without
  /// target_bits.
  result<void> check() const {
    if (each_matrix && !target_bits) {
      return error(errc::invalid_argument, "entquant: each_matrix is set, but not target_bits");
    }
    if (target_bits.has_value() != lambda.has_value()) return {};
    return error(errc::invalid_argument, target_bits ? "entquant: target_bits and lambda are both set"
                                                     : "entquant: neither target_bits nor lambda is set");
  }

  /// Makes codes and scales like scaled_quantizer::quantize. Errors: those of scaled_quantizer::quantize, of check()
  /// and, with target_bits, of lambda_for_bits() and rate_correction::check(). Target bits count the entropy of the
  /// codes and the scales.
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

/// EntQuant with one scale per row, as published.
using entquant = basic_entquant<>;

static_assert(lambda_search<row_root<>>);
static_assert(row_weighted<scaled_quantizer<row_root<>>> && !row_weighted<absmax>);
static_assert(quantizer<entquant, fp8_e4m3> && quantizer<basic_entquant<row_root<squared_error>>, fp8_e4m3>);

/// \def ECQ_INSTANCES_OF_ENTQUANT
/// The shipped compositions, which the compiled library contains. Compositions with a user's searches and granularities
/// are instantiated where they are used.
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
