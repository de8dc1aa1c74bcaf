#pragma once
/// \file
/// Rounding to a number format without a branch: the values and codes of Format::encode, many weights at a time.

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "ecq/base/config.hpp"
#include "ecq/format/affine_uint.hpp"
#include "ecq/format/int8.hpp"
#include "ecq/quantize/regularizer.hpp"

namespace ecq::detail {

/// Values of four neighbouring lanes. The vector extension of GCC and clang compiles to whatever the machine has.
/// Without it, for example where nvcc compiles for a device, the same code runs on one lane at a time with the same
/// results.
#if defined(__GNUC__) && !defined(__CUDA_ARCH__)
using float_lanes = float __attribute__((vector_size(16)));
using word_lanes = std::uint32_t __attribute__((vector_size(16)));
#else
using float_lanes = float;
using word_lanes = std::uint32_t;
#endif
inline constexpr std::size_t lanes_at_once = sizeof(float_lanes) / sizeof(float);

/// Rows in buffers are padded with zeros to a multiple of this many weights.
inline constexpr std::size_t row_padding = 16;

/// Type of the bits of `Floats`, which is float_lanes or, as on a device, one float.
template <class Floats>
using bits_of_lanes = std::conditional_t<sizeof(Floats) == sizeof(float), std::uint32_t, word_lanes>;

template <class Floats>
ECQ_HOST_DEVICE Floats every_lane(float value) noexcept {
  return Floats{} + value;
}
/// Returns left < right ? left : right. From that expression GCC makes four instructions where the machine has one.
template <class Floats>
ECQ_HOST_DEVICE Floats smaller_of(Floats left, Floats right) noexcept {
#if ECQ_X86 && !defined(__clang__) && !defined(__CUDACC__)
  if constexpr (sizeof(Floats) == 16) return __builtin_ia32_minps(left, right);
#endif
  return left < right ? left : right;
}
/// Returns left > right ? left : right.
template <class Floats>
ECQ_HOST_DEVICE Floats larger_of(Floats left, Floats right) noexcept {
#if ECQ_X86 && !defined(__clang__) && !defined(__CUDACC__)
  if constexpr (sizeof(Floats) == 16) return __builtin_ia32_maxps(left, right);
#endif
  return left > right ? left : right;
}
template <class Floats>
ECQ_HOST_DEVICE Floats magnitude_of(Floats values) noexcept {
  if constexpr (sizeof(Floats) == sizeof(float)) {
    return __builtin_fabsf(values);  // costs a device nothing
  } else {
    return __builtin_bit_cast(Floats, __builtin_bit_cast(bits_of_lanes<Floats>, values) & 0x7fffffffU);
  }
}

/// `nearest(m)` = decode(encode(m)) for 0 <= m <= Format::largest; `encode(x)` = Format::encode(x) for every x but NaN,
/// with the code of -0 folded into that of +0. This definition serves any format; the specialisations below are fast.
template <class Format>
struct rounding {
  template <class Floats>
  ECQ_HOST_DEVICE static Floats nearest(Floats magnitudes) noexcept {
    auto lanes = __builtin_bit_cast(each<float, Floats>, magnitudes);
    for (float& value : lanes.of) value = Format::decode(Format::encode(value));
    return __builtin_bit_cast(Floats, lanes);
  }
  template <class Floats>
  ECQ_HOST_DEVICE static bits_of_lanes<Floats> encode(Floats reals) noexcept {
    const auto lanes = __builtin_bit_cast(each<float, Floats>, reals);
    each<std::uint32_t, Floats> codes;
    for (std::size_t lane = 0; lane < sizeof(Floats) / sizeof(float); ++lane) {
      const auto code = Format::encode(lanes.of[lane]);
      codes.of[lane] = Format::decode(code) == 0.0F ? Format::encode(0.0F) : code;
    }
    return __builtin_bit_cast(bits_of_lanes<Floats>, codes);
  }

