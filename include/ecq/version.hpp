#pragma once
/// \file
/// Library version (semantic versioning). The bitstream has a version of its own: stream/stream_header.hpp.

#define ECQ_VERSION_MAJOR 0
#define ECQ_VERSION_MINOR 1
#define ECQ_VERSION_PATCH 0
#define ECQ_VERSION_STRING "0.1.0"
