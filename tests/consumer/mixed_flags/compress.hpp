#pragma once

#include <cstddef>
#include <vector>

std::vector<std::byte> compress_plain();
std::vector<std::byte> compress_free();
