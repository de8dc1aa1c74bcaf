#include "compress.hpp"
#include "ramp.hpp"

std::vector<std::byte> compress_plain() { return compress_ramp(); }
