#pragma once
/// \file
/// Constants for the elements of a word, all at once.

#include <cstdint>

#include "ecq/base/config.hpp"

namespace ecq::detail {

/// `bits` in each 16 bits, or each 8.
ECQ_HOST_DEVICE constexpr std::uint32_t twice(std::uint32_t bits) { return bits | (bits << 16); }
ECQ_HOST_DEVICE constexpr std::uint32_t four_times(std::uint32_t bits) { return twice(bits | (bits << 8)); }

}  // namespace ecq::detail
