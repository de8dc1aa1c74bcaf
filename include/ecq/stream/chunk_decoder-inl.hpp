#pragma once
/// \file
/// Definition of the decoding of whole chunks.

#include <cstddef>
#include <cstdint>
#include <span>

#include "ecq/base/config.hpp"
#include "ecq/entropy/element_join.hpp"
#include "ecq/entropy/trellis_walk.hpp"
#include "ecq/stream/bit_io.hpp"
#include "ecq/stream/chunk_decoder.hpp"
#include "ecq/stream/coder_set.hpp"
#include "ecq/stream/pair_io.hpp"
#include "ecq/stream/stream_view.hpp"

namespace ecq::detail {

ECQ_INLINE result<void> chunk_decoder::decode(std::uint64_t first, std::span<std::byte* const> out) {
  if (stream_.trellis() && out.size() > min_chunk_run) {  // keeps the indices to walk in the second-level cache
    ECQ_CHECK(decode(first, out.first(min_chunk_run)));
    return decode(first + min_chunk_run, out.subspan(min_chunk_run));
  }
  if (options_.verify_checksums) ECQ_CHECK(stream_.verify_chunks(first, out.size(), isa_));
  element_target targets[max_chunk_run];
  errc verdicts[max_chunk_run] = {};
  bool decoded[max_chunk_run] = {};
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (decoded[i]) continue;
    // Take all chunks of the run that share the table of chunk i. Kernels do not join an odd last pair, so chunks with
    // one are decoded separately.
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
      return stream_error(verdict, "chunk ", first + i, " has escapes that do not match its pairs");
    }
  }
  if (stream_.trellis()) {
    std::span<std::uint8_t> indices[max_chunk_run];
    for (std::size_t i = 0; i < out.size(); ++i) {
      indices[i] = {reinterpret_cast<std::uint8_t*>(out[i]), stream_.symbols_in(first + i)};
    }
    codes_of_indices(*stream_.trellis(), std::span(indices, out.size()), isa_);
  }
  return {};
}

ECQ_INLINE const table_decoder& chunk_decoder::decoder_of(std::uint16_t table) {
  if (!ready_.empty()) return *ready_[table];
  if (!decoder_ || table != table_) {
    decoder_ = stream_.decoder_of_table(table);
    table_ = table;
  }
  return *decoder_;
}

ECQ_INLINE element_target chunk_decoder::target_of(std::uint64_t index, std::byte* elements) const {
  element_target target{.raw = stream_.raw_bits(index).data(), .elements = elements};
  if (!stream_.pairs()) return target;
  const std::span<const std::byte> escapes = stream_.escapes(index);
  target.pairs = reinterpret_cast<std::uint8_t*>(elements) + stream_.element_bytes() * stream_.symbols_in(index) -
                 stream_.coded_in(index);
  target.escape = escapes.data();
  target.escape_end = escapes.data() + escapes.size();
  return target;
}

ECQ_INLINE errc chunk_decoder::join_rest(std::uint64_t index, const element_target& target, std::byte* out) const {
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

}  // namespace ecq::detail
