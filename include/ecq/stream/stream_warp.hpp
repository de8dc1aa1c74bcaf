#pragma once
/// \file
/// Stream as kernels see it, and functions by which a warp (base/threads.hpp) finds and decodes one of its chunks.

#include <cstddef>
#include <cstdint>
#include <optional>

#include "ecq/base/config.hpp"
#include "ecq/base/lanes.hpp"
#include "ecq/base/result.hpp"
#include "ecq/base/threads.hpp"
#include "ecq/entropy/step_warp.hpp"
#include "ecq/entropy/trellis.hpp"
#include "ecq/stream/chunk_index.hpp"
#include "ecq/stream/every_coder.hpp"
#include "ecq/stream/pair_warp.hpp"
#include "ecq/stream/stream_header.hpp"

namespace ecq {

/// Pointers to the sections of a stream, taken from the offsets of a parsed stream_header, and to its decode tables.
/// Trivially copyable. `raw` may be null if raw_bits is 0.
struct warp_stream {
  const std::byte* index = nullptr;
  const std::byte* states = nullptr;
  const std::byte* words = nullptr;
  const std::byte* raw = nullptr;
  std::uint64_t elements = 0;
  std::uint64_t chunks = 0;
  std::uint64_t word_count = 0;
  const warp_table* tables = nullptr;
  const std::uint32_t* entries = nullptr;  ///< the entries of all tables
  std::uint32_t table_count = 0;
  std::uint32_t state_bytes = 0;  ///< per chunk
  unsigned chunk_bits = 0;
  unsigned raw_bits = 0;               ///< per element
  std::uint32_t pairs = 0;             ///< 1: symbols are coded in pairs
  std::uint32_t escape = 0;            ///< 1: the list of nibbles has an escape
  const std::byte* nibbles = nullptr;  ///< null if nibbles are symbols
  const std::byte* escapes = nullptr;
  std::uint64_t escape_count = 0;
  trellis walk = {0, 0};  ///< trellis on which codes lie; 0 state bits: none
};

/// Returns the warp_stream, except `tables` and `entries`, of the stream whose parsed header is `header`. `bytes`
/// points to the stream in the memory of the host or of a device.
inline warp_stream warp_stream_at(const stream_header& header, const std::byte* bytes) {
  const auto at = [&](section_kind kind) { return bytes + header.at(kind).offset; };
  const std::uint64_t state_bytes = header.at(section_kind::states).size;
  const std::uint64_t nibble_bytes = header.at(section_kind::nibbles).size;
  return {.index = at(section_kind::chunk_index),
          .states = at(section_kind::states),
          .words = at(section_kind::words),
          .raw = at(section_kind::raw_bits),
          .elements = header.symbols,
          .chunks = header.chunks,
          .word_count = header.at(section_kind::words).size / 2,
          .table_count = header.tables,
          .state_bytes = header.chunks == 0 ? 0U : static_cast<std::uint32_t>(state_bytes / header.chunks),
          .chunk_bits = header.chunk_bits,
          .raw_bits = header.raw_bits(),
          .pairs = header.pairs ? 1U : 0U,
          .escape = nibble_bytes > nibble_list::bytes ? 1U : 0U,
          .nibbles = nibble_bytes != 0 ? at(section_kind::nibbles) : nullptr,
          .escapes = at(section_kind::escapes),
          .escape_count = header.at(section_kind::escapes).size,
          .walk = header.trellis.value_or(trellis{0, 0})};
}

/// Chunk of a warp_stream, as the index describes it.
struct stream_chunk {
  std::uint64_t number = 0;
  std::uint64_t begin = 0;         ///< its first element
  std::uint32_t elements = 0;      ///< at least 1
  std::uint32_t table = 0;         ///< number of its table
  const std::byte* raw = nullptr;  ///< its raw bits
  unsigned raw_bits = 0;           ///< per element
  trellis walk = {0, 0};           ///< trellis of the stream; if it has state bits, elements are indices
  warp_chunk coded;                ///< its symbols, or their pairs
  warp_pairs pairs;                ///< its pairs, if the stream has any
};

/// Tag of kernels for streams with a single table, of coding `Coding`. Every block copies the entries of the table to
/// fast memory.
template <warp_coding Coding>
struct coded_as {
  static constexpr bool one_table = true;
  static constexpr warp_coding coding = Coding;
  template <warp_coding Other>
  static constexpr bool has = Other == Coding;
};

/// Tag of kernels for streams whose tables have any codings of `Coders`. The tables stay where they are.
template <coder_names Coders>
struct any_coding_of {
  static constexpr bool one_table = false;
  template <warp_coding Coding>
  static constexpr bool has = coder_of(Coding) == coder_id::raw || Coders::names_coder(coder_of(Coding));
};

/// Tag of kernels for streams whose tables have any codings of the shipped coders.
using any_coding = any_coding_of<every_coder>;

namespace detail {

template <coder_names Coders, warp_coding First, warp_coding... Others, class Use>
decltype(auto) visit_coding(std::optional<warp_coding> of_one_table, Use&& use) {
  if constexpr (Coders::names_coder(coder_of(First))) {
    if (of_one_table == First) return use(coded_as<First>{});
  }
  if constexpr (sizeof...(Others) == 0) {
    return use(any_coding_of<Coders>{});
  } else {
    return visit_coding<Coders, Others...>(of_one_table, use);
  }
}

}  // namespace detail

/// Calls `use` with coded_as<...>{} for the coding of a stream's one table if there are kernels for it, else with
/// any_coding_of<Coders>{}. The stream's coder must be raw or one of `Coders`.
template <coder_names Coders = every_coder, class Use>
decltype(auto) visit_coding(std::optional<warp_coding> of_one_table, Use&& use) {
  return detail::visit_coding<Coders, warp_coding::rans_alias, warp_coding::rans_direct, warp_coding::tans,
                              warp_coding::huffman>(of_one_table, use);
}

/// Finds the list and the escapes of a chunk in pairs. Errors: errc::corrupt if the escapes lie outside the stream.
template <lockstep_warp Warp>
ECQ_HOST_DEVICE errc find_pairs(const warp_stream& stream, std::uint64_t number, std::uint32_t symbols,
                                warp_pairs& found) {
  found = {};
  found.symbols = symbols;
  // Due to uniform(), values derived from raw_bits are computed for each chunk, instead of being kept in registers from
  // the first chunk on.
  found.raw_bits = Warp::uniform(stream.raw_bits);
  if (stream.nibbles == nullptr) return errc::ok;
  ECQ_UNROLL
  for (unsigned i = 0; i < 4; ++i) {
    found.list.words[i] = Warp::memory::template load<std::uint32_t>(stream.nibbles + 4 * i);
  }
  found.list.escape = stream.escape != 0;
  if (stream.escape == 0) return errc::ok;
  const std::byte* const record = stream.nibbles + nibble_list::bytes + 8 * number;
  const auto first = Warp::memory::template load<std::uint64_t>(record);
  const auto last = Warp::memory::template load<std::uint64_t>(record + 8);
  if (first > last || last > stream.escape_count || last - first > symbols) return errc::corrupt;
  found.escapes = stream.escapes + first;
  found.escape_count = static_cast<std::uint32_t>(last - first);
  return errc::ok;
}

/// Finds chunk `number`, which must be below stream.chunks, in the index. Errors: errc::corrupt if the chunk lies
/// outside the stream.
template <lockstep_warp Warp>
ECQ_HOST_DEVICE errc find_chunk(const warp_stream& stream, std::uint64_t number, stream_chunk& found) {
  const std::byte* const record = stream.index + chunk_record::bytes * number;
  const auto first_word = Warp::memory::template load<std::uint64_t>(record);
  const auto last_word = Warp::memory::template load<std::uint64_t>(record + chunk_record::bytes);
  found.number = number;
  found.table = static_cast<std::uint32_t>(Warp::memory::template load<std::uint64_t>(record + 8) >> 32) & 0xFFFFU;
  found.begin = number << stream.chunk_bits;
  const std::uint64_t left = stream.elements - found.begin;
  const std::uint64_t whole = std::uint64_t{1} << stream.chunk_bits;
  found.elements = Warp::uniform(static_cast<std::uint32_t>(left < whole ? left : whole));
  found.raw = stream.raw + found.begin / 8 * stream.raw_bits;
  found.raw_bits = stream.raw_bits;
  found.walk = stream.walk;
  const auto symbols = stream.pairs != 0 ? static_cast<std::uint32_t>(pairs_of(found.elements)) : found.elements;
  if (first_word > last_word || last_word > stream.word_count || last_word - first_word > symbols ||
      found.table >= stream.table_count) {
    return errc::corrupt;
  }
  found.coded = {.states = stream.states + number * stream.state_bytes,
                 .words = stream.words + 2 * first_word,
                 .word_count = static_cast<std::uint32_t>(last_word - first_word),
                 .symbols = symbols};
  return stream.pairs != 0 ? find_pairs<Warp>(stream, number, found.elements, found.pairs) : errc::ok;
}

/// Decoder of the chunks of a stream. One warp decodes a chunk into a sink of entropy/chunk_warp.hpp. `Coding` is
/// coded_as<...> or any_coding_of<...>.
template <lockstep_warp Warp, class Coding>
class chunk_decoder {
 public:
  /// `entries` points to the entries of the only table, or to a copy of them; for any_coding_of it is stream.entries.
  /// `ring` is the memory for warp_chunk::ring.
  ECQ_HOST_DEVICE chunk_decoder(const warp_stream& stream, const std::uint32_t* entries, std::byte* ring)
      : stream_(stream), entries_(entries), ring_(ring) {
    if constexpr (Coding::one_table) {
      table_ = stream.tables[0];
      table_.coding = Coding::coding;
    }
  }

