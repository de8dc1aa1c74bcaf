#pragma once
/// \file
/// Definition of the list of escapes.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "ecq/base/config.hpp"
#include "ecq/entropy/entropy_coder.hpp"
#include "ecq/entropy/nibble_list.hpp"
#include "ecq/matmul/pair_escapes.hpp"
#include "ecq/matmul/pair_values.hpp"
#include "ecq/stream/chunk_decoder.hpp"

namespace ecq::detail {

ECQ_INLINE bool pair_escapes::list(const cpu& backend, const encoded_stream& stream,
                                   std::span<const std::unique_ptr<const table_decoder>> decoders,
                                   std::span<const std::uint64_t> chunks) {
  if (chunks.empty()) return true;
  const auto [lowest, highest] = std::minmax_element(chunks.begin(), chunks.end());
  first_ = *lowest;
  of_chunks_.resize(static_cast<std::size_t>(*highest - first_ + 1));
  const std::size_t most_pairs = static_cast<std::size_t>(stream.chunk_symbols() / 2) + stream_tail_bytes;
  const std::size_t runs = (chunks.size() + min_chunk_run - 1) / min_chunk_run;
  const result<void> listed = parallel_for(backend, runs, [&](std::size_t run) -> result<void> {
    auto some = chunks.subspan(run * min_chunk_run);
    some = some.first((std::min)(some.size(), min_chunk_run));
    std::vector<std::uint8_t> pairs(some.size() * most_pairs);
    while (!some.empty()) {
      // Chunks that share a table are decoded together.
      const std::uint16_t table = stream.record(some.front()).table;
      chunk_bytes bytes[min_chunk_run];
      element_target targets[min_chunk_run];
      errc verdicts[min_chunk_run] = {};
      std::size_t count = 0;
      for (; count < some.size() && stream.record(some[count]).table == table; ++count) {
        bytes[count] = stream.chunk(some[count]);
        targets[count].pairs = pairs.data() + count * most_pairs;
      }
      decoders[table]->decode({bytes, count}, {}, {targets, count}, {verdicts, count}, backend.isa);
      for (std::size_t i = 0; i < count; ++i) {
        if (verdicts[i] != errc::ok || !list(stream, some[i], targets[i].pairs)) {
          return error(errc::corrupt, "chunk ", some[i], " has escapes that do not match its pairs");
        }
      }
      some = some.subspan(count);
    }
    return {};
  });
  return static_cast<bool>(listed);
}

ECQ_INLINE bool pair_escapes::list(const encoded_stream& stream, std::uint64_t chunk, const std::uint8_t* pairs) {
  constexpr std::size_t block = 64;
  const unsigned bits = stream.header().raw_bits();
  const std::span<const std::byte> escapes = stream.escapes(chunk);
  const std::byte* const raw = stream.raw_bits(chunk).data();
  const std::size_t count = stream.symbols_in(chunk);
  std::vector<pair_escape>& listed = of_chunks_[static_cast<std::size_t>(chunk - first_)];
  listed.reserve(escapes.size());
  for (std::size_t first = 0; first < count; first += 2 * block) {
    const std::size_t last = (std::min)(first + 2 * block, count);
    unsigned any = 0;  // most blocks have no escapes
    for (std::size_t pair = first / 2; pair < (last + 1) / 2; ++pair) {
      any |=
          (pairs[pair] % 16U == nibble_list::escape_value || pairs[pair] / 16U == nibble_list::escape_value) ? 1U : 0U;
    }
    for (std::size_t at = first; at < last && any != 0; ++at) {
      const unsigned nibble = at % 2 == 0 ? pairs[at / 2] % 16U : pairs[at / 2] / 16U;
      if (nibble != nibble_list::escape_value) continue;
      if (listed.size() == escapes.size()) return false;
      const unsigned escape = std::to_integer<unsigned>(escapes[listed.size()]);
      listed.emplace_back(at, (escape + raw_bits_at(raw, bits, at)) % 256);
    }
  }
  return listed.size() == escapes.size();
}

}  // namespace ecq::detail
