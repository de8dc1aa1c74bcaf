#pragma once
/// \file
/// A stream: the codes of one block of a model in one contiguous, self-describing run of bytes (docs/format.md).
/// This is the header to include: encoded_stream is the parsed view, encode_stream and decode_stream are its verbs.

#include "ecq/stream/every_coder.hpp"
#include "ecq/stream/stream_decoder.hpp"
#include "ecq/stream/stream_encoder.hpp"
#include "ecq/stream/stream_view.hpp"
