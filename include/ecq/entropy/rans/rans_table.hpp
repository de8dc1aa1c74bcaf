#pragma once
/// \file
/// The record of rANS in the tables section: frequencies, and the mapping of a state's slots to symbols.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ecq/base/little_endian.hpp"
#include "ecq/base/result.hpp"
#include "ecq/entropy/frequencies.hpp"
#include "ecq/entropy/rans/alias_table.hpp"
#include "ecq/entropy/symbol_map.hpp"

namespace ecq {

/// Registered ids of slot mappings (docs/format.md).
enum class slot_mapping : std::uint8_t {
  alias = 0,       ///< alias_table over 2^16 slots, for at most 64 symbols
  direct = 1,      ///< slot = start of the symbol + rank, symbols ascending; 2^8 .. 2^14 slots
  code_words = 2,  ///< Huffman: lengths of code words instead of slots
  spread = 3       ///< tANS: the states of a symbol lie apart; 2^9 .. 2^12 states
};

namespace detail {

/// Mapping and number of the slots that rans gives to a table of `count` symbols: an alias table to few symbols, a
/// direct table to many. With `direct`, those of rans_direct.
struct rans_shape {
  static constexpr unsigned direct_bits = 12;

  slot_mapping mapping;
  unsigned bucket_bits;  ///< 0 for direct
  unsigned scale_bits;

  static ECQ_HOST_DEVICE constexpr rans_shape of(std::uint32_t count, bool direct = false) {
    if (direct || count > alias_table::max_buckets) return {slot_mapping::direct, 0, direct_bits};
    return {slot_mapping::alias, count <= 32 ? 5U : 6U, alias_table::scale_bits};
  }
};

/// Returns the cost in bits of a split of `codes` codes: their raw bits, `bits` for the coded symbols and `record_bits`
/// for the table's record. Direct tables have to save 0.01 bit per code, since alias tables decode faster.
ECQ_HOST_DEVICE constexpr std::uint64_t rans_cost(std::uint64_t codes, unsigned raw_bits, std::uint64_t bits,
                                                  std::uint64_t record_bits, bool direct) {
  return codes * raw_bits + bits + record_bits + (direct ? codes / 100 : 0);
}

/// Returns the size in bytes of the record of a table with `count` symbols.
ECQ_HOST_DEVICE constexpr std::size_t rans_record_bytes(std::size_t count) noexcept {
  return 4 + count + count % 2 + 2 * count;
}

/// Writes the record: u8 mapping, u8 parameter, u16 count, u8 symbols, padding to 2 bytes, u16 frequency - 1 each. With
/// several `threads`, the thread of each `rank` writes a part.
ECQ_HOST_DEVICE inline void write_rans_record(std::byte* to, slot_mapping mapping, unsigned parameter,
                                              std::uint32_t count, const std::uint8_t* symbols,
                                              const std::uint32_t* frequencies, std::uint32_t rank = 0,
                                              std::uint32_t threads = 1) {
  std::byte* const symbol = to + 4;
  std::byte* const frequency = symbol + count + count % 2;
  if (rank == 0) {
    to[0] = static_cast<std::byte>(mapping);
    to[1] = static_cast<std::byte>(parameter);
    store_le(to + 2, static_cast<std::uint16_t>(count));
    if (count % 2 != 0) symbol[count] = std::byte{0};
  }
  for (std::uint32_t i = rank; i < count; i += threads) {
    symbol[i] = static_cast<std::byte>(symbols[i]);
    store_le(frequency + std::size_t{2} * i, static_cast<std::uint16_t>(frequencies[i] - 1));
  }
}

}  // namespace detail

/// One frequency table of a stream. With a single symbol, nothing is coded.
struct rans_table {
  static constexpr unsigned min_direct_bits = 8;
  static constexpr unsigned max_direct_bits = 14;

  slot_mapping mapping = slot_mapping::direct;
  unsigned bucket_bits = 0;  ///< alias: 5 or 6
  frequency_table frequencies;

  std::span<const std::uint32_t> used_frequencies() const noexcept {
    return std::span<const std::uint32_t>(frequencies.frequencies).first(frequencies.count);
  }

  /// Returns the size in bytes of the record of a table with `count` symbols.
  static constexpr std::size_t record_bytes(std::size_t count) noexcept { return detail::rans_record_bytes(count); }

  void append_to(std::vector<std::byte>& section) const {
    const std::size_t at = section.size();
    section.resize(at + record_bytes(frequencies.count));
    detail::write_rans_record(&section[at], mapping,
                              mapping == slot_mapping::alias ? bucket_bits : frequencies.scale_bits, frequencies.count,
                              frequencies.symbols.data(), frequencies.frequencies.data());
  }

  /// Reads the record at `position` of the tables section and moves `position` past it. Its mapping is alias or `flat`.
  static result<rans_table> read(std::span<const std::byte> section, std::size_t& position, split_map map,
                                 slot_mapping flat = slot_mapping::direct) {
    const auto truncated = [&] {
      return error(errc::truncated, "record at ", position, " extends beyond the section of ", section.size(),
                   " bytes");
    };
    if (section.size() - position < 4) return truncated();
    const std::byte* from = section.data() + position;
    rans_table table;
    table.mapping = static_cast<slot_mapping>(from[0]);
    const auto parameter = static_cast<unsigned>(from[1]);
    const unsigned count = load_le<std::uint16_t>(from + 2);
    if (table.mapping == slot_mapping::alias) {
      table.bucket_bits = parameter;
      table.frequencies.scale_bits = alias_table::scale_bits;
      if (parameter != 5 && parameter != 6) {
        return error(errc::corrupt, "alias table of 2^", parameter, " buckets, not 32 or 64");
      }
      if (count > (1U << parameter)) {
        return error(errc::corrupt, count, " symbols do not fit ", 1U << parameter, " alias buckets");
      }
    } else if (table.mapping == flat) {
      table.frequencies.scale_bits = parameter;
      if (parameter < min_direct_bits || parameter > max_direct_bits) {
        return error(errc::corrupt, "direct table of 2^", parameter, " slots, not 2^8..2^14");
      }
    } else {
      return error(errc::unsupported, "slot mapping ", static_cast<unsigned>(from[0]));
    }
    if (count == 0 || count > 256) return error(errc::corrupt, count, " symbols, not 1..256");
    if (section.size() - position < record_bytes(count)) return truncated();
    if (count % 2 != 0 && from[4 + count] != std::byte{0}) return error(errc::corrupt, "padding is not zero");
    table.frequencies.count = count;
    const std::byte* frequencies = from + 4 + count + count % 2;
    std::uint32_t sum = 0;
    for (unsigned i = 0; i < count; ++i) {
      const auto symbol = static_cast<std::uint8_t>(from[4 + i]);
      if (i > 0 && symbol <= table.frequencies.symbols[i - 1]) {
        return error(errc::corrupt, "symbol ", symbol, " follows ", table.frequencies.symbols[i - 1],
                     ", not in ascending order");
      }
      if (symbol >= map.alphabet()) {
        return error(errc::corrupt, "symbol ", symbol, " is too large with ", map.bits, " raw bits");
      }
      table.frequencies.symbols[i] = symbol;
      table.frequencies.frequencies[i] = load_le<std::uint16_t>(frequencies + std::size_t{2} * i) + 1U;
      sum += table.frequencies.frequencies[i];
    }
    if (sum != 1U << table.frequencies.scale_bits) {
      return error(errc::corrupt, "frequencies sum to ", sum, ", not ", 1U << table.frequencies.scale_bits);
    }
    position += record_bytes(count);
    return table;
  }
};

}  // namespace ecq
