#pragma once
/// \file
/// Definition of the functions of packed matrices.

#include <cstddef>
#include <cstdint>
#include <optional>

#include "ecq/format/packed_scales.hpp"
#include "ecq/packed.hpp"

namespace ecq {

ECQ_INLINE std::uint64_t packed_matrix::side_bytes() const noexcept {
  return (lossless() ? 0 : packed_scale_bytes(scales)) + values.size() * sizeof(float) +
         exact.size() * exact_weight_bytes;
}

ECQ_INLINE std::optional<packed_matrix> with_rows_of_all(const packed_matrix& stack) {
  if (stack.is_bytes() || stack.shape.empty()) return std::nullopt;
  const std::uint64_t columns = stack.shape.size() == 1 ? 1 : stack.shape.back();
  const std::uint64_t size = std::uint64_t{stack.layout.rows} * stack.layout.columns;
  if (columns == 0 || size % columns != 0) return std::nullopt;
  const auto layout = stack.layout.with_rows(static_cast<std::size_t>(size / columns));
  if (!layout) return std::nullopt;
  packed_matrix made = stack;
  made.layout = *layout;
  made.shape = {size / columns, columns};
  return made;
}

}  // namespace ecq
