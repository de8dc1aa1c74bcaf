#pragma once
/// \file
/// Definition of the method that changes no bit.

#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>
#include <span>

#include "ecq/format/dtype.hpp"
#include "ecq/format/weights_view.hpp"
#include "ecq/methods/lossless_method.hpp"
#include "ecq/packed.hpp"

namespace ecq::detail {

/// Copies the bits of `weights` to `to`, row by row, in the machine's byte order. `to` has exactly their size.
inline void copy_bits(const weights_view& weights, std::span<std::byte> to) {
  const std::size_t width = size_of(weights.type());
  const auto row_step = weights.row_stride() * static_cast<std::ptrdiff_t>(width);
  const auto column_step = weights.column_stride() * static_cast<std::ptrdiff_t>(width);
  std::byte* next = to.data();
  if (contiguous(weights)) {
    if (!to.empty()) std::memcpy(next, weights.data(), to.size());
    return;
  }
  for (std::size_t row = 0; row < weights.rows() && weights.columns() != 0; ++row) {
    const std::byte* from = weights.data() + static_cast<std::ptrdiff_t>(row) * row_step;
    if (weights.column_stride() == 1) {
      std::memcpy(next, from, weights.columns() * width);
      next += weights.columns() * width;
      continue;
    }
    for (std::size_t column = 0; column < weights.columns(); ++column, next += width) {
      std::memcpy(next, from + static_cast<std::ptrdiff_t>(column) * column_step, width);
    }
  }
}

class prepared_lossless final : public prepared_method {
 public:
  explicit prepared_lossless(const lossless_weights& how) : how_(how) {}

  void describe(std::size_t, const weights_view& weights, packed_matrix& described) const override {
    described.format = weights.type();
    described.layout = without_groups(weights.rows(), weights.columns());
  }

  result<void> encode(const cpu&, std::size_t, const weights_view& weights, const rate_correction&, packed_matrix&,
                      std::span<std::byte> elements) const override {
    copy_bits(weights, elements);
    return {};
  }

  std::optional<std::span<const std::byte>> in_place(const weights_view& weights) const override {
    if (!contiguous(weights)) return std::nullopt;
    return std::span(weights.data(), weights.size() * size_of(weights.type()));
  }

  stream_options options(const stream_options& given) const override {
    stream_options made = given;
    made.pairs = how_.pairs;
    return made;
  }

 private:
  lossless_weights how_;
};

ECQ_INLINE result<std::unique_ptr<const prepared_method>> lossless_method::prepare(const cpu&, matrix_streams,
                                                                                   const method_setting&) const {
  return std::unique_ptr<const prepared_method>(std::make_unique<const prepared_lossless>(how_));
}

}  // namespace ecq::detail
