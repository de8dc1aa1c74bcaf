#pragma once
/// \file
/// Definition of RTN.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>

#include "ecq/format/bf16.hpp"
#include "ecq/quantize/rtn.hpp"

namespace ecq {
namespace detail {

ECQ_EXACT_FLOAT inline void round_row(int bits, std::span<float> weights, std::uint8_t* codes) noexcept {
  ECQ_EXACT_FLOAT_BODY
  const auto largest = static_cast<float>((1 << (bits - 1)) - 1);
  float most = 0;
  for (const float weight : weights) most = (std::max)(most, std::fabs(weight));
  // With the largest scale, the largest code is still within FP32.
  constexpr float end = (std::numeric_limits<float>::max)();
  const float coarsest =
      bf16::from_bits(static_cast<bf16::code_type>(std::bit_cast<std::uint32_t>(end / largest) >> 16));
  const float scale = bf16((std::min)(most / largest, coarsest));
  for (std::size_t column = 0; column < weights.size(); ++column) {
    // A row of zeros, or of weights below BF16's range, has scale 0.
    const float exact = scale == 0.0F ? 0.0F : weights[column] / scale;
    const float code = nearest_integer((std::min)((std::max)(exact, -largest - 1), largest));
    codes[column] = static_cast<std::uint8_t>(static_cast<int>(code));
    weights[column] = code * scale;
  }
}

}  // namespace detail

ECQ_INLINE result<baseline_result> rtn::apply(const cpu& backend, weights_view weights) const {
  ECQ_CHECK(detail::check_bits(name, bits));
  ECQ_TRY(rounded, detail::load_for_baseline(backend, weights));
  if (weights.empty()) return std::move(rounded);
  const std::size_t columns = weights.columns();
  ECQ_CHECK(parallel_for(backend, weights.rows(), [&](std::size_t row) -> result<void> {
    detail::round_row(bits, std::span(rounded.weights).subspan(row * columns, columns),
                      rounded.codes.data() + row * columns);
    return {};
  }));
  rounded.bits_per_weight = bits + static_cast<double>(bf16::bits_per_code) / static_cast<double>(columns);
  return std::move(rounded);
}

}  // namespace ecq
