#pragma once
/// \file
/// Definition of the choice of a shipped method at run time.

#include <memory>
#include <string>

#include "ecq/base/config.hpp"
#include "ecq/format/dtype.hpp"
#include "ecq/format/number_format.hpp"
#include "ecq/methods/any_method.hpp"
#include "ecq/methods/lossless_method.hpp"
#include "ecq/methods/method_of.hpp"
#include "ecq/methods/tcq_method.hpp"
#include "ecq/quantize/quantizer.hpp"

namespace ecq {

namespace detail {

/// Returns the method that quantises with `how` to codes of the format `codes`, or nullptr if `Quantizer` makes no
/// codes of that format.
template <class Quantizer>
std::shared_ptr<const compression_method> method_by_codes(dtype codes, const Quantizer& how) {
  std::shared_ptr<const compression_method> made;
  if (!is_affine(codes) && codes != dtype::fp8_e4m3 && codes != dtype::fp8_e5m2 && codes != dtype::int8) return made;
  visit_code_format(codes, [&]<class Format>() {
    if constexpr (quantizer<Quantizer, Format> || affine_quantizer<Quantizer, Format>) {
      made = std::make_shared<const method_of<Format, Quantizer>>(how);
    }
  });
  return made;
}

}  // namespace detail

ECQ_INLINE any_method::any_method(const tcq& how) : method_(std::make_shared<const detail::tcq_method>(how)) {}

ECQ_INLINE any_method::any_method(const lossless_weights& how)
    : method_(std::make_shared<const detail::lossless_method>(how)) {}

ECQ_INLINE any_method::any_method(dtype codes, const entquant& quantizer)
    : method_(detail::method_by_codes(codes, quantizer)) {
  if (!method_) wrong_ = "codes are fp8_e4m3, fp8_e5m2 or int8, not " + std::string(to_string(codes));
}

ECQ_INLINE any_method::any_method(dtype codes, const entrollm& quantizer)
    : method_(detail::method_by_codes(codes, quantizer)) {
  if (!method_) wrong_ = "codes are uint8 or uint4, not " + std::string(to_string(codes));
}

}  // namespace ecq
