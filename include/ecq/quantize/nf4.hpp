#pragma once
/// \file
/// NF4: quantiles of the normal distribution as 4-bit codes (Dettmers et al., QLoRA, 2023, section 3 and appendix E).

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "ecq/base/out_of_memory.hpp"
#include "ecq/quantize/baseline.hpp"

namespace ecq {

/// Quantises blocks of 64 weights (row-major, across row ends), each scaled by its largest magnitude. The scales are
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

/// The index of the number nearest to `value` among ascending `values`; of two that are equally near, the lower one.
template <std::size_t Count>
ECQ_EXACT_FLOAT constexpr std::size_t nearest_of(const std::array<float, Count>& values, float value) noexcept {
  ECQ_EXACT_FLOAT_BODY
  static_assert((Count & (Count - 1)) == 0);
  std::size_t index = 0;
  for (std::size_t step = Count / 2; step != 0; step /= 2) {
    const float middle = (values[index + step - 1] + values[index + step]) * 0.5F;
    if (value > middle) index += step;
  }
  return index;
}

/// The signed "dynamic" 8-bit numbers of Dettmers et al. (8-bit Optimizers via Block-wise Quantization, 2022, section
/// 1.3): seven decades of magnitude, of which the k-th has 2^k values, and 0 and 1.
inline std::array<float, 256> dynamic_8bit_values() noexcept {
  std::array<float, 256> values{};
  std::size_t filled = 0;
  double decade = 1e-6;
  for (int exponent = 0; exponent < 7; ++exponent, decade *= 10) {
    const int parts = 1 << exponent;
    for (int part = 0; part < parts; ++part) {
      const double magnitude = decade * (0.1 + 0.9 * (part + 0.5) / parts);
      values[filled++] = static_cast<float>(magnitude);
      values[filled++] = static_cast<float>(-magnitude);
    }
  }
  values[filled++] = 0.0F;
  values[filled++] = 1.0F;
  std::sort(values.begin(), values.end());
  return values;
}

inline float largest_magnitude(std::span<const float> values) noexcept {
  float most = 0;
  for (const float value : values) most = (std::max)(most, std::fabs(value));
  return most;
}

/// Replaces `scales` by what the decoder gets for them under double quantisation.
ECQ_EXACT_FLOAT inline void double_quantize(std::span<float> scales) noexcept {
  ECQ_EXACT_FLOAT_BODY
  const std::array<float, 256> table = dynamic_8bit_values();
  double sum = 0;
  for (const float scale : scales) sum += static_cast<double>(scale);
  const auto mean = static_cast<float>(sum / static_cast<double>(scales.size()));
  for (float& scale : scales) scale -= mean;
  for (std::size_t first = 0; first < scales.size(); first += nf4::scales_per_block) {
    const auto block = scales.subspan(first, (std::min)(nf4::scales_per_block, scales.size() - first));
    const float most = largest_magnitude(block);
    for (float& scale : block) {
      const float code_value = most == 0.0F ? 0.0F : table[nearest_of(table, scale / most)];
      scale = code_value * most + mean;
    }
  }
}

}  // namespace detail

inline result<baseline_result> nf4::apply(const cpu& backend, weights_view weights) const {
  ECQ_TRY(rounded, detail::load_for_baseline(backend, weights));
  if (weights.empty()) return std::move(rounded);
  const std::size_t count = rounded.weights.size();
  const std::size_t blocks = count / block_size + (count % block_size != 0 ? 1U : 0U);
  const std::size_t tasks = blocks / scales_per_block + (blocks % scales_per_block != 0 ? 1U : 0U);
  const auto for_blocks = [&](auto&& visit) {
    return parallel_for(backend, tasks, [&](std::size_t task) -> result<void> {
      const std::size_t last = (std::min)(blocks, (task + 1) * scales_per_block);
      for (std::size_t block = task * scales_per_block; block < last; ++block) {
        const std::size_t first = block * block_size;
        visit(block, first, (std::min)(block_size, count - first));
      }
      return {};
    });
  };
  std::vector<float> scales;
  const auto failed = [&] { return error(errc::out_of_memory, "no memory for ", blocks, " scales"); };
  ECQ_CHECK(detail::or_out_of_memory(failed, [&]() -> result<void> {
    scales.resize(blocks);
    return {};
  }));
  ECQ_CHECK(for_blocks([&](std::size_t block, std::size_t first, std::size_t length) {
    const auto values_of_block = std::span<const float>(rounded.weights).subspan(first, length);
    const float most = detail::largest_magnitude(values_of_block);
    scales[block] = most;
    for (std::size_t index = 0; index < length; ++index) {
      const float relative = most == 0.0F ? 0.0F : values_of_block[index] / most;
      rounded.codes[first + index] = static_cast<std::uint8_t>(detail::nearest_of(values, relative));
    }
  }));
  if (double_quantization) detail::double_quantize(scales);
  ECQ_CHECK(for_blocks([&](std::size_t block, std::size_t first, std::size_t length) {
    for (std::size_t index = first; index < first + length; ++index) {
      rounded.weights[index] = values[rounded.codes[index]] * scales[block];
    }
  }));
  const double overhead = double_quantization
                              ? 8.0 * static_cast<double>(blocks) + 32.0 * static_cast<double>(tasks) + 32.0
                              : 32.0 * static_cast<double>(blocks);
  rounded.bits_per_weight = 4 + overhead / static_cast<double>(count);
  return std::move(rounded);
}

}  // namespace ecq
