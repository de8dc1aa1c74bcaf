#pragma once
/// \file
/// Constants that apply to all elements of a word at once.

#include <cstdint>

#include "ecq/base/config.hpp"

namespace ecq::detail {

/// Repeats `bits` in each half (twice) or each byte (four_times) of a 32-bit word.
ECQ_HOST_DEVICE constexpr std::uint32_t twice(std::uint32_t bits) { return bits | (bits << 16); }
ECQ_HOST_DEVICE constexpr std::uint32_t four_times(std::uint32_t bits) { return twice(bits | (bits << 8)); }

}  // namespace ecq::detail
