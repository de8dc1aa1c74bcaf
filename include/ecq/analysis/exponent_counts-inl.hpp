#pragma once
/// \file
/// Definition of the counts of exponents.

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <vector>

#include "ecq/analysis/code_statistics.hpp"
#include "ecq/analysis/exponent_counts.hpp"
#include "ecq/base/backend.hpp"
#include "ecq/base/config.hpp"
#include "ecq/base/result.hpp"
#include "ecq/entropy/histogram.hpp"
#include "ecq/entropy/symbol_map.hpp"
#include "ecq/format/dtype.hpp"
#include "ecq/format/weights_view.hpp"

namespace ecq {

ECQ_INLINE histogram exponent_counts::fields_in(dtype format) const noexcept {
  return visit_split(format, [&]<class Split>() {
    constexpr int top = (1 << Split::symbol_bits) - 1;
    constexpr int bias = top / 2;
    histogram folded;
    for (int field = 0; field < 256; ++field) {
      const int here = field == 255 ? top : (std::clamp)(field - fp32_bias + bias, 0, top);
      folded.counts[static_cast<std::size_t>(here)] += fields.counts[static_cast<std::size_t>(field)];
    }
    return folded;
  });
}

ECQ_INLINE double exponent_entropy(const exponent_counts& counts, dtype format) noexcept {
  return entropy_of(counts.fields_in(format));
}

ECQ_INLINE double lossless_bits(const exponent_counts& counts, dtype format) noexcept {
  const unsigned raw = visit_split(format, [&]<class Split>() { return low_bits<Split>; });
  return exponent_entropy(counts, format) + static_cast<double>(raw);
}

namespace detail {

ECQ_INLINE void add_exponents(std::span<const float> weights, histogram& counts) noexcept {
  std::array<std::uint8_t, exponents_at_once> fields;
  if (weights.size() < 256) {  // histogram::add would be slower for so few
    for (const float weight : weights) ++counts.counts[(std::bit_cast<std::uint32_t>(weight) >> 23) & 0xFFU];
    return;
  }
  for (; !weights.empty(); weights = weights.subspan((std::min)(weights.size(), fields.size()))) {
    const std::size_t count = (std::min)(weights.size(), fields.size());
    for (std::size_t index = 0; index < count; ++index) {
      fields[index] = static_cast<std::uint8_t>(std::bit_cast<std::uint32_t>(weights[index]) >> 23);
    }
    counts.add(std::span(fields).first(count));
  }
}

ECQ_INLINE result<exponent_counts> count_rows(
    const cpu& backend, const weights_view& weights,
    const std::function<void(std::size_t row, std::span<float> buffer, histogram& counts)>& count) {
  constexpr std::size_t weights_per_task = std::size_t{1} << 18;
  if (weights.empty()) return exponent_counts{};
  const std::size_t rows = (std::max)(std::size_t{1}, weights_per_task / weights.columns());
  exponent_counts all;
  std::mutex guard;
  ECQ_CHECK(parallel_for(backend, (weights.rows() - 1) / rows + 1, [&](std::size_t task) -> result<void> {
    std::vector<float> buffer(exponents_at_once);
    histogram part;
    const std::size_t end = (std::min)(weights.rows(), (task + 1) * rows);
    for (std::size_t row = task * rows; row < end; ++row) count(row, std::span(buffer), part);
    const std::scoped_lock lock(guard);
    all.fields += part;
    return {};
  }));
  return all;
}

}  // namespace detail

ECQ_INLINE result<exponent_counts> count_weight_exponents(const cpu& backend, weights_view weights) {
  return detail::count_rows(backend, weights, [&](std::size_t row, std::span<float> buffer, histogram& counts) {
    for (std::size_t column = 0; column < weights.columns(); column += buffer.size()) {
      const auto piece = buffer.first((std::min)(buffer.size(), weights.columns() - column));
      weights.load(row, column, piece);
      detail::add_exponents(piece, counts);
    }
  });
}

}  // namespace ecq
