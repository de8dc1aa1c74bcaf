#pragma once
/// \file
/// Canonical Huffman codes in 32 lanes, with code words of at most 16 bits. This scalar code is the definition; every
/// other decoder gives the same codes for the same bytes, and the same verdict on bad ones.

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "ecq/base/config.hpp"
#include "ecq/entropy/bit_stack/bit_stack.hpp"
#include "ecq/entropy/bit_stack/bit_stack_lookup.hpp"
#include "ecq/entropy/entropy_coder.hpp"
#include "ecq/entropy/huffman/huffman_lut.hpp"
#include "ecq/entropy/huffman/huffman_table.hpp"

namespace ecq {

/// Huffman coding in 32 lanes: decoding a symbol pops its code word from its lane's bit stack, first bit lowest
/// (entropy/bit_stack/bit_stack.hpp).
struct huffman {
  static constexpr std::string_view name = "huffman";
  static constexpr coder_id id = coder_id::huffman;
  static constexpr std::size_t state_bytes = detail::bit_stack_bytes;

  using table = huffman_table<16>;

  class encoder {
   public:
    encoder(const table& code, split_map map);

    /// Encodes one chunk by the scalar definition: writes its states, writes its words to the end of `words`, and
    /// returns the number of words.
    std::size_t encode(std::span<const std::uint8_t> codes, std::byte* states, std::span<std::uint16_t> words) const;

    /// Sets counts[i] to encode(codes[i], states[i], words[i]) for all i with the kernels of `isa`, which write the
    /// same words.
    void encode_many(std::span<const std::span<const std::uint8_t>> codes, std::byte* const* states,
                     std::span<const std::span<std::uint16_t>> words, std::span<std::size_t> counts,
                     instruction_set isa) const;

   private:
    detail::huffman_encoding encoding() const;

    unsigned raw_bits_;
    std::array<detail::pushed, 256> words_{};
  };

  /// Decoder that looks code words up in a `Lut`, huffman_wide or huffman_cascade. Both give the same codes.
  template <class Lut>
  class lut_decoder {
   public:
    lut_decoder(const table& code, split_map map);

    /// Decodes one chunk by the scalar definition to chunk.symbols bytes at `out`. Returns errc::ok, or errc::corrupt
    /// for bytes that no encoder wrote.
    errc decode(const chunk_bytes& chunk, std::uint8_t* out) const;

    /// Sets verdicts[i] to decode(chunks[i], out[i]) for all i, several chunks side by side, with the kernels of `isa`.
    void decode_many(std::span<const chunk_bytes> chunks, std::uint8_t* const* out, std::span<errc> verdicts,
                     instruction_set isa) const
      requires std::same_as<Lut, huffman_wide>;

   private:
    errc finish(const detail::bit_stack_cursor& cursor) const;

    unsigned raw_bits_;
    unsigned longest_;   ///< length of the longest code word; 0 if there is only one symbol
    std::uint8_t only_;  ///< the decoded byte if there is only one symbol
    Lut lut_;
  };

  using decoder = lut_decoder<huffman_wide>;

  /// Returns the plan of the smallest of all splits, with optimal codes of at most 16 bits.
  static coding_plan<table> plan(std::span<const histogram> classes, unsigned most_raw_bits = 7);
};

static_assert(entropy_coder<huffman>);
static_assert(decodable_on<huffman, cpu>);

}  // namespace ecq

#if ECQ_HEADER_ONLY
#include "ecq/entropy/huffman/huffman-inl.hpp"
#endif
