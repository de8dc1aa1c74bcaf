#include "encode.hpp"

std::vector<std::uint8_t> encode_plain() { return encode_ramp<0>(); }
