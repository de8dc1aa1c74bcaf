// Compiled, not run: encoders build as device code. encode_elements brings along all that it launches, the same for
// every coder.

#include "ecq/cuda/encode.cuh"

template ecq::result<void> ecq::encode_elements<ecq::rans>(const cuda&, std::optional<dtype>,
                                                           std::span<const std::byte>, const device_stream_options&,
                                                           std::span<std::byte>, std::span<std::byte>, std::uint64_t*,
                                                           const device_verdict&);
