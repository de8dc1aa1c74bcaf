#pragma once
/// \file
/// A stream: the codes of one block of a model in one contiguous, self-describing run of bytes (docs/format.md).
/// Include this header to work with streams: encoded_stream is the parsed view, encode_stream() makes a stream, and
/// decode_stream() decodes it.

#include "ecq/stream/every_coder.hpp"
#include "ecq/stream/stream_decoder.hpp"
#include "ecq/stream/stream_encoder.hpp"
#include "ecq/stream/stream_view.hpp"
