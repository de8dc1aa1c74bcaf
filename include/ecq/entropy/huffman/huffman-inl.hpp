#pragma once
/// \file
/// Definition of Huffman codes in 32 lanes: the scalar code, which defines the format, and the choice of kernels.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "ecq/entropy/bit_stack/bit_stack_decode.hpp"
#include "ecq/entropy/bit_stack/bit_stack_encode.hpp"
#include "ecq/entropy/huffman/code_lengths.hpp"
#include "ecq/entropy/huffman/huffman.hpp"
#include "ecq/entropy/side_by_side.hpp"
#include "ecq/entropy/smallest_split.hpp"

namespace ecq {

ECQ_INLINE huffman::encoder::encoder(const table& code, split_map map) : raw_bits_(map.bits) {
  for (unsigned i = 0; i < code.count; ++i) words_[code.symbols[i]] = {code.words[i], code.lengths[i]};
}

ECQ_INLINE std::size_t huffman::encoder::encode(std::span<const std::uint8_t> codes, std::byte* states,
                                                std::span<std::uint16_t> words) const {
  std::size_t count = 0;
  encode_many({&codes, 1}, &states, {&words, 1}, {&count, 1}, instruction_set::scalar);
  return count;
}

ECQ_INLINE void huffman::encoder::encode_many(std::span<const std::span<const std::uint8_t>> codes,
                                              std::byte* const* states, std::span<const std::span<std::uint16_t>> words,
                                              std::span<std::size_t> counts, instruction_set isa) const {
  using cursor = detail::bit_stack_encode_cursor;
  const instruction_set chosen = chosen_instruction_set(isa);
  detail::huffman_encoding kernel_table;
  if (chosen != instruction_set::scalar) kernel_table = encoding();
  detail::encode_side_by_side<cursor>(
      codes.size(), [&](cursor& chunk, std::size_t i) { chunk.begin(codes[i], words[i], 0); },
      [&](cursor& chunk, std::size_t down_to) {
        chunk.encode(down_to, [&](auto&, std::uint8_t code) { return words_[std::size_t{code} >> raw_bits_]; });
      },
      [&](std::span<cursor> chunks) { detail::bit_stack_encode(kernel_table, chosen, chunks); },
      [&](const cursor& chunk, std::size_t i) {
        for (std::size_t lane = 0; lane < lane_count; ++lane) store_le(states[i] + 4 * lane, chunk.stack[lane]);
        counts[i] = static_cast<std::size_t>(words[i].data() + words[i].size() - chunk.word);
      });
}

ECQ_INLINE detail::huffman_encoding huffman::encoder::encoding() const {
  detail::huffman_encoding table;
  for (std::size_t code = 0; code < 256; ++code) {
    const detail::pushed& word = words_[code >> raw_bits_];
    table.entries[code] = (word.value << (16 - word.bits) & 0xFFFFU) | word.bits << 16;
  }
  table.number();
  return table;
}

template <class Lut>
huffman::lut_decoder<Lut>::lut_decoder(const table& code, split_map map)
    : raw_bits_(map.bits), longest_(code.longest), only_(map.join(code.symbols[0], 0)), lut_(code) {}

template <class Lut>
errc huffman::lut_decoder<Lut>::decode(const chunk_bytes& chunk, std::uint8_t* out) const {
  if (longest_ == 0) return detail::decode_unmoved_stacks(chunk, only_, out);
  detail::bit_stack_cursor cursor;
  return cursor.begin(chunk, out) ? finish(cursor) : errc::corrupt;
}

template <class Lut>
void huffman::lut_decoder<Lut>::decode_many(std::span<const chunk_bytes> chunks, std::uint8_t* const* out,
                                            std::span<errc> verdicts, instruction_set isa) const
  requires std::same_as<Lut, huffman_wide>
{
  const instruction_set chosen = chosen_instruction_set(isa);
  if (longest_ == 0 || chosen == instruction_set::scalar) {
    for (std::size_t i = 0; i < chunks.size(); ++i) verdicts[i] = decode(chunks[i], out[i]);
    return;
  }
  const detail::huffman_lookup lookup(lut_.view(), longest_, raw_bits_);
  detail::decode_side_by_side<detail::bit_stack_cursor>(
      verdicts, [&](detail::bit_stack_cursor& cursor, std::size_t i) { return cursor.begin(chunks[i], out[i]); },
      [&](std::span<detail::bit_stack_cursor*> cursors) { detail::bit_stack_advance(lookup, chosen, cursors); },
      [&](const detail::bit_stack_cursor& cursor, std::size_t) { return finish(cursor); });
}

template <class Lut>
errc huffman::lut_decoder<Lut>::finish(const detail::bit_stack_cursor& cursor) const {
  return cursor.finish([lut = lut_.view(), raw_bits = raw_bits_](std::uint32_t&, std::uint32_t stack) {
    const unsigned entry = lut.look_up(stack);
    return detail::stack_entry{0, static_cast<std::uint8_t>(huffman_entry::length(entry)),
                               static_cast<std::uint8_t>(huffman_entry::value(entry) << raw_bits)};
  });
}

ECQ_INLINE coding_plan<huffman::table> huffman::plan(std::span<const histogram> classes, unsigned most_raw_bits) {
  return detail::smallest_split<table>(classes, most_raw_bits, [](const histogram& coded) {
    const code_lengths lengths = limited_code_lengths(coded, table::limit);
    return std::pair(table::of(coded, lengths), coded_bits(coded, lengths));
  });
}

}  // namespace ecq
