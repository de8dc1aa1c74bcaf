#pragma once
/// \file
/// The frequencies of a tANS code, its record in a stream's tables section, and the spread of symbols over states.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ecq/entropy/rans/rans_table.hpp"

namespace ecq {

/// One frequency table of a stream, whose frequencies sum to 2^bits(). With a single symbol, nothing is coded.
struct tans_table {
  static constexpr unsigned min_bits = 9;
  static constexpr unsigned max_bits = 12;

  frequency_table frequencies;

  unsigned bits() const noexcept { return frequencies.scale_bits; }
  std::uint32_t states() const noexcept { return 1U << frequencies.scale_bits; }

  static constexpr std::size_t record_bytes(std::size_t count) noexcept { return rans_table::record_bytes(count); }

  /// Appends the record, which is that of a direct rans_table with another mapping.
  void append_to(std::vector<std::byte>& section) const {
    rans_table{.mapping = slot_mapping::spread, .bucket_bits = 0, .frequencies = frequencies}.append_to(section);
  }

  /// Reads the record at `position` of the tables section and moves `position` past it.
  static result<tans_table> read(std::span<const std::byte> section, std::size_t& position, split_map map) {
    if (section.size() - position >= 4) {
      const std::byte* from = section.data() + position;
      if (from[0] != static_cast<std::byte>(slot_mapping::spread)) {
        return error(errc::unsupported, "slot mapping ", static_cast<unsigned>(from[0]));
      }
      if (const auto wanted = static_cast<unsigned>(from[1]); wanted < min_bits || wanted > max_bits) {
        return error(errc::corrupt, "spread over 2^", wanted, " states, not 2^9..2^12");
      }
    }
    ECQ_TRY(table, rans_table::read(section, position, map, slot_mapping::spread));
    return tans_table{table.frequencies};
  }
};

/// Returns the number of the symbol of each state 0 .. 2^bits - 1. In ascending order, each symbol takes as many states
/// as its frequency, every (5/8 * 2^bits + 3)-th one, modulo 2^bits: the spread of Collet's FSE, without its special
/// case for low probabilities. An odd step visits every state once.
inline std::vector<std::uint8_t> spread_symbols(const tans_table& table) {
  const std::uint32_t states = table.states();
  std::vector<std::uint8_t> symbol_of(states);
  std::uint32_t at = 0;
  for (unsigned i = 0; i < table.frequencies.count; ++i) {
    for (std::uint32_t n = 0; n < table.frequencies.frequencies[i]; ++n) {
      symbol_of[at] = static_cast<std::uint8_t>(i);
      at = (at + (states >> 1) + (states >> 3) + 3) & (states - 1);
    }
  }
  return symbol_of;
}

/// Calls `use(state, symbol number, x)` for every state, ascending: x runs from f to 2 f - 1 over the states of a
/// symbol of frequency f.
template <class Use>
void for_each_state(const tans_table& table, Use&& use) {
  std::array<std::uint32_t, 256> next = table.frequencies.frequencies;
  const auto symbol_of = spread_symbols(table);
  for (std::uint32_t state = 0; state < table.states(); ++state) use(state, symbol_of[state], next[symbol_of[state]]++);
}

}  // namespace ecq
