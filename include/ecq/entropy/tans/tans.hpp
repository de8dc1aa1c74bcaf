#pragma once
/// \file
/// tANS (Duda 2013) in 32 lanes: states of 9 to 12 bits, and a bit stack a lane. This scalar code is the definition;
/// every other decoder gives the same codes for the same bytes, and the same verdict on bad ones.

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

/// What a state decodes: its byte, and the next state = base + as many bits (0..12) as it says from the lane's stack.
using tans_entry = detail::stack_entry;

/// Each symbol leads its lane from one state to the next by bits that it pops (entropy/bit_stack/bit_stack.hpp).
struct tans {
  static constexpr std::string_view name = "tans";
  static constexpr coder_id id = coder_id::tans;
  /// All stacks, 4 bytes each, then all states, 2 bytes each.
  static constexpr std::size_t state_bytes = detail::bit_stack_bytes + lane_count * 2;

  using table = tans_table;

  /// Starts from state 0 in every lane.
  class encoder {
   public:
    encoder(const table& frequencies, split_map map);

    /// The definition, whatever the machine.
    std::size_t encode(std::span<const std::uint8_t> codes, std::byte* states, std::span<std::uint16_t> words) const;

    /// counts[i] = encode(codes[i], states[i], words[i]) for all i, by the kernels of `isa`: the same words.
    void encode_many(std::span<const std::span<const std::uint8_t>> codes, std::byte* const* states,
                     std::span<const std::span<std::uint16_t>> words, std::span<std::size_t> counts,
                     instruction_set isa) const;

   private:
    /// A symbol of frequency f takes `most` bits from x >= `limit` = f << most, else one less; what is left of x is
    /// then within f .. 2 f - 1, and the next x is state_of_[start + it], start modulo 2^32.
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
    std::vector<std::uint16_t> state_of_;  ///< + 2^bits
  };

  class decoder {
   public:
    decoder(const table& frequencies, split_map map);

    /// An entry for each state; none when there is one symbol alone, which is only().
    std::span<const tans_entry> entries() const noexcept { return entries_; }
    std::uint8_t only() const noexcept { return only_; }

    /// The definition, whatever the machine.
    errc decode(const chunk_bytes& chunk, std::uint8_t* out) const;

    /// verdicts[i] = decode(chunks[i], out[i]) for all i, by the kernels of `isa`: several chunks side by side.
    void decode_many(std::span<const chunk_bytes> chunks, std::uint8_t* const* out, std::span<errc> verdicts,
                     instruction_set isa) const;

   private:
    /// At the beginning of `chunk`; false where that is none.
    bool begin(detail::bit_stack_cursor& cursor, const chunk_bytes& chunk, std::uint8_t* out) const;

    errc finish(const detail::bit_stack_cursor& cursor) const;

    std::uint8_t only_;
    std::vector<tans_entry> entries_;
  };

  /// The smallest of all splits, with 2^11 states, and 2^12 for more than 64 symbols.
  static coding_plan<table> plan(std::span<const histogram> classes, unsigned most_raw_bits = 7);
};

static_assert(entropy_coder<tans>);
static_assert(decodable_on<tans, cpu>);

}  // namespace ecq

#if ECQ_HEADER_ONLY
#include "ecq/entropy/tans/tans-inl.hpp"
#endif
