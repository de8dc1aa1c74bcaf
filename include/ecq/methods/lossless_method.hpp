#pragma once
/// \file
/// Compression method that changes no bit: exponents are entropy coded, sign and mantissa stay as they are.

#include <cstddef>
#include <memory>
#include <string>

#include "ecq/base/backend.hpp"
#include "ecq/base/result.hpp"
#include "ecq/methods/method.hpp"

namespace ecq {

/// Compression that keeps every bit. For BF16 it has the composition of DFloat11 (arXiv:2504.11651), for FP8 that of
/// ECF8 (arXiv:2510.02676).
struct lossless_weights {
  bool pairs = false;  ///< whether exponents are coded two at a time (stream_options::pairs)
};

namespace detail {

/// Whether the rows of `view` follow one another without a gap.
template <class View>
bool contiguous(const View& view) {
  return view.empty() ||
         (view.column_stride() == 1 && view.row_stride() == static_cast<std::ptrdiff_t>(view.columns()));
}

class lossless_method final : public compression_method {
 public:
  explicit lossless_method(const lossless_weights& how) : how_(how) {}

  std::string settings() const override { return how_.pairs ? "lossless, pairs" : "lossless"; }
  stream_sharing sharing() const override { return stream_sharing::format; }
  bool lossless() const override { return true; }

  result<std::unique_ptr<const prepared_method>> prepare(const cpu&, matrix_streams,
                                                         const method_setting&) const override;

 private:
  lossless_weights how_;
};

}  // namespace detail
}  // namespace ecq

#if ECQ_HEADER_ONLY
#include "ecq/methods/lossless_method-inl.hpp"
#endif
