// Products of activations and a dense matrix: their tiles, and the division of work among threads.

#include "product.hpp"

#include <algorithm>
#include <cstddef>

#include "dot_tile.hpp"
#include "ecq/base/instruction_set.hpp"
#include "thread_pool.hpp"

namespace llama {

namespace {

/// Computes out(token, row) for `Tokens` tokens from `token` on and `rows` rows from `first` on.
template <std::size_t Rows, std::size_t Tokens>
void multiply_tokens(bool vectors, ecq::matrix_view<const ecq::bf16> weights, ecq::matrix_view<const float> in,
                     ecq::matrix_view<float> out, std::size_t token, std::size_t first, std::size_t rows) noexcept {
  float sums[Rows * Tokens];
  std::size_t row = first;
  const auto stride = static_cast<std::size_t>(weights.row_stride());
  const auto token_stride = static_cast<std::size_t>(in.row_stride());
  for (; row + Rows <= first + rows; row += Rows) {
    detail::dot_tile<Rows, Tokens>(vectors, &weights(row, 0), stride, &in(token, 0), token_stride, weights.columns(),
                                   sums);
    for (std::size_t at = 0; at < Rows * Tokens; ++at) out(token + at % Tokens, row + at / Tokens) = sums[at];
  }
  for (; row < first + rows; ++row) {
    detail::dot_tile<1, Tokens>(vectors, &weights(row, 0), stride, &in(token, 0), token_stride, weights.columns(),
                                sums);
    for (std::size_t at = 0; at < Tokens; ++at) out(token + at, row) = sums[at];
  }
}

}  // namespace

bool has_vectors() noexcept {
  return ecq::chosen_instruction_set(ecq::instruction_set::automatic) >= ecq::instruction_set::avx2;
}

void multiply(thread_pool& pool, ecq::matrix_view<const ecq::bf16> weights, ecq::matrix_view<const float> in,
              ecq::matrix_view<float> out) noexcept {
  constexpr std::size_t rows_at_a_time = 16;    // which stay in a cache while all tokens pass
  constexpr std::size_t least_share = 1 << 15;  // multiplications that a thread takes at a time
  const bool vectors = has_vectors();
  const auto multiply_rows = [&](std::size_t first, std::size_t rows) {
    std::size_t token = 0;
    for (; token + 2 <= in.rows(); token += 2) {
      multiply_tokens<2, 2>(vectors, weights, in, out, token, first, rows);
    }
    if (token < in.rows()) multiply_tokens<4, 1>(vectors, weights, in, out, token, first, rows);
  };
  const std::size_t share = least_share / (std::max)(std::size_t{1}, weights.columns() * in.rows());
  const std::size_t step = (std::max)(rows_at_a_time, share / rows_at_a_time * rows_at_a_time);
  pool.run((weights.rows() + step - 1) / step, weights.size() * in.rows(), [&](std::size_t index, std::size_t) {
    const std::size_t first = index * step;
    const std::size_t end = (std::min)(first + step, weights.rows());
    for (std::size_t row = first; row < end; row += rows_at_a_time) {
      multiply_rows(row, (std::min)(rows_at_a_time, end - row));
    }
  });
}

}  // namespace llama
