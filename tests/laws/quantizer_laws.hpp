#pragma once
/// \file
/// Quantisers as the laws of quantizer_laws_test.cpp see them. A law is compiled once, for all quantisers; a file adds
/// quantisers by instantiating the suite.

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ecq/quantize/quantizer.hpp"
#include "support/policies.hpp"

namespace ecq_test {

/// A quantiser with a number format, both behind functions. Formats without a zero point have zero = 0.
struct quantizer_with_format {
  std::string_view format;
  bool affine = false;
  std::array<float, 256> values{};  ///< NaN for codes that are no numbers
  std::uint8_t (*encode)(float) = nullptr;
  ecq::group_layout (*layout)(std::size_t rows, std::size_t columns) = nullptr;
  ecq::result<void> (*quantize)(const ecq::cpu&, const ecq::weights_view&, std::span<std::uint8_t> codes,
                                std::span<ecq::bf16> scales, float& zero) = nullptr;
};

/// A quantiser, with every format in which it is held to the laws.
struct lawful_quantizer {
  std::string name;
  std::vector<quantizer_with_format> with_formats;

  friend void PrintTo(const lawful_quantizer& quantizer, std::ostream* out) { *out << quantizer.name; }
};

class QuantizerLaws : public testing::TestWithParam<lawful_quantizer> {};

/// Returns a quantiser, with a lambda if it takes one. An optimiser need not converge: the laws hold wherever it stops.
template <class Quantizer>
Quantizer some_quantizer() {
  Quantizer quantizer{};
  if constexpr (requires { quantizer.lambda; }) quantizer.lambda = 7.0;
  if constexpr (requires { quantizer.scale_search.lambda; }) quantizer.scale_search.lambda = 7.0;
  if constexpr (requires { quantizer.scale_search.max_iterations; }) quantizer.scale_search.max_iterations = 20;
  return quantizer;
}

template <class Quantizer, class Format>
quantizer_with_format with_format() {
  quantizer_with_format made;
  made.format = Format::name;
  for (unsigned code = 0; code < 256; ++code) {
    const auto byte = static_cast<std::uint8_t>(code);
    made.values[code] = Format::is_finite(byte) ? Format::decode(byte) : std::numeric_limits<float>::quiet_NaN();
  }
  made.encode = [](float value) -> std::uint8_t { return Format::encode(value); };
  made.layout = [](std::size_t rows, std::size_t columns) { return some_quantizer<Quantizer>().layout(rows, columns); };
  made.quantize = [](const ecq::cpu& backend, const ecq::weights_view& weights, std::span<std::uint8_t> codes,
                     std::span<ecq::bf16> scales, [[maybe_unused]] float& zero) {
    if constexpr (ecq::affine_quantizer<Quantizer, Format>) {
      return some_quantizer<Quantizer>().template quantize<Format>(backend, weights, codes, scales, zero);
    } else {
      static_assert(ecq::quantizer<Quantizer, Format>);
      return some_quantizer<Quantizer>().template quantize<Format>(backend, weights, codes, scales);
    }
  };
  made.affine = ecq::affine_quantizer<Quantizer, Format>;
  return made;
}

/// Returns the quantiser with its formats: those of the library with or without a zero point, and some of a user.
template <class Quantizer>
std::vector<quantizer_with_format> with_its_formats() {
  std::vector<quantizer_with_format> made;
  const auto add = [&]<class Format>() { made.push_back(with_format<Quantizer, Format>()); };
  if constexpr (ecq::affine_quantizer<Quantizer, ecq::uint8>) {
    for_each_policy(testing::Types<ecq::uint8, ecq::uint4, uint5>{}, add);
  } else {
    for_each_policy(testing::Types<ecq::fp8_e4m3, ecq::fp8_e5m2, ecq::int8, fp8_e3m4, two_for_one>{}, add);
  }
  return made;
}

/// Returns every quantiser of a list, for INSTANTIATE_TEST_SUITE_P.
template <class Quantizers>
std::vector<lawful_quantizer> lawful_quantizers() {
  std::vector<lawful_quantizer> made;
  for_each_policy(Quantizers{}, [&]<class Quantizer>() {
    const std::string number = std::to_string(made.size());
    made.push_back({number + "_" + std::string(Quantizer::name), with_its_formats<Quantizer>()});
  });
  return made;
}

inline std::string name_of_quantizer(const testing::TestParamInfo<lawful_quantizer>& quantizer) {
  return quantizer.param.name;
}

}  // namespace ecq_test
