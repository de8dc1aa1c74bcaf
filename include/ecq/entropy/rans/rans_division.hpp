#pragma once
/// \file
/// Division of an encoder's states by frequencies, by reciprocals of 32 bits.

#include <cstdint>

#include "ecq/base/config.hpp"
#include "ecq/entropy/frequencies.hpp"

namespace ecq {

/// Exact division of an encoder's states by frequencies: floor(x / f) is (x * reciprocal + addend) >> (32 + shift) for
/// a frequency f of 1 to 2^scale_bits - 1 and all x < f * 2^(32 - scale_bits), the states that an encoder divides.
/// scale_bits is at least 2. One addend serves the whole table, so that entries need no room for it and a step adds it
/// for nothing.
///
/// With 2^(32 + shift) = f * reciprocal + rest, the addend has to make up for the rest times the quotient, and has to
/// be less than one quotient's part, 2^(32 + shift) / f. Reciprocals that are rounded down leave a rest of up to f - 1.
/// An addend of 2^31 - 1 is enough for all f of up to half the scale, and for many larger ones. Otherwise, the
/// reciprocals of the table are rounded up, and then a small addend is enough for all of them.
struct rans_division {
  unsigned scale_bits;
  bool rounds_up;  ///< reciprocals are rounded up, except that of 1

  /// Returns the division for a table whose greatest frequency is `greatest`.
  static ECQ_HOST_DEVICE constexpr rans_division of(std::uint32_t greatest, unsigned scale_bits) noexcept {
    const rans_division down = {scale_bits, false};
    const std::uint64_t rest = down.one(greatest) - std::uint64_t{greatest} * down.reciprocal(greatest);
    return {scale_bits, rest * down.greatest_quotient() > down.addend()};
  }

  ECQ_HOST_DEVICE constexpr std::uint32_t addend() const noexcept {
    return rounds_up ? greatest_quotient() : (1U << 31) - 1U;
  }
  ECQ_HOST_DEVICE constexpr unsigned shift(std::uint32_t frequency) const noexcept {
    return frequency < 2 ? 0U : detail::bit_width(frequency - 1) - 1U;
  }
  ECQ_HOST_DEVICE constexpr std::uint32_t reciprocal(std::uint32_t frequency) const noexcept {
    if (frequency < 2) return ~0U;
    return static_cast<std::uint32_t>((one(frequency) + (rounds_up ? frequency - 1 : 0)) / frequency);
  }

 private:
  ECQ_HOST_DEVICE constexpr std::uint32_t greatest_quotient() const noexcept { return (1U << (32 - scale_bits)) - 1U; }
  ECQ_HOST_DEVICE constexpr std::uint64_t one(std::uint32_t frequency) const noexcept {
    return std::uint64_t{1} << (32 + shift(frequency));
  }
};

namespace detail {

/// Division of an encoder's states by frequencies below 2^16 in FP32, for vector kernels. The state, rounded, times
/// shrink / frequency, rounded twice and truncated, is the quotient or one less.
struct float_division {
  /// Relative margin for each state and quotient: four roundings may err by 2^-22, and quotients must not be too large.
  static constexpr float shrink = 1.0F - 0x1.4p-22F;
  /// Smallest number of scale bits. With fewer, a quotient may be too small by more than one.
  static constexpr unsigned min_scale_bits = 12;

  static constexpr float inverse(std::uint32_t frequency) noexcept { return shrink / static_cast<float>(frequency); }
};

}  // namespace detail

}  // namespace ecq
