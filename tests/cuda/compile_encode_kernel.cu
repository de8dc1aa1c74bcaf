// Compiled, not run: encoders build as device code. encode_elements brings along all that it launches.

#include "ecq/cuda/encode.cuh"