 private:
  template <class Element, class Floats>
  struct each {
    Element of[sizeof(Floats) / sizeof(float)];
  };
};

#if !defined(__FAST_MATH__)  // which lets compilers cancel the additions below

/// Rounding to FP8 adds to m the power of two that leaves `mantissa_bits` bits of m above the last place of the sum.
/// The bits of the sum then count steps of m's binade, as codes do.
template <class Format>
  requires(Format::layout::bits == 8)
struct rounding<Format> {
  using layout = typename Format::layout;

  static constexpr int dropped = 23 - layout::mantissa_bits;
  static constexpr std::uint32_t first_exponent = static_cast<std::uint32_t>(128 - layout::bias);
  static constexpr float smallest_normal = __builtin_bit_cast(float, first_exponent << 23);

  template <class Floats>
  ECQ_HOST_DEVICE static Floats nearest(Floats magnitudes) noexcept {
    const auto pushed = __builtin_bit_cast(Floats, pushed_by(magnitudes));
    return (magnitudes + pushed) - pushed;
  }

  template <class Floats>
  ECQ_HOST_DEVICE static bits_of_lanes<Floats> encode(Floats reals) noexcept {
    using words = bits_of_lanes<Floats>;
    const Floats magnitudes = smaller_of(magnitude_of(reals), every_lane<Floats>(Format::largest));
    const words pushed = pushed_by(magnitudes);
    const words steps = __builtin_bit_cast(words, magnitudes + __builtin_bit_cast(Floats, pushed)) - pushed;
    const words codes = steps + ((pushed - least_pushed) >> dropped);
    return codes | (codes == 0U ? words{} : (__builtin_bit_cast(words, reals) >> 31) << 7);
  }

 private:
  static constexpr std::uint32_t up = std::uint32_t{dropped} << 23;
  static constexpr std::uint32_t least_pushed = (first_exponent << 23) + up;

  /// Returns the bits of the power of two to add; subnormal numbers belong to the lowest binade.
  template <class Floats>
  ECQ_HOST_DEVICE static bits_of_lanes<Floats> pushed_by(Floats magnitudes) noexcept {
    using words = bits_of_lanes<Floats>;
    if constexpr (sizeof(Floats) == sizeof(float)) {  // a device adds and compares integers at once
      const words above = (__builtin_bit_cast(words, magnitudes) & 0x7f800000U) + up;
      return above > least_pushed ? above : least_pushed;
    } else {
      const Floats normal = larger_of(magnitudes, every_lane<Floats>(smallest_normal));
      return (__builtin_bit_cast(words, normal) & 0x7f800000U) + up;
    }
  }
};

template <>
struct rounding<int8> {
  static constexpr float pushed = 0x1.8p23F;  ///< adding it leaves an integer in the low bits of the sum

  template <class Floats>
  ECQ_HOST_DEVICE static Floats nearest(Floats magnitudes) noexcept {
    return (magnitudes + pushed) - pushed;
  }

  template <class Floats>
  ECQ_HOST_DEVICE static bits_of_lanes<Floats> encode(Floats reals) noexcept {
    const Floats bounded = smaller_of(larger_of(reals, every_lane<Floats>(-128.0F)), every_lane<Floats>(int8::largest));
    return __builtin_bit_cast(bits_of_lanes<Floats>, bounded + pushed) & 0xffU;
  }
};

/// Rounding to unsigned integers works like that to Int8.
template <affine_format Format>
struct rounding<Format> {
  template <class Floats>
  ECQ_HOST_DEVICE static Floats nearest(Floats magnitudes) noexcept {
    return rounding<int8>::nearest(magnitudes);
  }

  template <class Floats>
  ECQ_HOST_DEVICE static bits_of_lanes<Floats> encode(Floats reals) noexcept {
    const Floats bounded = smaller_of(larger_of(reals, Floats{}), every_lane<Floats>(Format::largest));
    return __builtin_bit_cast(bits_of_lanes<Floats>, bounded + rounding<int8>::pushed) & 0xffU;
  }
};

#endif

}  // namespace ecq::detail
