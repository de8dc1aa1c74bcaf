// Compiled, not run: the warp bodies of the Huffman and tANS decoders build as device code.

#include "ecq/cuda/device_warp.cuh"
#include "ecq/entropy/bit_stack_warp.hpp"

__global__ void decode_huffman(ecq::huffman_warp_table table, ecq::warp_chunk chunk, std::uint8_t* out,
                               ecq::errc* verdict) {
  *verdict = ecq::huffman_decode_by_warp<ecq::device_warp>(
      table, chunk, ecq::warp_code_sink<ecq::device_warp>{chunk.raw, chunk.raw_bits, out});
}

__global__ void decode_tans(ecq::tans_warp_table table, ecq::warp_chunk chunk, std::uint8_t* out, ecq::errc* verdict) {
  *verdict = ecq::tans_decode_by_warp<ecq::device_warp>(
      table, chunk, ecq::warp_code_sink<ecq::device_warp>{chunk.raw, chunk.raw_bits, out});
}
