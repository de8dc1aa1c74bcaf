#pragma once
/// \file
/// Suites, each in a source file of its own. `size` is the number of bytes of weights that they measure.

#include <cstddef>

#include "session.hpp"

namespace ecq_bench {

void decode_elements(session& run, std::size_t size);  ///< streams to elements
void dequantise(session& run, std::size_t size);       ///< blocks to BF16 weights
void dequantise_layers(session& run, std::size_t);     ///< blocks of a language model's sizes, also from graphs
void encode(session& run, std::size_t size);           ///< elements to streams
void compress(session& run, std::size_t size);         ///< BF16 weights to codes, and to blocks

bool runs_kernels();  ///< whether the device at hand decodes, and correctly

}  // namespace ecq_bench
