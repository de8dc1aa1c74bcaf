#pragma once
/// \file
/// Policies as users would define them, unknown to the library.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "ecq/base/backend.hpp"
#include "ecq/base/config.hpp"
#include "ecq/base/result.hpp"
#include "ecq/format/affine_uint.hpp"
#include "ecq/format/minifloat.hpp"
#include "ecq/format/number_format.hpp"
#include "ecq/format/weights_view.hpp"
#include "ecq/quantize/absmax_search.hpp"
#include "ecq/quantize/granularity.hpp"
#include "ecq/quantize/regularizer.hpp"

namespace ecq_test {

/// FP8 with three exponent bits.
struct fp8_e3m4 {
  using layout = ecq::minifloat<std::uint8_t, 3, 4, ecq::overflow::saturate_fn>;
  using code_type = std::uint8_t;

  static constexpr std::string_view name = "fp8_e3m4";
  static constexpr int bits_per_code = 8;
  static constexpr float largest = layout::decode(layout::largest_code);

  static constexpr code_type encode(float value) noexcept { return layout::encode(value); }
  static constexpr float decode(code_type code) noexcept { return layout::decode(code); }
  static constexpr bool is_finite(code_type code) noexcept { return layout::is_finite(code); }

  code_type bits = 0;
};

/// Format that rounds to the nearest of the ascending values of `Table`; codes beyond them are NaN.
template <class Table>
struct listed_format {
  using code_type = std::uint8_t;

  static constexpr int bits_per_code = 8;
  static constexpr float largest = 1.0F;

  static code_type encode(float value) noexcept {
    const auto& values = Table::values();
    const auto above = std::lower_bound(values.begin(), values.end(), value);
    if (above == values.begin()) return 0;
    if (above == values.end()) return static_cast<code_type>(values.size() - 1);
    const auto number = static_cast<std::size_t>(above - values.begin());
    return static_cast<code_type>(*above - value < value - values[number - 1] ? number : number - 1);
  }
  static float decode(code_type code) noexcept {
    const auto& values = Table::values();
    return code < values.size() ? values[code] : std::nanf("");
  }
  static bool is_finite(code_type code) noexcept { return code < Table::values().size(); }

  code_type bits = 0;
};

/// The sixteen values of NF4.
struct nf4_values {
  static const std::array<float, 16>& values() {
    static const std::array<float, 16> all = {
        -1.0F,       -0.69619280F, -0.52507305F, -0.39491749F, -0.28444138F, -0.18477343F, -0.09105004F, 0.0F,
        0.07958030F, 0.16093020F,  0.24611230F,  0.33791524F,  0.44070983F,  0.56261700F,  0.72295684F,  1.0F};
    return all;
  }
};
struct nf4_table : listed_format<nf4_values> {
  static constexpr std::string_view name = "nf4_table";
};

/// 256 values that are known only at run time, like those of clusters.
struct clusters {
  static const std::array<float, 256>& values() {
    static const std::array<float, 256> all = [] {
      std::array<float, 256> made{};
      for (int code = 0; code < 256; ++code) {
        const float place = (static_cast<float>(code) - 127.5F) / 127.5F;
        made[static_cast<std::size_t>(code)] = place * std::fabs(place);
      }
      return made;
    }();
    return all;
  }
};
struct clustered : listed_format<clusters> {
  static constexpr std::string_view name = "clustered";
};

/// Format with two codes for each value, like formats with two zeros.
struct two_for_one {
  using code_type = std::uint8_t;

  static constexpr std::string_view name = "two_for_one";
  static constexpr int bits_per_code = 8;
  static constexpr float largest = 31.0F;

  static constexpr code_type encode(float value) noexcept {
    const float bounded = value < -31.0F ? -31.0F : value > 31.0F ? 31.0F : value;
    const int nearest = static_cast<int>(bounded + (bounded < 0 ? -0.5F : 0.5F));
    return static_cast<code_type>(2 * (nearest + 31));
  }
  static constexpr float decode(code_type code) noexcept { return static_cast<float>(code / 2 - 31); }
  static constexpr bool is_finite(code_type code) noexcept { return code / 2 <= 62; }

  code_type bits = 0;
};

/// Format whose codes are NaN, all but two.
struct nearly_all_nan {
  using code_type = std::uint8_t;

  static constexpr std::string_view name = "nearly_all_nan";
  static constexpr int bits_per_code = 8;
  static constexpr float largest = 1.0F;

  static constexpr code_type encode(float value) noexcept { return value < 0 ? 200 : 17; }
  static constexpr float decode(code_type code) noexcept {
    return code == 17 ? 1.0F : code == 200 ? -1.0F : __builtin_nanf("");
  }
  static constexpr bool is_finite(code_type code) noexcept { return code == 17 || code == 200; }

  code_type bits = 0;
};

/// Unsigned integers of five bits, with a zero point.
struct uint5 {
  using code_type = std::uint8_t;

  static constexpr std::string_view name = "uint5";
  static constexpr int bits_per_code = 5;
  static constexpr bool affine = true;
  static constexpr float largest = 31.0F;

  static constexpr code_type encode(float value) noexcept {
    if (!(value > 0.0F)) return 0;
    return value >= largest ? code_type{31} : ecq::uint8::encode(value);
  }
  static constexpr float decode(code_type code) noexcept { return static_cast<float>(code); }
  static constexpr bool is_finite(code_type code) noexcept { return code < 32; }

  code_type bits = 0;
};

/// Distortion |error|^3.
struct cubic_error {
  static constexpr std::string_view name = "cubic_error";
  static constexpr int degree = 3;

  static constexpr float of(float difference) noexcept {
    const float magnitude = difference < 0.0F ? -difference : difference;
    return magnitude * magnitude * magnitude;
  }
};

/// Distortion that is always 0.
struct no_error {
  static constexpr std::string_view name = "no_error";
  static constexpr int degree = 1;

  static constexpr float of(float) noexcept { return 0.0F; }
};

/// Regulariser with twice the weight of l1_norm for each code.
struct doubled_norm {
  static constexpr std::string_view name = "doubled_norm";

  template <ecq::symmetric_format Format>
  static constexpr double weight() noexcept {
    return 2.0 * ecq::l1_norm::weight<Format>();
  }
};

/// Granularities with one scale for two rows, and with one for each weight.
struct per_two_rows {
  constexpr ecq::group_layout layout(std::size_t rows, std::size_t columns) const noexcept {
    return {rows, columns, 2, std::max(columns, std::size_t{1})};
  }
};
struct per_weight {
  constexpr ecq::group_layout layout(std::size_t rows, std::size_t columns) const noexcept {
    return {rows, columns, 1, 1};
  }
};

/// Scale of AbsMax, enlarged by a factor of 1 + lambda.
struct widened_absmax {
  static constexpr std::string_view name = "widened_absmax";

  double lambda = 0;

  template <ecq::code_format Format>
  ecq::result<void> search(const ecq::cpu& backend, ecq::weights_view weights, ecq::group_layout layout,
                           std::span<float> scales) const {
    ECQ_CHECK(ecq::absmax_search{}.search<Format>(backend, weights, layout, scales));
    for (float& scale : scales) scale *= static_cast<float>(1.0 + lambda);
    return {};
  }
};

}  // namespace ecq_test
