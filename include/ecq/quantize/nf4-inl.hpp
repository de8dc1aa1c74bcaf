#pragma once
/// \file
/// Definition of NF4.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "ecq/base/out_of_memory.hpp"
#include "ecq/quantize/nf4.hpp"

namespace ecq {
namespace detail {

/// Returns the index of the number nearest to `value` among ascending `values`; of two that are equally near, the lower
/// one.
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

ECQ_INLINE std::array<float, 256> dynamic_8bit_values() noexcept {
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

/// Replaces `scales` by the values that a decoder gets for them under double quantisation.
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

ECQ_INLINE result<baseline_result> nf4::apply(const cpu& backend, weights_view weights) const {
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
