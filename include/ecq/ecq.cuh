#pragma once
/// \file
/// Everything for matrices in memory, on the CPU and on CUDA devices, for .cu files. Files that only the host compiler
/// compiles include ecq/ecq.hpp. One program may use both headers.

#include "ecq/cuda/backend.cuh"
#include "ecq/cuda/chunk_decoder.cuh"
#include "ecq/cuda/compress.cuh"
#include "ecq/cuda/decode.cuh"
#include "ecq/cuda/decompress.cuh"
#include "ecq/cuda/device_block.cuh"
#include "ecq/cuda/device_stream.cuh"
#include "ecq/cuda/encode.cuh"
#include "ecq/cuda/quantize.cuh"
#include "ecq/cuda/resident_stream.cuh"
#include "ecq/cuda/verdict.cuh"
#include "ecq/ecq.hpp"
