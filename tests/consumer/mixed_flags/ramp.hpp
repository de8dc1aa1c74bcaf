#pragma once

#include <cstddef>
#include <ecq/ecq.hpp>
#include <vector>

/// Returns the compressed bytes of the same weights, in whichever unit it is compiled.
inline std::vector<std::byte> compress_ramp() {
  std::vector<float> data;
  for (int i = 0; i < 16384; ++i) data.push_back(static_cast<float>((i * i) % 1009 - 504) * 0.001F);
  const ecq::matrix_view<const float> weights(data.data(), 32, 512);
  auto packed = ecq::compressor<ecq::fp8_e4m3, ecq::rans, ecq::entquant>{{.lambda = 14.5}}.compress(weights);
  return packed ? packed->stream : std::vector<std::byte>{};
}
