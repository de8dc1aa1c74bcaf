#pragma once
/// \file
/// The suites, each in a source of its own: what they measure of weights of `size` bytes.

#include <cstddef>

#include "session.hpp"

namespace ecq_bench {

void decode_elements(session& run, std::size_t size);  ///< streams to elements
void dequantise(session& run, std::size_t size);       ///< blocks to BF16 weights
void dequantise_layers(session& run, std::size_t);     ///< the same with a language model's sizes, and from graphs
void encode(session& run, std::size_t size);           ///< elements to streams
void compress(session& run, std::size_t size);         ///< BF16 weights to codes, and to blocks

bool runs_kernels();  ///< whether the device at hand decodes anything, rightly

}  // namespace ecq_bench
