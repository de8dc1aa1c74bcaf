#pragma once
/// \file
/// Steps in which groups of threads (base/threads.hpp) encode elements into a stream. The stream is byte for byte the
/// same as that of encode_stream() or encode_exponents() with coder rans. Each step begins when the one before it is
/// done:
///
///   1. count_elements, collect_counts        count how often each symbol occurs
///   2. weigh_rans_split, choose_encoding     choose the raw bits and the tables
///   3. encode_chunk                          writes states and raw bits to their place, words to other memory
///   4. lay_out_stream                        chooses coded or stored elements, lays out sections and chunk index
///   5. place_chunk                           moves words, or all elements raw, to their place; writes checksums
///   6. finish_stream                         writes the checksum of the header

#include <cstddef>
#include <cstdint>

#include "ecq/base/checksum_group.hpp"
#include "ecq/base/config.hpp"
#include "ecq/base/lanes.hpp"
#include "ecq/base/threads.hpp"
#include "ecq/entropy/entropy_coder.hpp"
#include "ecq/entropy/rans/rans_encode_warp.hpp"
#include "ecq/entropy/rans/rans_plan.hpp"
#include "ecq/entropy/symbol_map.hpp"
#include "ecq/stream/bit_io.hpp"
#include "ecq/stream/chunk_index.hpp"
#include "ecq/stream/pack_lane.hpp"
#include "ecq/stream/stream_header.hpp"

namespace ecq {

/// Decisions made in steps 2 and 4.
struct encode_plan {
  rans_group_plan coder;
  section sections[known_sections + 1];  ///< by kind
  section stored[known_sections + 1];    ///< the sections of a stream that stores all elements raw
  std::uint64_t total_bytes;             ///< 0 if the stream does not fit
  std::uint64_t directory_bytes;
  unsigned raw_bits;  ///< per element; all its bits if elements are stored
  bool room;          ///< whether `out` has room for all sections before the words
};

/// Elements to encode, and memory to use. Sizes are known on the host; pointers point to device memory. Any part of
/// `out` may be written.
struct encode_job {
  const std::byte* elements;  ///< aligned to 16 bytes
  std::uint64_t size;         ///< number of elements
  std::uint64_t chunks;
  std::byte* out;  ///< aligned to 64 bytes
  std::uint64_t out_bytes;
  std::uint64_t* stream_bytes;  ///< becomes the size of the stream, or 0 if `out` is too small
  std::uint64_t* counts;        ///< 256 counters, zero before step 1
  encode_plan* plan;
  std::uint16_t* slots;        ///< alias_slot_count of them
  std::uint32_t* word_counts;  ///< by chunk
  std::byte* words;  ///< two bytes per element, a chunk's words last in its part; aligned and padded to 8 bytes
  unsigned chunk_bits;
  std::uint8_t format;  ///< dtype, or 0 for bytes
  std::uint8_t element_bytes;
  std::uint8_t never_coded_bits;  ///< per element
  std::uint8_t most_raw_bits;     ///< largest number of further raw bits that a plan may choose
  bool direct = false;            ///< make tables of rans_direct, not of rans

