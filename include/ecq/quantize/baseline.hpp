#pragma once
/// \file
/// Baselines to compare EntQuant with: quantisers of a fixed number of bits, run to measure distortion, not to store
/// weights.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "ecq/base/backend.hpp"
#include "ecq/base/config.hpp"
#include "ecq/base/result.hpp"
#include "ecq/format/weights_view.hpp"

namespace ecq {

/// A matrix as a baseline reconstructs it, with its codes.
struct baseline_result {
  std::vector<float> weights;       ///< reconstructed from what would be stored; rows x columns, row-major
  std::vector<std::uint8_t> codes;  ///< one for each weight; the method defines what a code means
  double bits_per_weight = 0;       ///< codes, scales and zero points, all counted; 0 for an empty matrix
};

/// A quantiser to compare with, and its options. `apply` fails with errc::invalid_argument for options out of range,
/// errc::non_finite, naming row and column, or errc::out_of_memory.
template <class Policy>
concept baseline =
    std::default_initializable<Policy> && requires(const Policy policy, const cpu backend, weights_view weights) {
      { Policy::name } -> std::convertible_to<std::string_view>;
      { policy.apply(backend, weights) } -> std::same_as<result<baseline_result>>;
    };

namespace detail {

/// Loads the weights as FP32, checks that they are finite, and adds as many codes, all 0.
result<baseline_result> load_for_baseline(const cpu& backend, weights_view weights);

/// Fails with errc::invalid_argument unless `bits` is 2 to 8.
result<void> check_bits(std::string_view method, int bits);

/// Returns the integer nearest to `value`, ties to even. Precondition: |value| <= 2^22.
ECQ_EXACT_FLOAT constexpr float nearest_integer(float value) noexcept {
  ECQ_EXACT_FLOAT_BODY
  constexpr float pushed = 0x1.8p23F;  // beyond it FP32 holds only integers
  return (value + pushed) - pushed;
}

}  // namespace detail
}  // namespace ecq

#if ECQ_HEADER_ONLY
#include "ecq/quantize/baseline-inl.hpp"
#endif
