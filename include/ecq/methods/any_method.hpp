#pragma once
/// \file
/// Any compression method, chosen at run time.

#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "ecq/base/config.hpp"
#include "ecq/base/result.hpp"
#include "ecq/format/dtype.hpp"
#include "ecq/methods/lossless_method.hpp"
#include "ecq/methods/method.hpp"
#include "ecq/methods/method_of.hpp"
#include "ecq/quantize/entquant.hpp"
#include "ecq/quantize/entrollm.hpp"
#include "ecq/quantize/tcq.hpp"

namespace ecq {

/// Compression method and its options, as a value:
///
///   any_method(entquant{.target_bits = 3.0})                          // codes of FP8 E4M3
///   any_method(dtype::int8, entquant{.lambda = 14.5})
///   any_method(dtype::uint4, entrollm{})
///   any_method(tcq{.target_bits = 2.1})                               // codes of Int8 on a trellis
///   any_method(lossless_weights{.pairs = true})
///   any_method::of<my_format>(my_quantizer{})                         // a user's policies
///   any_method(std::make_shared<const my_method>())                   // or a whole method
///
/// The default is EntQuant without its parameter; using it is an error.
class any_method {
 public:
  any_method() : any_method(entquant{}) {}
  any_method(const entquant& quantizer) : any_method(dtype::fp8_e4m3, quantizer) {}
  any_method(const entrollm& quantizer) : any_method(dtype::uint8, quantizer) {}
  any_method(const tcq& how);
  any_method(const lossless_weights& how);
  /// `codes` is fp8_e4m3, fp8_e5m2 or int8.
  any_method(dtype codes, const entquant& quantizer);
  /// `codes` is uint8 or uint4.
  any_method(dtype codes, const entrollm& quantizer);
  any_method(std::shared_ptr<const compression_method> method) : method_(std::move(method)) {}

  /// Returns the method of a quantiser, which may be affine, to codes of `Format`.
  template <class Format, class Quantizer>
  static any_method of(const Quantizer& quantizer) {
    return any_method(std::make_shared<const detail::method_of<Format, Quantizer>>(quantizer));
  }

  /// Returns the method. Errors: invalid_argument for codes that the quantiser does not make, and for unusable options.
  result<std::shared_ptr<const compression_method>> get() const {
    if (method_ == nullptr) return error(errc::invalid_argument, wrong_.empty() ? "no method" : wrong_);
    ECQ_CHECK(method_->check());
    return method_;
  }

 private:
  std::shared_ptr<const compression_method> method_;
  std::string wrong_;  ///< reason why there is no method
};

}  // namespace ecq

#if ECQ_HEADER_ONLY
#include "ecq/methods/any_method-inl.hpp"
#endif
