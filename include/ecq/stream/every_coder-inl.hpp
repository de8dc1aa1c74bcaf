#pragma once
/// \file
/// Definition of the set of all coders of this library, with their decoders.

#include "ecq/base/config.hpp"
#include "ecq/stream/every_coder.hpp"

namespace ecq {

ECQ_INLINE every_coder::operator coder_set() const noexcept { return coders<rans, tans, huffman, huffman_gaps>; }

}  // namespace ecq
