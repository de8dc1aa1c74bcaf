#pragma once
/// \file
/// Compression method of trellis-coded quantisation, for any_method and as `compressor<int8, rans, tcq>`.

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ecq/base/backend.hpp"
#include "ecq/base/config.hpp"
#include "ecq/base/result.hpp"
#include "ecq/format/int8.hpp"
#include "ecq/methods/method.hpp"
#include "ecq/methods/method_of.hpp"
#include "ecq/quantize/model_sample.hpp"
#include "ecq/quantize/tcq.hpp"

namespace ecq::detail {

struct tcq_plan;

class tcq_method final : public compression_method {
 public:
  explicit tcq_method(const tcq& how) : how_(how) {}

  std::string settings() const override;
  result<void> check() const override { return how_.check(); }
  std::optional<double> target_bits() const override { return how_.target_bits; }
  std::string_view stage() const override { return target_bits() ? "searching lambda" : "sampling weights"; }

  result<std::unique_ptr<const prepared_method>> prepare(const cpu& backend, matrix_streams streams,
                                                         const method_setting& setting) const override;

  /// Finds everything that quantisation needs to know beforehand. The period is no longer than a chunk of any stream.
  result<tcq_plan> find_plan(const cpu& backend, matrix_streams streams, const method_setting& setting) const;

 private:
  /// Sets the lambda of the plan, which meets the target, and its bits.
  result<void> search_lambda(const cpu& backend, matrix_streams streams, const method_setting& setting,
                             tcq_plan& plan) const;

  /// Sets the bits of the plan for its lambda.
  result<void> look_at_sample(const cpu& backend, std::span<const rate_input> inputs,
                              std::span<const named_weights* const> matrices, const method_setting& setting,
                              tcq_plan& plan) const;

  tcq how_;
};

template <>
struct own_method<int8, tcq> {
  using type = tcq_method;
};

}  // namespace ecq::detail

#if ECQ_HEADER_ONLY
#include "ecq/methods/tcq_method-inl.hpp"
#endif
