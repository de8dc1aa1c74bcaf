#pragma once
/// \file
/// Canonical Huffman codes in the layout that DFloat11 and ECF8 published. The code words of a chunk form one run of
/// bits, cut into windows of 8 bytes. Gaps tell each thread where in its window the first code word starts, and
/// positions tell each group of threads where its codes go.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "ecq/base/config.hpp"
#include "ecq/entropy/entropy_coder.hpp"
#include "ecq/entropy/huffman/huffman_lut.hpp"
#include "ecq/entropy/huffman/huffman_multi_lut.hpp"
#include "ecq/entropy/huffman/huffman_table.hpp"
#include "ecq/entropy/huffman_gaps/huffman_gap_array.hpp"

namespace ecq {

/// Coder of Huffman codes with gap arrays. A chunk that coding would not make smaller than its symbols is stored: each
/// word holds two symbols.
struct huffman_gaps {
  static constexpr std::string_view name = "huffman_gaps";
  static constexpr coder_id id = coder_id::huffman_gaps;
  static constexpr std::size_t state_bytes = 0;

  using table = huffman_table<32>;

  /// Returns the number of 16-bit words of a chunk whose code words fill `windows` windows.
  static constexpr std::uint64_t words_of(std::uint64_t windows, unsigned longest) noexcept {
    return gap_array_words(windows, gap_bits(longest));
  }
  static constexpr unsigned gap_bits(unsigned longest) noexcept { return gap_bits_of(longest); }
  static constexpr std::uint32_t stored_words(std::uint32_t symbols) noexcept { return gap_stored_words(symbols); }

  /// Opens chunks and finds their stretches.
  class chunk_opener {
   public:
    chunk_opener(const table& code, split_map map)
        : map_(map), longest_(code.longest), only_(code.symbols[0]), coded_(code.count > 1) {}

    /// Decodes a chunk that has no stretches, because it is stored or because its codes take no bits, and sets `view`
    /// to 0 windows. Otherwise sets `view` to the stretches of the chunk.
    errc open(const chunk_bytes& chunk, std::uint8_t* out, gap_array_view& view) const;

   private:
    split_map map_;
    unsigned longest_;
    std::uint8_t only_;
    bool coded_;
  };

  class encoder {
   public:
    encoder(const table& code, split_map map) : raw_bits_(map.bits), longest_(code.longest) {
      for (unsigned i = 0; i < code.count; ++i) words_[code.symbols[i]] = {code.words[i], code.lengths[i]};
    }

    std::size_t encode(std::span<const std::uint8_t> codes, std::byte*, std::span<std::uint16_t> words) const;

   private:
    struct code_word {
      std::uint32_t bits = 0;
      std::uint32_t length = 0;
    };

    unsigned raw_bits_;
    unsigned longest_;
    std::array<code_word, 256> words_{};
  };

  /// Decodes in one pass (entropy/huffman_gaps/huffman_gap_pass.hpp). Groups of threads decode with
  /// entropy/huffman_gaps/huffman_gap_chunk.hpp instead.
  class decoder {
   public:
    decoder(const table& code, split_map map);

    errc decode(const chunk_bytes& chunk, std::uint8_t* out) const {
      errc verdict = errc::ok;
      decode_many({&chunk, 1}, &out, {&verdict, 1}, instruction_set::automatic);
      return verdict;
    }

    /// Sets verdicts[i] to decode(chunks[i], out[i]) for all i. Decodes stretches of several chunks side by side.
    void decode_many(std::span<const chunk_bytes> chunks, std::uint8_t* const* out, std::span<errc> verdicts,
                     instruction_set isa) const;

   private:
    chunk_opener opener_;
    unsigned raw_bits_;
    huffman_wide single_;
    huffman_multi multi_;
  };

  /// Returns the plan of the smallest split, gaps and positions included, with codes of at most 16 bits, or of at most
  /// 32 with wider gaps.
  static coding_plan<table> plan(std::span<const histogram> classes, unsigned most_raw_bits = 7);
};

static_assert(entropy_coder<huffman_gaps>);
static_assert(decodable_on<huffman_gaps, cpu>);

}  // namespace ecq

#if ECQ_HEADER_ONLY
#include "ecq/entropy/huffman_gaps/huffman_gaps-inl.hpp"
#endif
