#pragma once
/// \file
/// Decoding of packed matrices to weights, with all coders of the library.

#include "ecq/block_decoder.hpp"
#include "ecq/stream/every_coder.hpp"
#include "ecq/stream/stream_decoder.hpp"
