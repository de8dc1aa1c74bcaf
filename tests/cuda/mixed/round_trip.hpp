#pragma once

#include <cstddef>
#include <cstdint>
#include <ecq/ecq.hpp>
#include <vector>

/// Returns the bytes of a stream and of a compressed matrix, the same in either unit; none if a round trip fails.
inline std::vector<std::byte> round_trip(ecq::instruction_set isa) {
  const ecq::cpu host{.isa = isa};
  std::vector<std::uint8_t> codes;
  for (std::uint32_t i = 0; i < 100000; ++i) codes.push_back(static_cast<std::uint8_t>(i * i % 1009 % 31));
  const auto blob = ecq::encode_stream<ecq::rans>(host, codes);
  const auto stream = ecq::encoded_stream::parse(*blob);
  std::vector<std::byte> decoded(codes.size());
  if (!ecq::decode_elements(host, *stream, 0, decoded)) return {};
  for (std::size_t i = 0; i < codes.size(); ++i) {
    if (decoded[i] != std::byte{codes[i]}) return {};
  }
  std::vector<float> weights;
  for (int i = 0; i < 16384; ++i) weights.push_back(static_cast<float>((i * i) % 1009 - 504) * 0.001F);
  const auto packed = ecq::compressor<ecq::fp8_e4m3, ecq::rans, ecq::entquant>{{.lambda = 14.5}}.compress(
      host, ecq::matrix_view<const float>(weights.data(), 32, 512));
  if (!packed) return {};
  std::vector<std::byte> made = *blob;
  made.insert(made.end(), packed->stream.begin(), packed->stream.end());
  return made;
}

/// Whether inline functions have x86 kernels, in this unit and in that of the host's compiler.
constexpr bool has_x86_kernels = ECQ_X86 != 0;
bool host_compiler_has_x86_kernels();

std::vector<std::byte> round_trip_of_the_host_compiler(ecq::instruction_set isa);
