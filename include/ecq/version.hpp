#pragma once
/// \file
/// Library version (semantic versioning). The bitstream has a version of its own: stream/stream_header.hpp.

#define ECQ_VERSION_MAJOR 0         ///< from 1.0 on: incompatible changes
#define ECQ_VERSION_MINOR 1         ///< before 1.0: incompatible changes; from then on: new features
#define ECQ_VERSION_PATCH 0         ///< corrections
#define ECQ_VERSION_STRING "0.1.0"  ///< "major.minor.patch"
