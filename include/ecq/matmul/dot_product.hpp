#pragma once
/// \file
/// Dot products of a run of codes or weights with rows of activations. Every kernel keeps 16 partial sums or more, and
/// a few products at the end apart, so a sum of n products is off by at most (n / 8 + 48) 2^-24 times the sum of their
/// magnitudes.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "ecq/base/config.hpp"
#include "ecq/base/instruction_set.hpp"
#include "ecq/matmul/code_table.hpp"
#include "ecq/matmul/dot_product_avx2.hpp"
#include "ecq/matmul/dot_product_avx512.hpp"

namespace ecq::detail {

/// The weights that are converted at a time where several rows of activations need them: they stay in the first cache.
inline constexpr std::size_t weights_per_tile = 2048;

/// sum of weights[i] * x[i].
inline float dot_scalar(const float* weights, const float* x, std::size_t count) {
  constexpr std::size_t lanes = 16;
  float sums[lanes] = {};
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    for (std::size_t lane = 0; lane < lanes; ++lane) sums[lane] += weights[i + lane] * x[i + lane];
  }
  for (std::size_t lane = 0; i < count; ++i, ++lane) sums[lane] += weights[i] * x[i];
  for (std::size_t half = lanes / 2; half != 0; half /= 2) {
    for (std::size_t lane = 0; lane < half; ++lane) sums[lane] += sums[lane + half];
  }
  return sums[0];
}

/// out[b] += sum of weights[i] * x[b * stride + i], for b below `batch`.
inline void add_dots(const float* weights, const float* x, std::size_t stride, std::size_t count, std::size_t batch,
                     float* out, instruction_set isa) {
  std::size_t b = 0;
#if ECQ_X86
  if (isa >= instruction_set::avx2) {
    const auto four = isa == instruction_set::avx512 ? avx512::add_four_dots : avx2::add_four_dots;
    const auto one = isa == instruction_set::avx512 ? avx512::dot : avx2::dot;
    for (; b + 4 <= batch; b += 4) four(weights, x + b * stride, stride, count, out + b);
    for (; b < batch; ++b) out[b] += one(weights, x + b * stride, count);
  }
#else
  static_cast<void>(isa);
#endif
  for (; b < batch; ++b) out[b] += dot_scalar(weights, x + b * stride, count);
}

/// Converts codes to their values.
inline void look_up(const code_table& table, const std::byte* codes, std::size_t count, float* values) {
  for (std::size_t i = 0; i < count; ++i) values[i] = table.values[std::to_integer<std::uint8_t>(codes[i])];
}

/// out[b] = sum of the values of codes[i] * x[b * stride + i], for b below `batch`. `isa` is a chosen one.
inline void dot_codes(const code_table& table, const std::byte* codes, const float* x, std::size_t stride,
                      std::size_t count, std::size_t batch, float* out, instruction_set isa) {
  std::fill_n(out, batch, 0.0F);
#if ECQ_X86
  if (batch == 1 && isa == instruction_set::avx512 && table.exact_halves) {
    const std::size_t whole = count / 64 * 64;
    out[0] = avx512::dot_codes(table.halves.data(), codes, x, whole);
    codes += whole;
    x += whole;
    count -= whole;
  }
#endif
  alignas(64) float values[weights_per_tile];
  for (std::size_t at = 0; at < count; at += weights_per_tile) {
    const std::size_t size = (std::min)(weights_per_tile, count - at);
    look_up(table, codes + at, size, values);
    add_dots(values, x + at, stride, size, batch, out, isa);
  }
}

}  // namespace ecq::detail
