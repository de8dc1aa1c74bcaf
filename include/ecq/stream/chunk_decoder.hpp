#pragma once
/// \file
/// Decodes whole chunks on the CPU with the kernels of a coder and of its joins.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "ecq/base/backend.hpp"
#include "ecq/entropy/trellis_walk.hpp"
#include "ecq/stream/bit_io.hpp"
#include "ecq/stream/coder_set.hpp"
#include "ecq/stream/pair_io.hpp"
#include "ecq/stream/stream_options.hpp"
#include "ecq/stream/stream_view.hpp"

namespace ecq::detail {

/// The number of chunks that are worth a run if there are few.
inline constexpr std::size_t min_chunk_run = 8;

/// Decodes chunks of one stream, keeping the decoder of the table that the last ones used.
class chunk_decoder {
 public:
  chunk_decoder(const cpu& backend, const encoded_stream& stream, const decode_options& options)
      : isa_(backend.isa), stream_(stream), options_(options) {}

  /// With the decoders of all tables at hand.
  chunk_decoder(const cpu& backend, const encoded_stream& stream, const decode_options& options,
                std::span<const std::unique_ptr<const table_decoder>> ready)
      : isa_(backend.isa), stream_(stream), options_(options), ready_(ready) {}

  /// Writes all elements of chunks first, first + 1, ..., one chunk for each entry of `out`, at most max_chunk_run. The
  /// stream.symbols_in(first + i) elements of chunk first + i go to out[i].
  result<void> decode(std::uint64_t first, std::span<std::byte* const> out) {
    if (options_.verify_checksums) ECQ_CHECK(stream_.verify_chunks(first, out.size(), isa_));
    element_target targets[max_chunk_run];
    errc verdicts[max_chunk_run] = {};
    bool decoded[max_chunk_run] = {};
    for (std::size_t i = 0; i < out.size(); ++i) {
      if (decoded[i]) continue;
      // Take all chunks that share the table of chunk i, wherever they lie in the run. Kernels do not join an odd last
      // pair.
      chunk_bytes chunks[max_chunk_run];
      element_target sharing[max_chunk_run];
      std::size_t members[max_chunk_run];
      std::size_t count = 0;
      const std::uint16_t table = stream_.record(first + i).table;
      for (std::size_t other = i; other < out.size(); ++other) {
        if (stream_.record(first + other).table != table || odd(first + other) != odd(first + i)) continue;
        decoded[other] = true;
        chunks[count] = stream_.chunk(first + other);
        sharing[count] = target_of(first + other, out[other]);
        members[count++] = other;
      }
      errc outcomes[max_chunk_run] = {};
      const element_join join = odd(first + i) ? element_join() : stream_.join();
      decoder_of(table).decode({chunks, count}, join, {sharing, count}, {outcomes, count}, isa_);
      for (std::size_t at = 0; at < count; ++at) {
        verdicts[members[at]] = outcomes[at];
        targets[members[at]] = sharing[at];
      }
    }
    for (std::size_t i = 0; i < out.size(); ++i) {
      if (verdicts[i] != errc::ok) {
        return stream_error(verdicts[i], "chunk ", first + i, " does not decode to its end");
      }
      if (const errc verdict = join_rest(first + i, targets[i], out[i]); verdict != errc::ok) {
        return stream_error(verdict, "chunk ", first + i, " has other escapes than its pairs");
      }
      if (stream_.trellis()) {
        codes_of_indices(*stream_.trellis(), {reinterpret_cast<std::uint8_t*>(out[i]), stream_.symbols_in(first + i)},
                         isa_);
      }
    }
    return {};
  }

 private:
  const table_decoder& decoder_of(std::uint16_t table) {
    if (!ready_.empty()) return *ready_[table];
    if (!decoder_ || table != table_) {
      decoder_ = stream_.decoder_of_table(table);
      table_ = table;
    }
    return *decoder_;
  }

  /// Whether chunk `index` ends in the middle of a pair.
  bool odd(std::uint64_t index) const { return stream_.pairs() && stream_.symbols_in(index) % 2 != 0; }

  /// Where decoded symbols go. Pairs go to the last bytes of the elements' room and are split into elements from the
  /// front.
  element_target target_of(std::uint64_t index, std::byte* elements) const {
    element_target target{.raw = stream_.raw_bits(index).data(), .elements = elements};
    if (!stream_.pairs()) return target;
    const std::span<const std::byte> escapes = stream_.escapes(index);
    target.pairs = reinterpret_cast<std::uint8_t*>(elements) + stream_.element_bytes() * stream_.symbols_in(index) -
                   stream_.coded_in(index);
    target.escape = escapes.data();
    target.escape_end = escapes.data() + escapes.size();
    return target;
  }

  /// Joins the remaining symbols of chunk `index` to elements that begin at `out`.
  errc join_rest(std::uint64_t index, const element_target& target, std::byte* out) const {
    const std::size_t count = stream_.symbols_in(index);
    return visit_split(stream_.format(), [&]<class Split>() {
      constexpr std::size_t width = sizeof(typename Split::element);
      const unsigned bits = stream_.header().raw_bits();
      if (stream_.pairs()) {
        return join_pairs<Split>(stream_.nibbles(), target.pairs + target.joined / 2,
                                 target.raw + target.joined / 8 * bits, {target.escape, target.escape_end},
                                 count - target.joined, out + target.joined * width, isa_, bits);
      }
      join_elements<Split>(bits, target.symbols(width, count) + target.joined, target.raw + target.joined / 8 * bits,
                           count - target.joined, target.elements + target.joined * width, isa_);
      return errc::ok;
    });
  }

  instruction_set isa_;
  const encoded_stream& stream_;
  decode_options options_;
  std::span<const std::unique_ptr<const table_decoder>> ready_;
  std::unique_ptr<const table_decoder> decoder_;
  std::uint16_t table_ = 0;
};

}  // namespace ecq::detail
