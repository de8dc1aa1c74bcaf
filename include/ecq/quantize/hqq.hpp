#pragma once
/// \file
/// HQQ: half-quadratic quantisation, with zero points fitted without data (Badri and Shaji, 2023).

#include <cstddef>
#include <span>
#include <string_view>

#include "ecq/quantize/baseline.hpp"

namespace ecq {

/// Quantiser of groups of `group_size` neighbouring weights of a row (the last of a row may be smaller), each with a
/// scale and a zero point in FP16: bits + 32 / group_size bits per weight. w is close to (code - zero) * scale, with
/// codes 0 ... 2^bits - 1. The zero points minimise sum |w - w^|^0.7: a shrinkage of the error and a mean alternate,
/// over the whole matrix, until the mean error no longer falls.
struct hqq {
  static constexpr std::string_view name = "hqq";
  static constexpr float norm = 0.7F;    ///< p of the lp norm
  static constexpr float beta = 10.0F;   ///< weight of the quadratic penalty
  static constexpr int iterations = 20;  ///< at most
  static constexpr float largest_inverse_scale = 2e4F;

  int bits = 4;                 ///< 2 ... 8
  std::size_t group_size = 64;  ///< at least 1

  result<baseline_result> apply(const cpu& backend, weights_view weights) const;
};

static_assert(baseline<hqq>);

namespace detail {

struct hqq_group {
  float inverse_scale = 1;
  float zero = 0;
};

/// Returns the grid from the group's smallest to its largest weight, bounded so that FP16 holds zero point and scale
/// even for groups far from 0, almost constant or very large.
hqq_group start_group(int bits, std::span<const float> weights) noexcept;

/// Returns the code nearest to `weight` on the grid of `group`, as a real number.
float hqq_code(const hqq_group& group, float levels, float weight) noexcept;

}  // namespace detail
}  // namespace ecq

#if ECQ_HEADER_ONLY
#include "ecq/quantize/hqq-inl.hpp"
#endif