  /// Finds chunk `number`, which must be below stream.chunks, and calls `use(chunk, decode)`. `decode(sink)` decodes
  /// the chunk into a sink and returns the verdict; `use` returns the final verdict. Errors: errc::corrupt, without a
  /// call of `use`, if the stream's bytes have no such chunk.
  template <class Use>
  ECQ_DEVICE_INLINE ECQ_HOST_DEVICE errc operator()(std::uint64_t number, Use&& use) const {
    // The compiler assumes that values computed from a thread's number differ from lane to lane, and would guard every
    // vote.
    const std::uint32_t low = Warp::uniform(static_cast<std::uint32_t>(number));
    const std::uint32_t high = Warp::uniform(static_cast<std::uint32_t>(number >> 32));
    stream_chunk found;
    const errc outcome = find_chunk<Warp>(stream_, (std::uint64_t{high} << 32) | low, found);
    if (outcome != errc::ok) return outcome;
    found.coded.ring = ring_;
    const stream_chunk& chunk = found;
    return use(chunk, [&](auto&& sink) ECQ_DEVICE_INLINE {
      if constexpr (Coding::one_table) {
        return decode_chunk_by_warp<Warp, Coding>(table_, entries_, chunk.coded, sink);
      } else {
        const warp_table table = stream_.tables[chunk.table];
        return decode_chunk_by_warp<Warp, Coding>(table, entries_ + table.first, chunk.coded, sink);
      }
    });
  }

 private:
  const warp_stream& stream_;
  const std::uint32_t* entries_;
  std::byte* ring_;
  warp_table table_;
};

}  // namespace ecq
