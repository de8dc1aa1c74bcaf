#pragma once
/// \file
/// Decoding one block of a gap array: the kernels of DFloat11 (arXiv:2504.11651, algorithm 1) and ECF8
/// (arXiv:2510.02676, algorithm 1), written once over a block policy. Each thread decodes its window twice: to count
/// its codes, and, knowing from everybody's counts where they go, to write them.

#include <cstddef>
#include <cstdint>

#include "ecq/config.hpp"
#include "ecq/entropy/huffman_lut.hpp"
#include "ecq/result.hpp"
#include "ecq/stream/little_endian.hpp"

namespace ecq {

/// Threads of a block of a gap array (wire format).
inline constexpr std::uint32_t gap_block_threads = 256;
/// Bits of the window that each thread decodes (wire format).
inline constexpr std::uint32_t gap_window_bits = 64;

/// A chunk's gap array (docs/format.md). All of it may be read 8 bytes beyond its end.
struct gap_array_view {
  const std::byte* positions;  ///< u32 each: the code that begins each block
  const std::byte* gaps;       ///< gap_bits each: where in its window the first code word starts
  const std::byte* bits;       ///< code words, `windows` * 8 bytes
  std::uint32_t windows;       ///< at least 1
  std::uint32_t symbols;       ///< codes of the chunk
  unsigned gap_bits;           ///< 4 or 5

  ECQ_HOST_DEVICE std::uint32_t blocks() const { return (windows + gap_block_threads - 1) / gap_block_threads; }

  /// First code of block `block`; of the block behind the last one, the number of codes.
  ECQ_HOST_DEVICE std::uint32_t position(std::uint32_t block) const {
    return block < blocks() ? word_at(positions + std::size_t{4} * block) : symbols;
  }

  ECQ_HOST_DEVICE std::uint32_t gap(std::uint32_t window) const {
    const std::uint32_t bit = window * gap_bits;
    const auto two = static_cast<std::uint32_t>(gaps[bit / 8]) | (static_cast<std::uint32_t>(gaps[bit / 8 + 1]) << 8);
    return (two >> (bit % 8)) & ((1U << gap_bits) - 1U);
  }

  /// 32 bits from bit `bit` of `window` on, the first in bit 0.
  ECQ_HOST_DEVICE std::uint32_t window_at(std::uint32_t window, std::uint32_t bit) const {
    const std::byte* from = bits + std::size_t{8} * window + bit / 8;
    const std::uint64_t five = word_at(from) | (static_cast<std::uint64_t>(from[4]) << 32);
    return static_cast<std::uint32_t>(five >> (bit % 8));
  }

 private:
  ECQ_HOST_DEVICE static std::uint32_t word_at(const std::byte* from) {
    return static_cast<std::uint32_t>(from[0]) | (static_cast<std::uint32_t>(from[1]) << 8) |
           (static_cast<std::uint32_t>(from[2]) << 16) | (static_cast<std::uint32_t>(from[3]) << 24);
  }
};

/// The block policy on the host: a step is taken by all threads, one after another, before the next step begins.
struct host_block {
  std::uint32_t counts[gap_block_threads] = {};  ///< shared by the threads

  /// Whether any thread's step returned true. On a device the threads meet here, before and after.
  template <class Step>
  ECQ_HOST_DEVICE bool any_thread(Step&& step) {
    bool any = false;
    for (std::uint32_t thread = 0; thread < gap_block_threads; ++thread) any = step(thread) || any;
    return any;
  }

  /// Replaces each count by the sum of those before it, and returns the sum of all.
  ECQ_HOST_DEVICE std::uint32_t exclusive_sum() {
    std::uint32_t sum = 0;
    for (std::uint32_t& count : counts) {
      const std::uint32_t own = count;
      count = sum;
      sum += own;
    }
    return sum;
  }
};

/// Decodes block `block` of a chunk to `out`, where the chunk's codes begin: out[position(block)] and on. Every window
/// must end where the gap of the next says, every block where the position of the next says, and the last window with
/// zeros behind the chunk's last code word. Otherwise errc::corrupt; nothing is written beyond the chunk's codes.
template <class Block, class Lut>
ECQ_HOST_DEVICE errc decode_gap_block(Block& threads, const Lut& lut, const gap_array_view& chunk, unsigned raw_bits,
                                      std::uint32_t block, std::uint8_t* out) {
  const std::uint32_t last = chunk.windows - 1;
  const std::uint32_t first_window = block * gap_block_threads;
  // Phase 1: how many code words start in each window. The last window's are known from the number of codes.
  const bool miscounted = threads.any_thread([&](std::uint32_t thread) {
    const std::uint32_t window = first_window + thread;
    threads.counts[thread] = 0;
    if (window >= last) return false;
    std::uint32_t count = 0;
    std::uint32_t bit = chunk.gap(window);
    for (; bit < gap_window_bits; ++count) bit += huffman_entry::length(lut.look_up(chunk.window_at(window, bit)));
    threads.counts[thread] = count;
    return bit - gap_window_bits != chunk.gap(window + 1);
  });
  const std::uint32_t sum = threads.exclusive_sum();
  const std::uint32_t begin = chunk.position(block);
  const std::uint32_t end = chunk.position(block + 1);
  if (miscounted || begin > end || end > chunk.symbols) return errc::corrupt;
  if (block == 0 && (begin != 0 || chunk.gap(0) != 0)) return errc::corrupt;
  const bool has_last = block + 1 == chunk.blocks();
  if (has_last ? sum > end - begin : sum != end - begin) return errc::corrupt;
  // Phase 2: the same again, now to where the codes belong.
  const bool unfinished = threads.any_thread([&](std::uint32_t thread) {
    const std::uint32_t window = first_window + thread;
    if (window > last) return false;
    std::uint32_t bit = chunk.gap(window);
    std::uint32_t at = begin + threads.counts[thread];
    const std::uint32_t limit = window < last ? end : chunk.symbols;
    while (bit < gap_window_bits && at < limit) {
      const unsigned entry = lut.look_up(chunk.window_at(window, bit));
      out[at++] = static_cast<std::uint8_t>(huffman_entry::value(entry) << raw_bits);
      bit += huffman_entry::length(entry);
    }
    if (window < last) return false;
    bool padded = at == chunk.symbols && bit != 0 && bit <= gap_window_bits;
    for (; bit < gap_window_bits; ++bit) padded = padded && (chunk.window_at(window, bit) & 1U) == 0;
    return !padded;
  });
  return unfinished ? errc::corrupt : errc::ok;
}

}  // namespace ecq
