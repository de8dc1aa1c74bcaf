#pragma once
/// \file
/// tANS (Duda 2013) in 32 lanes, with states of 9 to 12 bits and a bit stack for each lane. This scalar code is the
/// definition; every other decoder gives the same codes for the same bytes, and the same verdict on bad ones.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "ecq/base/config.hpp"
#include "ecq/entropy/bit_stack/bit_stack.hpp"
#include "ecq/entropy/bit_stack/bit_stack_lookup.hpp"
#include "ecq/entropy/entropy_coder.hpp"
#include "ecq/entropy/tans/tans_table.hpp"

namespace ecq {

/// Entry of a state in a decode table: the decoded byte, and the next state, base + the number formed by `bits` (0..12)
/// bits of the lane's stack.
using tans_entry = detail::stack_entry;

/// tANS in 32 lanes: each symbol leads its lane from one state to the next by bits that it pops from the lane's stack
/// (entropy/bit_stack/bit_stack.hpp).
struct tans {
  static constexpr std::string_view name = "tans";
  static constexpr coder_id id = coder_id::tans;
  /// The stacks of all lanes, 4 bytes each, then their states, 2 bytes each.
  static constexpr std::size_t state_bytes = detail::bit_stack_bytes + lane_count * 2;

  using table = tans_table;

  /// The encoder, which starts from state 0 in every lane.
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
    /// A symbol of frequency f takes `most` bits from x if x >= `limit` = f << most, otherwise one bit less. The rest y
    /// of x is then within f .. 2 f - 1, and the next x is state_of_[start + y], with start modulo 2^32.
    struct entry {
      std::uint32_t limit = 0;
      std::uint32_t most = 0;
      std::uint32_t start = 0;
    };

    detail::pushed push(std::uint32_t& x, std::uint8_t code) const;

    detail::tans_encoding encoding() const;

    unsigned raw_bits_;
    std::uint32_t states_;
    bool constant_;
    std::array<entry, 256> entries_{};
    std::vector<std::uint16_t> state_of_;  ///< each is a state + 2^bits
  };

  class decoder {
   public:
    decoder(const table& frequencies, split_map map);

    /// Returns an entry for each state, or none if there is only one symbol, whose decoded byte only() returns.
    std::span<const tans_entry> entries() const noexcept { return entries_; }
    std::uint8_t only() const noexcept { return only_; }

    /// Decodes one chunk by the scalar definition to chunk.symbols bytes at `out`. Returns errc::ok, or errc::corrupt
    /// for bytes that no encoder wrote.
    errc decode(const chunk_bytes& chunk, std::uint8_t* out) const;

    /// Sets verdicts[i] to decode(chunks[i], out[i]) for all i, several chunks side by side, with the kernels of `isa`.
    void decode_many(std::span<const chunk_bytes> chunks, std::uint8_t* const* out, std::span<errc> verdicts,
                     instruction_set isa) const;

   private:
    /// Puts `cursor` at the beginning of `chunk`. Returns false if the chunk's states are invalid.
    bool begin(detail::bit_stack_cursor& cursor, const chunk_bytes& chunk, std::uint8_t* out) const;

    errc finish(const detail::bit_stack_cursor& cursor) const;

    std::uint8_t only_;
    std::vector<tans_entry> entries_;
  };

  /// Returns the plan of the smallest of all splits, with 2^11 states, or 2^12 for more than 64 symbols.
  static coding_plan<table> plan(std::span<const histogram> classes, unsigned most_raw_bits = 7);
};

static_assert(entropy_coder<tans>);
static_assert(decodable_on<tans, cpu>);

}  // namespace ecq

#if ECQ_HEADER_ONLY
#include "ecq/entropy/tans/tans-inl.hpp"
#endif
