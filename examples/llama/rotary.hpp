#pragma once
/// \file
/// Rotary position embeddings: how fast each pair of elements of a head turns from token to token.

#include <cstddef>

#include "ecq/base/result.hpp"
#include "json_file.hpp"

namespace llama {

/// Frequencies theta^(-2 i / width) for pairs i of a head, and how models made for longer contexts scale them down.
struct rotary_embedding {
  double theta = 10000;
  double factor = 1;  ///< low frequencies are divided by it
  /// Wavelengths in tokens: up to the first, frequencies stay; from the second on, they are divided; between, both are
  /// mixed. All are divided unless the config says otherwise.
  double kept_wavelength = 0;
  double divided_wavelength = 0;

  /// Radians a token of pair `pair` of a head of `width` elements.
  double frequency(std::size_t pair, std::size_t width) const noexcept;
};

/// Reads the members of a config.json for rotary embeddings: rope_theta, and rope_scaling or rope_parameters of the
/// types default, linear and llama3, as Hugging Face transformers 5 reads them. Errors name the member:
/// ecq::errc::unsupported for another type, ecq::errc::not_found and ecq::errc::corrupt for numbers that are missing or
/// wrong.
/// Without a rope_theta, it is `usual_theta`.
ecq::result<rotary_embedding> parse_rotary_embedding(const json& config, double usual_theta = rotary_embedding().theta);

}  // namespace llama
