// Compiled, not run: the decoders build as device code. decode_elements brings along all that it launches.

#include "ecq/cuda/decode.cuh"
#include "ecq/cuda/decompress.cuh"

template ecq::result<void> ecq::decompress<ecq::bf16>(const cuda&, const device_block&, std::span<std::byte>,
                                                      const device_verdict&);
template ecq::result<void> ecq::decompress<ecq::fp16>(const cuda&, const device_block&, std::span<std::byte>,
                                                      const device_verdict&);
template ecq::result<void> ecq::decompress<float>(const cuda&, const device_block&, std::span<std::byte>,
                                                  const device_verdict&);
