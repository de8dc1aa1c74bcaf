#pragma once
/// \file
/// Dot products by AVX2 or in plain C++.

#include <cstddef>

#include "dot.hpp"
#include "dot_avx2.hpp"
#include "ecq/base/config.hpp"

namespace llama::detail {

/// Sets sums[row * Tokens + token] to the dot product of a row and a token. `vectors`: whether to use AVX2.
template <std::size_t Rows, std::size_t Tokens, class Weight>
void dot_tile(bool vectors, const Weight* weights, std::size_t row_stride, const float* values,
              std::size_t token_stride, std::size_t size, float* sums) noexcept {
#if ECQ_X86
  if (vectors) return avx2::dot_tile<Rows, Tokens>(weights, row_stride, values, token_stride, size, sums);
#endif
  static_cast<void>(vectors);
  for (std::size_t row = 0; row < Rows; ++row) {
    for (std::size_t token = 0; token < Tokens; ++token) {
      sums[row * Tokens + token] = dot(weights + row * row_stride, values + token * token_stride, size);
    }
  }
}

}  // namespace llama::detail
