// Compiled, not run: the decoders build as device code.

#include "ecq/cuda/decode_kernel.cuh"

template __global__ void ecq::decode_kernel<ecq::byte_split, ecq::warp_coding::rans_alias, 8>(device_stream_view,
                                                                                              device_range);
template __global__ void ecq::decode_kernel<ecq::byte_split, ecq::warp_coding::rans_direct, 8>(device_stream_view,
                                                                                               device_range);
template __global__ void ecq::decode_kernel<ecq::byte_split, ecq::warp_coding::tans, 8>(device_stream_view,
                                                                                        device_range);
template __global__ void ecq::decode_kernel<ecq::byte_split, ecq::warp_coding::huffman, 8>(device_stream_view,
                                                                                           device_range);
template __global__ void ecq::decode_kernel<ecq::exponent_split<ecq::bf16>, ecq::warp_coding::rans_direct, 8>(
    device_stream_view, device_range);
template __global__ void ecq::decode_kernel<ecq::exponent_split<ecq::fp8_e4m3>, ecq::warp_coding::rans_direct, 8>(
    device_stream_view, device_range);
template __global__ void ecq::decode_any_kernel<ecq::byte_split, 8>(device_stream_view, device_range);
