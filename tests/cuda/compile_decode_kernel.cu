// Compiled, not run: the decoders build as device code. The verbs bring along all that they launch.

#include "ecq/cuda/decode.cuh"
#include "ecq/cuda/decompress.cuh"

template ecq::result<void> ecq::decode_elements(const cuda&, const device_stream&, std::uint64_t, std::span<std::byte>,
                                                const device_verdict&, every_coder);
template ecq::result<void> ecq::decompress<ecq::bf16>(const cuda&, const device_block&, std::span<std::byte>,
                                                      const device_verdict&, every_coder);
template ecq::result<void> ecq::decompress<ecq::fp16>(const cuda&, const device_block&, std::span<std::byte>,
                                                      const device_verdict&, every_coder);
template ecq::result<void> ecq::decompress<float>(const cuda&, const device_block&, std::span<std::byte>,
                                                  const device_verdict&, every_coder);
