#pragma once
/// \file
/// The concepts of entropy coders and of the backends that decode them; concepts.hpp gathers them.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "ecq/base/backend.hpp"
#include "ecq/base/result.hpp"
#include "ecq/entropy/histogram.hpp"
#include "ecq/entropy/symbol_map.hpp"

namespace ecq {

/// Registered ids of entropy coders (docs/format.md). Ids from 32768 on are for coders of users' own and are never
/// registered.
enum class coder_id : std::uint16_t { raw = 0, rans = 1, tans = 2, huffman = 3, huffman_gaps = 4 };

/// Returns the name of a coder: "rans" for coder_id::rans, and so on.
constexpr std::string_view to_string(coder_id id) noexcept {
  switch (id) {
    case coder_id::raw: return "raw";
    case coder_id::rans: return "rans";
    case coder_id::tans: return "tans";
    case coder_id::huffman: return "huffman";
    case coder_id::huffman_gaps: return "huffman_gaps";
  }
  return "unknown";
}

/// Location of the coded bytes of one chunk. `words` and `states` may be read stream_tail_bytes beyond their end.
struct chunk_bytes {
  const std::byte* states;   ///< Coder::state_bytes bytes
  const std::byte* words;    ///< `word_count` little-endian 16-bit words
  std::uint32_t word_count;  ///< at most `symbols`
  std::uint32_t symbols;     ///< 1 .. 2^18
};

/// Plan by which a coder codes a stream: the symbol map of all chunks and a table for each class of chunks.
template <class Table>
struct coding_plan {
  split_map map;
  std::vector<Table> tables;  ///< tables[c] is for the codes counted in classes[c]
  std::uint64_t bits = 0;     ///< expected information of all words
};

/// A coder that codes bytes chunk by chunk, with one static table for each class of chunks.
///  - `plan` chooses the symbol map and the tables for the given histograms, none of them empty. Unless the coder codes
///    nothing, it leaves at most `most_raw_bits` (0..7, by default 7) bits raw;
///  - a table appends its record to a stream's tables section and reads it back at `position`, which it moves past the
///    record. Reading checks everything and never lets an unchecked value decide how much memory is allocated;
///  - an encoder codes one chunk, all of whose symbols are in its table. It is given whole codes and codes their
///    symbols; the map says which bits are raw, and the stream stores those. The encoder writes Coder::state_bytes
///    bytes of states, writes words to the *end* of `words`, which has room for one word per code, and returns their
///    number;
///  - a decoder writes `coded symbol << raw bits` for each symbol of a chunk. Any bytes are safe to decode: it returns
///    errc::corrupt if they are not a chunk that an encoder wrote.
template <class Coder>
concept entropy_coder =
    requires(std::span<const histogram> classes, std::span<const std::byte> section, std::size_t position,
             const typename Coder::table table, split_map map, std::vector<std::byte> record, unsigned most_raw_bits) {
      { Coder::name } -> std::convertible_to<std::string_view>;
      { Coder::id } -> std::convertible_to<coder_id>;
      { Coder::state_bytes } -> std::convertible_to<std::size_t>;
      { Coder::plan(classes) } -> std::same_as<coding_plan<typename Coder::table>>;
      { Coder::plan(classes, most_raw_bits) } -> std::same_as<coding_plan<typename Coder::table>>;
      { table.append_to(record) } -> std::same_as<void>;
      { Coder::table::read(section, position, map) } -> std::same_as<result<typename Coder::table>>;
      typename Coder::encoder;
      typename Coder::decoder;
    } &&
    std::constructible_from<typename Coder::encoder, const typename Coder::table&, split_map> &&
    std::constructible_from<typename Coder::decoder, const typename Coder::table&, split_map> &&
    requires(const typename Coder::encoder encoder, const typename Coder::decoder decoder, chunk_bytes chunk,
             std::span<const std::uint8_t> codes, std::byte* states, std::span<std::uint16_t> words,
             std::uint8_t* out) {
      { encoder.encode(codes, states, words) } -> std::same_as<std::size_t>;
      { decoder.decode(chunk, out) } -> std::same_as<errc>;
    };

/// Whether `Type` is a backend. Specialised to true beside each backend's definition.
template <class Type>
inline constexpr bool is_backend = false;
template <>
inline constexpr bool is_backend<cpu> = true;

/// A backend, on which the library's functions run, such as `cpu{.threads = n}`.
template <class Type>
concept backend = std::copyable<Type> && is_backend<Type>;

/// Whether `Backend` can decode streams of `Coder`. Specialised to true beside the decoder of a coder for a backend.
template <class Coder, class Backend>
inline constexpr bool has_decoder = false;
template <entropy_coder Coder>
inline constexpr bool has_decoder<Coder, cpu> = true;

/// A backend that can decode streams of `Coder`.
template <class Coder, class Backend>
concept decodable_on = entropy_coder<Coder> && backend<Backend> && has_decoder<Coder, Backend>;

}  // namespace ecq
