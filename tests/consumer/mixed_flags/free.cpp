#include "encode.hpp"

std::vector<std::uint8_t> encode_free() { return encode_ramp<1>(); }
