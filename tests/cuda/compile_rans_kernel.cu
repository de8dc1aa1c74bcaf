// Compiled, not run: the warp body of the rANS decoder builds as device code for every architecture that is supported.

#include "ecq/cuda/rans_kernel.cuh"

cudaError_t decode_all(const ecq::device_stream& stream, std::uint8_t* out, unsigned long long* failed_chunk,
                       cudaStream_t queue) {
  constexpr unsigned warps = 8;
  const auto blocks = static_cast<unsigned>((stream.chunks + warps - 1) / warps);
  ecq::rans_decode_kernel<warps><<<blocks, warps * ecq::lane_count, 0, queue>>>(stream, 0, out, failed_chunk);
  return cudaGetLastError();
}
