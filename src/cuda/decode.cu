#include "ecq/cuda/decode.cuh"

#include "ecq/cuda/decompress.cuh"

ECQ_INSTANCE_OF_DEVICE_DECODING(template);
ECQ_INSTANCE_OF_DEVICE_DECOMPRESSION(template, ecq::bf16);
ECQ_INSTANCE_OF_DEVICE_DECOMPRESSION(template, ecq::fp16);
ECQ_INSTANCE_OF_DEVICE_DECOMPRESSION(template, float);
ECQ_INSTANCE_OF_DEVICE_DECOMPRESSION(template, ecq::fp8_e4m3);
ECQ_INSTANCE_OF_DEVICE_DECOMPRESSION(template, ecq::fp8_e5m2);
