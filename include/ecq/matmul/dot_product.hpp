#pragma once
/// \file
/// Dot products of a run of codes or weights with rows of activations. Every kernel keeps at least 16 partial sums, and
/// adds up a few products at the end separately. So a sum of n products is off by at most (n / 8 + 48) 2^-24 times the
/// sum of their magnitudes.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "ecq/base/config.hpp"
#include "ecq/base/instruction_set.hpp"
#include "ecq/matmul/code_table.hpp"
#include "ecq/matmul/dot_product_avx2.hpp"
#include "ecq/matmul/dot_product_avx512.hpp"

namespace ecq::detail {

/// Number of weights converted at a time if several rows of activations need them; they stay in the L1 cache.
inline constexpr std::size_t weights_per_tile = 2048;

/// Returns the sum of weights[i] * x[i].
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

/// Weights of a few rows in FP32, and the sums of their products with rows of activations. Products in integers need no
/// weights in FP32 and take more rows.
struct row_tile {
  static constexpr std::size_t most_rows = 4;
  static constexpr std::size_t most_integer_rows = 32;
  static constexpr std::size_t most_batch = 64;

  alignas(64) float weights[most_rows][weights_per_tile];
  float sums[most_integer_rows][most_batch];
};

/// tile.sums[row][b] += sum of tile.weights[row][i] * x[b * stride + i].
inline void add_products(row_tile& tile, std::size_t rows, const float* x, std::size_t stride, std::size_t count,
                         std::size_t batch, instruction_set isa) {
  std::size_t b = 0;
#if ECQ_X86
  if (isa == instruction_set::avx512 && rows == row_tile::most_rows) {
    for (; b + 4 <= batch; b += 4) {
      avx512::add_four_by_four_dots(tile.weights[0], weights_per_tile, x + b * stride, stride, count, tile.sums[0] + b,
                                    row_tile::most_batch);
    }
  }
#endif
  for (std::size_t row = 0; row < rows; ++row) {
    add_dots(tile.weights[row], x + b * stride, stride, count, batch - b, tile.sums[row] + b, isa);
  }
}

/// Converts codes to their values. `isa` is a result of chosen_instruction_set().
inline void look_up(const code_table& table, const std::byte* codes, std::size_t count, float* values,
                    [[maybe_unused]] instruction_set isa) {
  std::size_t i = 0;
#if ECQ_X86
  if (isa == instruction_set::avx512 && table.exact_halves) {
    i = count / 32 * 32;
    avx512::look_up(table.halves.data(), codes, i, values);
  }
#endif
  for (; i < count; ++i) values[i] = table.values[std::to_integer<std::uint8_t>(codes[i])];
}

/// Returns how many codes, from the first one on, dot_codes() multiplies without a tile. `isa` is a result of
/// chosen_instruction_set().
inline std::size_t codes_without_tile([[maybe_unused]] const code_table& table, [[maybe_unused]] std::size_t count,
                                      [[maybe_unused]] instruction_set isa) {
#if ECQ_X86
  if (isa == instruction_set::avx512 && table.exact_halves) return count / 64 * 64;
#endif
  return 0;
}

/// Returns the sum of (value of codes[i]) * x[i]; `count` is a result of codes_without_tile().
inline float dot_codes([[maybe_unused]] const code_table& table, [[maybe_unused]] const std::byte* codes,
                       [[maybe_unused]] const float* x, [[maybe_unused]] std::size_t count) {
#if ECQ_X86
  return avx512::dot_codes(table.halves.data(), codes, x, count);
#else
  return 0;
#endif
}

}  // namespace ecq::detail