  ECQ_HOST_DEVICE std::uint32_t size_of_chunk(std::uint64_t chunk) const {
    const std::uint64_t left = size - (chunk << chunk_bits);
    return left >> chunk_bits != 0 ? 1U << chunk_bits : static_cast<std::uint32_t>(left);
  }
  ECQ_HOST_DEVICE const std::byte* chunk(std::uint64_t number) const {
    return elements + (number << chunk_bits) * element_bytes;
  }
  ECQ_HOST_DEVICE std::byte* words_of_chunk(std::uint64_t number) const { return words + 2 * (number << chunk_bits); }
  ECQ_HOST_DEVICE std::byte* at(section_kind kind) const {
    return out + plan->sections[static_cast<std::uint32_t>(kind)].offset;
  }
  ECQ_HOST_DEVICE std::byte* raw_bits_of_chunk(std::uint64_t number) const {
    return at(section_kind::raw_bits) + raw_bytes(number << chunk_bits, plan->raw_bits);
  }
  ECQ_HOST_DEVICE bool stored() const { return plan->raw_bits == 8U * element_bytes; }
};

/// Counts the symbols of part `part` of `parts` in `counters`, 256 counters that only this group uses. A part must have
/// fewer than 2^32 elements.
template <element_split Split, thread_group Group>
ECQ_HOST_DEVICE void count_elements(const Group& group, const encode_job& job, std::uint64_t part, std::uint64_t parts,
                                    std::uint32_t* counters) {
  using element = typename Split::element;
  using memory = typename Group::memory;
  constexpr unsigned width = element_bits<Split>;
  constexpr unsigned symbol_at = detail::symbol_at<Split>;
  constexpr std::uint32_t mask = (1U << Split::symbol_bits) - 1U;
  constexpr std::uint32_t in_vector = 128 / width;
  constexpr std::uint32_t together = 4;  // vectors that are loaded at the same time
  const auto count = [&](const std::uint32_t(&words)[4]) {
    ECQ_UNROLL
    for (unsigned i = 0; i < in_vector; ++i) {
      memory::increment(counters[(words[i * width / 32] >> (i * width % 32 + symbol_at)) & mask]);
    }
  };
  const std::uint64_t vectors = job.size / in_vector;
  const std::uint64_t stride = parts * group.size();
  std::uint64_t at = part * group.size() + group.rank();
  for (; at + (together - 1) * stride < vectors; at += together * stride) {
    std::uint32_t words[together][4];
    ECQ_UNROLL
    for (std::uint32_t i = 0; i < together; ++i) memory::load_16_bytes(job.elements + 16 * (at + i * stride), words[i]);
    ECQ_UNROLL
    for (const auto& four : words) count(four);
  }
  for (; at < vectors; at += stride) {
    std::uint32_t words[4];
    memory::load_16_bytes(job.elements + 16 * at, words);
    count(words);
  }
  if (part != 0) return;
  for (at = vectors * in_vector + group.rank(); at < job.size; at += group.size()) {
    const element last = memory::template load<element>(job.elements + at * sizeof(element));
    memory::increment(counters[(std::uint32_t{last} >> symbol_at) & mask]);
  }
}

/// Adds `copies` sets of 256 counters to the counts of the job.
template <thread_group Group>
ECQ_HOST_DEVICE void collect_counts(const Group& group, const std::uint32_t* counters, std::uint32_t copies,
                                    const encode_job& job) {
  for (std::uint32_t symbol = group.rank(); symbol < 256; symbol += group.size()) {
    std::uint64_t sum = 0;
    for (std::uint32_t copy = 0; copy < copies; ++copy) sum += counters[256 * copy + symbol];
    if (sum != 0) Group::memory::add(job.counts[symbol], sum);
  }
}

/// Chooses the split once all of them are weighed, and lays out the sections before the words. Need not be called if
/// there are no elements.
template <thread_group Group>
ECQ_HOST_DEVICE void choose_encoding(const Group& group, const rans_split_work (&works)[rans_splits],
                                     detail::alias_work& aliases, const encode_job& job) {
  encode_plan& plan = *job.plan;
  choose_rans_split(group, works, job.most_raw_bits, job.direct, aliases, plan.coder, job.slots);
  if (group.rank() != 0) return;
  const unsigned symbol_bits = 8U * job.element_bytes - job.never_coded_bits;
  if (plan.coder.raw_bits > symbol_bits) plan.coder.raw_bits = symbol_bits;
  plan.raw_bits = job.never_coded_bits + plan.coder.raw_bits;
  for (section& part : plan.sections) part = {};
  const auto set = [&](section_kind kind, std::uint64_t size) {
    plan.sections[static_cast<std::uint32_t>(kind)].size = size;
  };
  set(section_kind::tables, detail::rans_record_bytes(plan.coder.count));
  set(section_kind::chunk_index, (job.chunks + 1) * chunk_record::bytes);
  set(section_kind::states, job.chunks * 4 * lane_count);
  set(section_kind::raw_bits, raw_bytes(job.size, plan.raw_bits));
  set(section_kind::words, 2);
  detail::lay_out_sections(plan.sections);
  plan.room = plan.sections[static_cast<std::uint32_t>(section_kind::words)].offset <= job.out_bytes;
}

/// Encodes chunk `chunk`. `table` may be a copy, outside of the plan.
template <lockstep_warp Warp, element_split Split>
ECQ_HOST_DEVICE void encode_chunk(const warp_encode_table& table, const encode_job& job, std::uint64_t chunk) {
  using lanes = typename Warp::lanes;
  const encode_plan& plan = *job.plan;
  const std::uint32_t count = job.size_of_chunk(chunk);
  const std::byte* const elements = job.chunk(chunk);
  const unsigned raw_bits = plan.room ? plan.raw_bits : 0;
  std::byte* const raw = raw_bits != 0 ? job.raw_bits_of_chunk(chunk) : nullptr;
  const auto pack = [&](std::uint32_t tile) {
    if (raw_bits == 0) return;
    Warp::each_lane([&](std::uint32_t lane) {
      const std::uint32_t first = tile * tile_symbols + lane * pack_elements;
      if (first >= count) return;
      const std::uint32_t here = count - first < pack_elements ? count - first : pack_elements;
      pack_by_lane<typename Warp::memory, Split>(elements + std::size_t{first} * sizeof(typename Split::element), here,
                                                 raw_bits, raw + std::size_t{first} / 8 * raw_bits);
    });
  };
  const warp_symbol_source<Warp, Split> source(elements, plan.coder.raw_bits);
  const bool coded = plan.coder.count > 1;  // with only one symbol, states do not move
  const bool alias = plan.coder.shape.mapping == slot_mapping::alias;
  warp_encoder<Warp> encoder = {table, Warp::kept_global(job.words_of_chunk(chunk)), count};
  for (std::uint32_t tile = (count + tile_symbols - 1) / tile_symbols; tile-- > 0;) {
    if (tile > 0) source.prefetch(tile - 1);
    pack(tile);
    if (!coded) continue;
    if (alias) {
      encoder.template encode<slot_mapping::alias>(source, tile, count);
    } else {
      encoder.template encode<slot_mapping::direct>(source, tile, count);
    }
  }
  const lanes states[1] = {encoder.state};
  if (plan.room) Warp::store(job.at(section_kind::states) + chunk * 4 * lane_count, states);
  Warp::each_lane([&](std::uint32_t lane) {
    if (lane == 0) job.word_counts[chunk] = count - encoder.first;
  });
}

/// Chooses the smaller stream: the coded one, or the one that stores all elements raw. Writes header, directory, tables
/// and chunk index, without checksums, and the zeros between sections. Returns the size of the stream in bytes; if
/// `out` has fewer bytes, nothing is written, and all later steps do nothing.
template <summing_group Group>
ECQ_HOST_DEVICE std::uint64_t lay_out_stream(const Group& group, const encode_job& job) {
  using memory = typename Group::memory;
  encode_plan& plan = *job.plan;
  const auto part = [&](section_kind kind) -> section& { return plan.sections[static_cast<std::uint32_t>(kind)]; };
  std::uint64_t own = 0;
  for (std::uint64_t chunk = group.rank(); chunk < job.chunks; chunk += group.size()) own += job.word_counts[chunk];
  std::uint64_t words = 0;
  group.exclusive_sum(own, words);
  if (group.rank() == 0) {
    section* const stored = plan.stored;
    for (std::uint32_t kind = 0; kind <= known_sections; ++kind) stored[kind] = {};
    stored[static_cast<std::uint32_t>(section_kind::chunk_index)].size = (job.chunks + 1) * chunk_record::bytes;
    stored[static_cast<std::uint32_t>(section_kind::raw_bits)].size = job.size * job.element_bytes;
    const std::uint64_t stored_bytes = detail::lay_out_sections(stored);
    std::uint64_t total = stored_bytes;
    bool coded = false;
    if (job.size != 0) {
      part(section_kind::words).size = 2 * words;
      const std::uint64_t coded_bytes = detail::lay_out_sections(plan.sections);
      coded = coded_bytes < stored_bytes;
      if (coded) total = coded_bytes;
    }
    plan.total_bytes = total;
    if (!coded) {
      for (std::uint32_t kind = 0; kind <= known_sections; ++kind) plan.sections[kind] = stored[kind];
      plan.raw_bits = 8U * job.element_bytes;
    }
    *job.stream_bytes = 0;
  }
  group.sync();
  const std::uint64_t total = plan.total_bytes;
  const bool coded = !job.stored();
  if (total > job.out_bytes) {
    group.sync();
    if (group.rank() == 0) plan.total_bytes = 0;
    return total;
  }
  if (group.rank() == 0) {
    const auto map = job.format != 0 ? symbol_map_id::exponent : symbol_map_id::split;
    plan.directory_bytes =
        detail::write_header(job.out,
                             {.coder = static_cast<std::uint16_t>(coded ? coder_id::rans : coder_id::raw),
                              .map_id = static_cast<std::uint16_t>(map),
                              .raw_bits = static_cast<std::uint8_t>(plan.raw_bits),
                              .chunk_bits = static_cast<std::uint8_t>(job.chunk_bits),
                              .format = job.format,
                              .symbols = job.size,
                              .chunks = job.chunks,
                              .total_bytes = total,
                              .tables = job.size != 0 ? 1U : 0U},
                             plan.sections);
  }
  group.sync();
  if (coded) {
    const auto& table = plan.coder;
    detail::write_rans_record(job.at(section_kind::tables), table.shape.mapping,
                              table.shape.bucket_bits != 0 ? table.shape.bucket_bits : table.shape.scale_bits,
                              table.count, table.symbols, table.frequencies, group.rank(), group.size());
  }
  std::byte* const index = job.at(section_kind::chunk_index);
  // Neighbouring threads write neighbouring records, a few each, for one run of chunks after another. The counts of the
  // next run are loaded meanwhile. Runs are long, because a device waits for the sums of each run.
  constexpr std::uint32_t together = 4;
  std::uint32_t next[together];
  const auto load = [&](std::uint64_t first) {
    ECQ_UNROLL
    for (std::uint32_t i = 0; i < together; ++i) {
      next[i] = coded && first + i < job.chunks ? job.word_counts[first + i] : 0U;
    }
  };
  std::uint64_t before = 0;
  load(together * group.rank());
  for (std::uint64_t run = 0; run <= job.chunks; run += together * group.size()) {
    const std::uint64_t first = run + together * group.rank();
    std::uint32_t counts[together];
    std::uint64_t here = 0;
    ECQ_UNROLL
    for (std::uint32_t i = 0; i < together; ++i) here += counts[i] = next[i];
    load(first + together * group.size());
    std::uint64_t of_run = 0;
    std::uint64_t word = before + group.exclusive_sum(here, of_run);
    before += of_run;
    ECQ_UNROLL
    for (std::uint32_t i = 0; i < together; ++i) {
      const auto half = [&](unsigned at) { return static_cast<std::uint32_t>(word >> at & 0xFFFFFFFFU); };
      if (first + i <= job.chunks) {
        memory::store_16_bytes(index + (first + i) * chunk_record::bytes, {half(0), half(32), 0, 0});
      }
      word += counts[i];
    }
  }
  std::uint64_t end = fixed_header_bytes + plan.directory_bytes;
  const auto clear = [&](std::uint64_t from, std::uint64_t to) {
    for (std::uint64_t at = from + group.rank(); at < to; at += group.size()) job.out[at] = std::byte{0};
  };
  for (std::uint32_t kind = 1; kind <= known_sections; ++kind) {
    const section& here = plan.sections[kind];
    if (here.size == 0) continue;
    clear(end, here.offset);
    end = here.offset + here.size;
  }
  clear(end, total);
  return total;
}

/// Moves the words of a chunk, or all of its elements, to their place in the stream, and writes its checksum into the
/// index. The group is one thread or a warp.
template <element_split Split, shuffling_group Group>
ECQ_HOST_DEVICE void place_chunk(const Group& group, const encode_job& job, std::uint64_t chunk) {
  using memory = typename Group::memory;
  const encode_plan& plan = *job.plan;
  if (plan.total_bytes == 0) return;
  const std::uint32_t size = job.size_of_chunk(chunk);
  std::byte* const record = job.at(section_kind::chunk_index) + chunk * chunk_record::bytes;
  std::byte* const raw = job.raw_bits_of_chunk(chunk);
  std::uint64_t digest = chunk;
  if (job.stored()) {
    for (std::uint32_t first = group.rank() * pack_elements; first < size; first += group.size() * pack_elements) {
      const std::size_t at = std::size_t{first} * sizeof(typename Split::element);
      const std::uint32_t here = size - first < pack_elements ? size - first : pack_elements;
      pack_by_lane<memory, Split>(job.chunk(chunk) + at, here, element_bits<Split>, raw + at);
    }
    group.sync();
    for (int part = 0; part < 2; ++part) digest = xxh64_by_group(group, job.out, 0, digest);
  } else {
    const std::byte* const states = job.at(section_kind::states) + chunk * 4 * lane_count;
    digest = xxh64_by_group(group, states, 4 * lane_count, digest);
    const auto first_word = memory::template load<std::uint64_t>(record);
    const std::uint32_t words = job.word_counts[chunk];
    digest = xxh64_and_copy(group, job.words_of_chunk(chunk) + std::size_t{2} * (size - words), words, digest,
                            job.at(section_kind::words) + 2 * first_word);
  }
  digest = xxh64_by_group(group, raw, raw_bytes(size, plan.raw_bits), digest);
  if (group.rank() == 0) {
    memory::store(record + chunk_record::checksum_at, static_cast<std::uint32_t>(digest & 0xFFFFFFFFU));
  }
}

/// Writes the checksum of the header, and the size of the stream to job.stream_bytes. The group is one thread or a
/// warp.
template <shuffling_group Group>
ECQ_HOST_DEVICE void finish_stream(const Group& group, const encode_job& job) {
  using memory = typename Group::memory;
  const encode_plan& plan = *job.plan;
  if (plan.total_bytes == 0) return;
  std::uint64_t digest = xxh64_by_group(group, job.out, header_checksum_at, 0);
  digest = xxh64_by_group(group, job.out + fixed_header_bytes, plan.directory_bytes, digest);
  for (auto kind = static_cast<std::uint32_t>(section_kind::tables);
       kind <= static_cast<std::uint32_t>(section_kind::chunk_index); ++kind) {
    const section& part = plan.sections[kind];
    digest = xxh64_by_group(group, job.out + part.offset, part.size, digest);
  }
  if (group.rank() != 0) return;
  memory::store(job.out + header_checksum_at, digest);
  *job.stream_bytes = plan.total_bytes;
}

}  // namespace ecq
