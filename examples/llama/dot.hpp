#pragma once
/// \file
/// Dot products, summed in one order, which defines the results of every product here.

#include <bit>
#include <cstddef>
#include <cstdint>

#include "ecq/base/config.hpp"
#include "ecq/format/bf16.hpp"

namespace llama {

/// Number of lanes, the partial sums of a dot product. Lane j sums the products at positions k with k mod dot_lanes =
/// j, by ascending k; each product and each sum is rounded to FP32. The lanes are then added in halves. Instruction
/// sets of any width compute the same bits, and so do tiles of any number of rows and tokens.
inline constexpr std::size_t dot_lanes = 16;

/// Returns the exact value of a weight. (The conversion of ecq::bf16 is written for any small float.)
constexpr float value_of(ecq::bf16 weight) noexcept {
  return std::bit_cast<float>(static_cast<std::uint32_t>(weight.bits) << 16U);
}
constexpr float value_of(float weight) noexcept { return weight; }

/// Adds the products from position `done` on, a multiple of dot_lanes, to the lanes, and returns the sum of the lanes.
template <class Weight>
ECQ_EXACT_FLOAT float finish_dot(float (&lanes)[dot_lanes], const Weight* weights, const float* values,
                                 std::size_t done, std::size_t size) noexcept {
  ECQ_EXACT_FLOAT_BODY
  for (std::size_t lane = 0; done + lane < size; ++lane) {
    lanes[lane] += value_of(weights[done + lane]) * values[done + lane];
  }
  for (std::size_t half = dot_lanes / 2; half != 0; half /= 2) {
    for (std::size_t lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  }
  return lanes[0];
}

/// Returns the sum of `size` products, in the order that dot_lanes describes. This is the definition, in plain C++.
template <class Weight>
ECQ_EXACT_FLOAT float dot(const Weight* weights, const float* values, std::size_t size) noexcept {
  ECQ_EXACT_FLOAT_BODY
  float lanes[dot_lanes] = {};
  std::size_t at = 0;
  for (; at + dot_lanes <= size; at += dot_lanes) {
    for (std::size_t lane = 0; lane < dot_lanes; ++lane) {
      lanes[lane] += value_of(weights[at + lane]) * values[at + lane];
    }
  }
  return finish_dot(lanes, weights, values, at, size);
}

}  // namespace llama
