#pragma once
/// \file
/// Decodes packed matrices to weights, whatever the coder of their stream.

#include "ecq/block_decoder.hpp"
#include "ecq/stream/every_coder.hpp"
#include "ecq/stream/stream_decoder.hpp"
