#pragma once
/// \file
/// rANS with direct tables for every alphabet.

#include <span>
#include <string_view>
#include <utility>

#include "ecq/entropy/rans/rans.hpp"
#include "ecq/entropy/smallest_split.hpp"

namespace ecq {

/// A variant of rans whose tables are all direct ones of 2^12 slots. To decoders, its streams are those of rans. A GPU
/// finds a symbol in a direct table by one look-up, while the alias tables that a CPU's registers hold take two. 256
/// symbols need no raw bits.
struct rans_direct : rans {
  static constexpr std::string_view name = "rans_direct";

  /// Returns the plan of the smallest of all splits.
  static coding_plan<table> plan(std::span<const histogram> classes, unsigned most_raw_bits = 7) {
    return detail::smallest_split<table>(classes, most_raw_bits, [](const histogram& coded) {
      const table direct = {.frequencies = normalize_frequencies(coded, detail::rans_shape::direct_bits)};
      return std::pair(direct, coded_bits(coded, direct.frequencies));
    });
  }
};

static_assert(entropy_coder<rans_direct>);

}  // namespace ecq
