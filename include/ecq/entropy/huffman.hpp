#pragma once
/// \file
/// Canonical Huffman codes in 32 lanes, code words of at most 16 bits. This scalar code is the definition; every other
/// decoder gives the same codes for the same bytes, and the same verdict on bad ones.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "ecq/entropy/bit_stack.hpp"
#include "ecq/entropy/code_lengths.hpp"
#include "ecq/entropy/entropy_coder.hpp"
#include "ecq/entropy/huffman_lut.hpp"
#include "ecq/entropy/huffman_table.hpp"
#include "ecq/entropy/smallest_split.hpp"

namespace ecq {

/// Each symbol pops its code word from its lane's bit stack, first bit lowest (entropy/bit_stack.hpp).
struct huffman {
  static constexpr std::string_view name = "huffman";
  static constexpr coder_id id = coder_id::huffman;
  static constexpr std::size_t state_bytes = detail::bit_stack_bytes;

  using table = huffman_table<16>;

  class encoder {
   public:
    encoder(const table& code, split_map map) : raw_bits_(map.bits) {
      for (unsigned i = 0; i < code.count; ++i) words_[code.symbols[i]] = {code.words[i], code.lengths[i]};
    }

    std::size_t encode(std::span<const std::uint8_t> codes, std::byte* states, std::span<std::uint16_t> words) const {
      return detail::encode_bit_stacks(codes, states, words, [&](std::uint32_t, std::uint8_t code) {
        return words_[std::size_t{code} >> raw_bits_];
      });
    }

   private:
    unsigned raw_bits_;
    std::array<detail::pushed, 256> words_{};
  };

  /// `Lut` is huffman_wide or huffman_cascade: both decode the same.
  template <class Lut>
  class lut_decoder {
   public:
    lut_decoder(const table& code, split_map map)
        : raw_bits_(map.bits), only_(map.join(code.symbols[0], 0)), coded_(code.count > 1), lut_(code) {}

    errc decode(const chunk_bytes& chunk, std::uint8_t* out) const {
      if (!coded_) return detail::decode_unmoved_stacks(chunk, only_, out);
      return detail::decode_bit_stacks(
          chunk, out, [lut = lut_.view(), raw_bits = raw_bits_](std::uint32_t, std::uint32_t stack) {
            const unsigned entry = lut.look_up(stack);
            return detail::popped{huffman_entry::length(entry),
                                  static_cast<std::uint8_t>(huffman_entry::value(entry) << raw_bits)};
          });
    }

   private:
    unsigned raw_bits_;
    std::uint8_t only_;  ///< what is decoded when the code has one symbol alone
    bool coded_;
    Lut lut_;
  };

  using decoder = lut_decoder<huffman_wide>;

  /// The smallest of all splits, with optimal codes of at most 16 bits.
  static coding_plan<table> plan(std::span<const histogram> classes) {
    return detail::smallest_split<table>(classes, [](const histogram& coded) {
      const code_lengths lengths = limited_code_lengths(coded, table::limit);
      return std::pair(table::of(coded, lengths), coded_bits(coded, lengths));
    });
  }
};

static_assert(entropy_coder<huffman>);
static_assert(decodable_on<huffman, cpu>);

}  // namespace ecq
