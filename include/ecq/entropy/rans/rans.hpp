#pragma once
/// \file
/// rANS (Duda 2013) in 32 lanes, with states of 32 bits in [2^16, 2^32) and words of 16 bits. This scalar code is the
/// definition; every other decoder gives the same codes for the same bytes, and the same verdict on bad ones.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "ecq/base/config.hpp"
#include "ecq/base/lanes.hpp"
#include "ecq/entropy/element_join.hpp"
#include "ecq/entropy/entropy_coder.hpp"
#include "ecq/entropy/rans/alias_encoding.hpp"
#include "ecq/entropy/rans/encode_entries.hpp"
#include "ecq/entropy/rans/rans_cursor.hpp"
#include "ecq/entropy/rans/rans_slots.hpp"
#include "ecq/entropy/rans/rans_table.hpp"

namespace ecq {

/// The rANS coder, the default for this library's streams.
struct rans {
  static constexpr std::string_view name = "rans";
  static constexpr coder_id id = coder_id::rans;
  static constexpr std::size_t state_bytes = lane_count * 4;
  static constexpr std::uint32_t lower_bound = detail::rans_lower_bound;

  using table = rans_table;

  /// Encodes chunks with a table: a symbol of frequency f takes state x to (x / f) * 2^scale_bits + slot of rank x % f.
  class encoder {
   public:
    encoder(const table& frequencies, split_map map);

    /// Encodes one chunk by the scalar definition: writes its states, writes its words to the end of `words`, and
    /// returns the number of words.
    std::size_t encode(std::span<const std::uint8_t> codes, std::byte* states, std::span<std::uint16_t> words) const;

    /// Sets counts[i] to encode(codes[i], states[i], words[i]) for all i with the kernels of `isa`, which write the
    /// same words.
    void encode_many(std::span<const std::span<const std::uint8_t>> codes, std::byte* const* states,
                     std::span<const std::span<std::uint16_t>> words, std::span<std::size_t> counts,
                     instruction_set isa) const;

   private:
    /// Table entry of a symbol. Division by f < 2^16 of a state x < f * 2^(32 - scale_bits) is exact as x * reciprocal
    /// >> (32 + scale_bits), with reciprocal = ceil(2^(32 + scale_bits) / f).
    struct entry {
      std::uint64_t reciprocal = 0;
      std::uint32_t limit = 0;  ///< states from this limit on give up a word first
      std::uint32_t start = 0;  ///< alias: where the symbol's slots start in slots_; direct: its first slot
      std::uint32_t frequency = 0;
    };

    /// Encodes all groups that are left except the first `down_to`.
    void encode_groups(detail::rans_encode_cursor& cursor, std::size_t down_to) const;
    template <bool Direct>
    void encode_groups_by(detail::rans_encode_cursor& cursor, std::size_t down_to) const;
    detail::encode_entries encode_entries() const;
    /// Encodes all groups, or none if the table has too few slots; precondition: whole groups are left.
    void encode_by_avx512(std::span<detail::rans_encode_cursor> cursors) const;
    /// Encodes all groups, or none if the table has too few slots; precondition: whole groups are left.
    void encode_by_avx2(std::span<detail::rans_encode_cursor> cursors) const;

    unsigned raw_bits_;
    unsigned scale_bits_;
    bool constant_;
    std::array<entry, 256> entries_{};
    std::array<std::uint8_t, 256> numbers_{};  ///< numbers of symbols
    detail::alias_encoding alias_;
    std::vector<std::uint16_t> slots_;  ///< alias: the slots of each symbol, by rank
  };

  class decoder {
   public:
    decoder(const table& frequencies, split_map map) : slots_(frequencies, map) {}

    /// Decodes one chunk by the scalar definition to chunk.symbols bytes at `out`. Returns errc::ok, or errc::corrupt
    /// for bytes that no encoder wrote.
    errc decode(const chunk_bytes& chunk, std::uint8_t* out) const;

    /// Sets verdicts[i] to decode(chunks[i], out[i]) for all i, several chunks side by side, with the kernels of `isa`.
    void decode_many(std::span<const chunk_bytes> chunks, std::uint8_t* const* out, std::span<errc> verdicts,
                     instruction_set isa) const;

    /// Decodes like decode_many(), but to targets[i]. Leading elements that kernels join go to targets[i].elements, and
    /// their number, a multiple of group_symbols, to targets[i].joined. The symbols of all other elements go to
    /// targets[i].symbols().
    void decode_joined(std::span<const chunk_bytes> chunks, const element_join& join, std::span<element_target> targets,
                       std::span<errc> verdicts, instruction_set isa) const;

   private:
    rans_slots slots_;
  };

  /// Returns the plan of the smallest of all splits, with alias tables for classes of at most 64 symbols and direct
  /// tables for wider ones. A plan with only alias tables may cost 0.01 bit per code more, since it decodes faster.
  static coding_plan<table> plan(std::span<const histogram> classes, unsigned most_raw_bits = 7);
};

static_assert(entropy_coder<rans>);
static_assert(decodable_on<rans, cpu>);

}  // namespace ecq

#if ECQ_HEADER_ONLY
#include "ecq/entropy/rans/rans-inl.hpp"
#endif
