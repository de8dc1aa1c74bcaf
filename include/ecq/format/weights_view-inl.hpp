#pragma once
/// \file
/// Definition of the reading of weights.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

#include "ecq/format/weights_view.hpp"

namespace ecq {

template <class Format>
void weights_view::load_as(std::size_t row, std::size_t first_column, std::span<float> out) const noexcept {
  using code_type = typename Format::code_type;
  constexpr std::ptrdiff_t element = sizeof(code_type);
  const std::byte* from = data_ + (static_cast<std::ptrdiff_t>(row) * row_stride_ +
                                   static_cast<std::ptrdiff_t>(first_column) * column_stride_) *
                                      element;
  const std::ptrdiff_t step = column_stride_ * element;
  if constexpr (std::is_same_v<Format, fp32>) {
    if (step == element && !out.empty()) {
      std::memcpy(out.data(), from, out.size_bytes());
      return;
    }
  }
  const auto each = [&](auto apart) {
    for (std::size_t column = 0; column < out.size(); ++column) {
      code_type code;
      std::memcpy(&code, from + static_cast<std::ptrdiff_t>(column) * apart, sizeof code);
      if constexpr (std::is_same_v<Format, bf16>) {
        // The usual case, without a branch per weight: a BF16 is the upper half of its FP32.
        out[column] = std::bit_cast<float>(static_cast<std::uint32_t>(code) << 16);
      } else {
        out[column] = Format::decode(code);
      }
    }
  };
  // With a constant distance, compilers vectorise the loop.
  step == element ? each(std::integral_constant<std::ptrdiff_t, element>{}) : each(step);
}

ECQ_INLINE void weights_view::scale(std::size_t row, std::size_t first_column, std::span<float> out) const noexcept {
  for (std::size_t at = 0; at < out.size();) {
    const std::size_t column = first_column + at;
    const std::size_t left = scales_->columns_per_scale - column % scales_->columns_per_scale;
    const std::span run = out.subspan(at, (std::min)(left, out.size() - at));
    const float factor = scales_->of(first_row_ + row * row_step_, column);
    for (float& value : run) value *= factor;
    at += run.size();
  }
}

ECQ_INLINE void weights_view::leave_exact_out(std::size_t row, std::size_t first_column,
                                              std::span<float> out) const noexcept {
  const std::uint64_t begin = std::uint64_t{first_row_ + row * row_step_} * columns_ + first_column;
  auto next = std::ranges::lower_bound(exact_, begin);
  // A user's positions may fail to ascend. Packing reports that; until then, no position may lead outside `out`.
  for (; next != exact_.end() && *next >= begin && *next < begin + out.size(); ++next) {
    out[static_cast<std::size_t>(*next - begin)] = 0;
  }
}

ECQ_INLINE void weights_view::load(std::size_t row, std::size_t first_column, std::span<float> out) const noexcept {
  visit_format(type_, [&]<class Format>() { load_as<Format>(row, first_column, out); });
  if (scales_) scale(row, first_column, out);
  if (!exact_.empty()) leave_exact_out(row, first_column, out);
}

}  // namespace ecq
