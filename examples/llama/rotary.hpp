#pragma once
/// \file
/// Rotary position embeddings: the frequencies by which pairs of elements of a head rotate from token to token.

#include <cstddef>

#include "ecq/base/result.hpp"
#include "json_file.hpp"

namespace llama {

/// Frequencies theta^(-2 i / width) for pairs i of a head, and their reduction in models made for longer contexts.
struct rotary_embedding {
  double theta = 10000;
  double factor = 1;  ///< low frequencies are divided by it
  /// Wavelengths in tokens. Up to the first, frequencies stay; from the second on, they are divided; between them, both
  /// are mixed. All are divided unless the config says otherwise.
  double kept_wavelength = 0;
  double divided_wavelength = 0;

  /// Returns the radians per token by which pair `pair` of a head of `width` elements rotates.
  double frequency(std::size_t pair, std::size_t width) const noexcept;
};

/// Reads the members of a config.json for rotary embeddings: rope_theta, `usual_theta` if it is missing, and
/// rope_scaling or rope_parameters of the types default, linear and llama3, as Hugging Face transformers 5 reads them.
/// Errors name the member: ecq::errc::unsupported for another type, ecq::errc::not_found and ecq::errc::corrupt for
/// numbers that are missing or wrong.
ecq::result<rotary_embedding> parse_rotary_embedding(const json& config, double usual_theta = rotary_embedding().theta);

}  // namespace llama
