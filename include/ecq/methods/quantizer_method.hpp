#pragma once
/// \file
/// Compression method of a quantiser: EntQuant, or a user's own.

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ecq/base/backend.hpp"
#include "ecq/base/result.hpp"
#include "ecq/format/number_format.hpp"
#include "ecq/format/weights_view.hpp"
#include "ecq/methods/lambda_search.hpp"
#include "ecq/methods/method.hpp"
#include "ecq/packed.hpp"
#include "ecq/quantize/granularity.hpp"
#include "ecq/quantize/model_sample.hpp"
#include "ecq/quantize/quantizer.hpp"
#include "ecq/quantize/target_bits.hpp"

namespace ecq {

/// Quantiser whose parameter is found from a rate: `at(lambda)` returns the quantiser at a lambda; `target_bits` is the
/// rate, if one is asked for.
template <class Quantizer>
concept rate_targeted = requires(const Quantizer quantizer, double lambda) {
  { static_cast<bool>(quantizer.target_bits) } -> std::same_as<bool>;
  { *quantizer.target_bits } -> std::convertible_to<double>;
  quantizer.at(lambda);
};

namespace detail {

template <class Format, class Quantizer>
class prepared_quantizer final : public prepared_method {
 public:
  /// The lambda of a matrix is its entry of `lambdas` times its factors. There is an entry for every matrix, or none if
  /// the quantiser needs no lambda.
  prepared_quantizer(const Quantizer& quantizer, std::vector<double> lambdas, std::vector<lambda_factors> factors)
      : quantizer_(quantizer), lambdas_(std::move(lambdas)), factors_(std::move(factors)) {}

  void describe(std::size_t, const weights_view& weights, packed_matrix& described) const override {
    described.template set_format<Format>();
    described.layout = quantizer_.layout(weights.rows(), weights.columns());
  }

  result<void> encode(const cpu& backend, std::size_t index, const weights_view& weights,
                      const rate_correction& correction, packed_matrix& described,
                      std::span<std::byte> elements) const override {
    ECQ_CHECK(check_layout(weights, described.layout, described.scales.size()));
    const std::span codes(reinterpret_cast<std::uint8_t*>(elements.data()), elements.size());
    if constexpr (rate_targeted<Quantizer>) {
      if (!lambdas_.empty()) {
        return quantize_at<Format>([this](double lambda) { return quantizer_.at(lambda); },
                                   correction.at(lambdas_[index]), factors_[index], backend, weights, codes,
                                   described.scales);
      }
    }
    static_cast<void>(index);
    static_cast<void>(correction);
    return quantizer_.template quantize<Format>(backend, weights, codes, described.scales);
  }

  double lambda(const rate_correction& correction) const override {
    double most = 0;
    for (const double each : lambdas_) most = (std::max)(most, correction.at(each));
    if constexpr (requires { static_cast<bool>(quantizer_.lambda); }) {
      if (lambdas_.empty() && quantizer_.lambda) most = static_cast<double>(*quantizer_.lambda);
    }
    return most;
  }

 private:
  Quantizer quantizer_;
  std::vector<double> lambdas_;
  std::vector<lambda_factors> factors_;
};

template <class Format, class Quantizer>
class quantizer_method final : public compression_method {
 public:
  explicit quantizer_method(const Quantizer& quantizer) : quantizer_(quantizer) {}

  std::string settings() const override {
    const std::string_view format = Format::name;
    const std::string_view quantizer = Quantizer::name;
    if (const auto bits = target_bits()) return text_of(format, ", ", quantizer, ", bits ", *bits);
    if constexpr (requires { static_cast<bool>(quantizer_.lambda); }) {
      if (quantizer_.lambda) return text_of(format, ", ", quantizer, ", lambda ", *quantizer_.lambda);
    }
    return text_of(format, ", ", quantizer);
  }

  result<void> check() const override {
    if constexpr (requires { quantizer_.check(); }) return quantizer_.check();
    return {};
  }

  std::optional<double> target_bits() const override {
    if constexpr (rate_targeted<Quantizer>) {
      if (quantizer_.target_bits) return static_cast<double>(*quantizer_.target_bits);
    }
    return std::nullopt;
  }

  std::string_view stage() const override { return target_bits() ? "searching lambda" : std::string_view(); }

  result<std::unique_ptr<const prepared_method>> prepare(const cpu& backend, matrix_streams streams,
                                                         const method_setting& setting) const override {
    std::vector<double> lambdas;
    std::vector<lambda_factors> factors;
    if constexpr (rate_targeted<Quantizer>) {
      for (const auto& matrices : streams) {
        for (const named_weights& matrix : matrices) {
          ECQ_CHECK(check_lambda_factors(matrix, factors.size()));
          factors.push_back(matrix.factors());
        }
      }
      if (const auto target = target_bits()) {
        bool each_matrix = false;
        if constexpr (requires { static_cast<bool>(quantizer_.each_matrix); }) each_matrix = quantizer_.each_matrix;
        const auto at_lambda = quantizer_at_lambda::of<Format>([this](double lambda) { return quantizer_.at(lambda); });
        ECQ_TRY(found, find_lambdas(backend, streams, *target, each_matrix, setting, at_lambda));
        lambdas = std::move(found);
      } else if constexpr (requires { static_cast<double>(*quantizer_.lambda); }) {
        if (quantizer_.lambda) lambdas.assign(factors.size(), static_cast<double>(*quantizer_.lambda));
      }
    }
    return std::unique_ptr<const prepared_method>(std::make_unique<const prepared_quantizer<Format, Quantizer>>(
        quantizer_, std::move(lambdas), std::move(factors)));
  }

 private:
  Quantizer quantizer_;
};

}  // namespace detail
}  // namespace ecq
