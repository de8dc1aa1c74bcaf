#pragma once
/// \file
/// Packing of matrices into blocks, by any method and any coder. All compression takes this path.

#include <cstddef>
#include <functional>
#include <span>

#include "ecq/base/backend.hpp"
#include "ecq/base/config.hpp"
#include "ecq/base/result.hpp"
#include "ecq/methods/method.hpp"
#include "ecq/packed.hpp"
#include "ecq/quantize/rate_correction.hpp"
#include "ecq/stream/stream_encoder.hpp"

namespace ecq::detail {

/// Callback that gets each matrix of a block, its number in the block, and its elements once they are made.
using block_observer =
    std::function<result<void>(std::size_t index, const packed_matrix& matrix, std::span<const std::byte> elements)>;

/// Packs `matrices` into one block, where they follow one another in one stream. The method knows the first of them by
/// number `first`. Takes memory for the elements and their stream. Errors: those of the method and of encoding, which
/// name the matrix.
result<packed_block> pack_block(const cpu& backend, const prepared_method& method, std::size_t first,
                                const rate_correction& correction, std::span<const named_weights> matrices,
                                const stream_options& stream, encode_function encode,
                                const block_observer& observer = {});

/// Compresses a block by itself: prepares the method, packs the block, and packs it again until the target bits are
/// met. Errors: those of the method, unreachable_target, limit_exceeded, out_of_memory.
result<packed_block> compress_block(const cpu& backend, const compression_method& method,
                                    std::span<const named_weights> matrices, const stream_options& stream,
                                    encode_function encode);

}  // namespace ecq::detail

#if ECQ_HEADER_ONLY
#include "ecq/methods/pack-inl.hpp"
#endif
