#include "compress.hpp"
#include "ramp.hpp"

std::vector<std::byte> compress_free() { return compress_ramp(); }
