#pragma once
/// \file
/// NF4: quantiles of the normal distribution as 4-bit codes (Dettmers et al., QLoRA, 2023, section 3 and appendix E).

#include <array>
#include <cstddef>
#include <string_view>

#include "ecq/quantize/baseline.hpp"

namespace ecq {

/// Quantiser of blocks of 64 weights (row-major, across row ends), each scaled by its largest magnitude. The scales are
/// FP32 (4.5 bits per weight), or 8-bit codes of their difference from the mean, 256 to a block with an FP32 scale
/// (double quantisation, 4.127 bits). Codes are 0 ... 15; code 7 is zero.
struct nf4 {
  static constexpr std::string_view name = "nf4";
  static constexpr std::size_t block_size = 64;
  static constexpr std::size_t scales_per_block = 256;
  static constexpr std::array<float, 16> values = {
      -1.0F,        -0.69619280F, -0.52507305F, -0.39491749F, -0.28444138F, -0.18477343F, -0.091050036F, 0.0F,
      0.079580300F, 0.16093020F,  0.24611230F,  0.33791524F,  0.44070983F,  0.56261700F,  0.72295684F,   1.0F};

  bool double_quantization = false;

  result<baseline_result> apply(const cpu& backend, weights_view weights) const;
};

static_assert(baseline<nf4>);

namespace detail {

/// Returns the signed "dynamic" 8-bit numbers of Dettmers et al. (8-bit Optimizers via Block-wise Quantization, 2022,
/// section 1.3): seven decades of magnitude, of which the k-th has 2^k values, and 0 and 1.
std::array<float, 256> dynamic_8bit_values() noexcept;

}  // namespace detail
}  // namespace ecq

#if ECQ_HEADER_ONLY
#include "ecq/quantize/nf4-inl.hpp"
#endif
