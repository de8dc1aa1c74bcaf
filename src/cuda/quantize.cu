#include "ecq/cuda/quantize.cuh"

#include "ecq/format/fp8_e4m3.hpp"
#include "ecq/format/int8.hpp"

ECQ_INSTANCES_OF_DEVICE_QUANTIZATION(template, ecq::fp8_e4m3);
ECQ_INSTANCES_OF_DEVICE_QUANTIZATION(template, ecq::int8);
