#pragma once
/// \file
/// Decoding of gap arrays in one pass, which suits a processor without 256 threads. Each stretch of a chunk is decoded
/// from its first bit to its last, several code words per look-up, several stretches side by side. The decoder accepts
/// exactly what decode_gap_stretch() accepts.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "ecq/base/config.hpp"
#include "ecq/base/little_endian.hpp"
#include "ecq/base/result.hpp"
#include "ecq/entropy/huffman/huffman_lut.hpp"
#include "ecq/entropy/huffman/huffman_multi_lut.hpp"
#include "ecq/entropy/huffman_gaps/huffman_gap_array.hpp"

namespace ecq::detail {

/// The tables of one code.
struct gap_tables {
  const std::uint64_t* multi;  ///< entries of huffman_multi, by huffman_multi::bits bits
  huffman_wide_view single;
  unsigned raw_bits;
};

/// A stretch that is being decoded. The cursor notes where the first code word of each window starts, and compares
/// these places with the gaps at the end.
class gap_stretch_cursor {
 public:
  /// Look-ups per load of 64 bits, of which at least 57 are usable.
  static constexpr unsigned lookups = 5;
  static_assert(lookups * huffman_multi::bits <= 57);

  /// Starts at the beginning of stretch `stretch` of `chunk`, whose codes go to `out`. Returns false if the positions
  /// of the stretch are impossible. If the stretch turns out to be corrupt, `verdict` becomes errc::corrupt when it
  /// ends.
  bool begin(const gap_array_view& chunk, std::uint32_t stretch, std::uint8_t* out, errc& verdict) noexcept {
    chunk_ = chunk;
    verdict_ = &verdict;
    first_window_ = stretch * gap_stretch_windows;
    const std::uint32_t from = chunk.position(stretch);
    const std::uint32_t to = chunk.position(stretch + 1);
    if (from > to || to > chunk.symbols || (stretch == 0 && (from != 0 || chunk.gap(0) != 0))) return false;
    out_ = out + from;
    end_ = out + to;
    last_ = stretch + 1 == chunk.stretches();
    windows_ = last_ ? chunk.windows - first_window_ : gap_stretch_windows;
    bits_ = chunk.bits + std::size_t{8} * first_window_;
    bit_ = chunk.gap(first_window_);
    starts_ = 0;
    return true;
  }

  /// Returns how often step() may be called without leaving the stretch and its codes.
  std::size_t steps() const noexcept {
    // After its look-ups a step may take one more code word, of up to 32 bits. A store writes 8 bytes.
    constexpr std::size_t most_bits = lookups * huffman_multi::bits + 32;
    constexpr std::size_t most_codes = lookups * huffman_multi_entry::most + 8;
    const std::size_t all_bits = std::size_t{64} * windows_;
    const std::size_t bits_left = all_bits > bit_ ? all_bits - bit_ : 0;
    return (std::min)(bits_left / most_bits, static_cast<std::size_t>(end_ - out_) / most_codes);
  }

  void step(const gap_tables& tables) noexcept {
    // Members are copied to locals, because to the compiler a stored byte might change any member.
    std::uint8_t* out = out_;
    const std::size_t starts = starts_;
    const std::size_t bit = bit_;
    const std::uint64_t* const multi = tables.multi;
    const std::uint64_t mask = (std::uint64_t{1} << huffman_multi::bits) - 1;
    std::uint64_t word = load_le<std::uint64_t>(bits_ + bit / 8) >> (bit % 8);
    std::uint64_t begun = 0;  // the bits, counted from `bit`, where code words start
    std::uint64_t entry = 0;
    unsigned steps = 0;
    ECQ_UNROLL
    for (unsigned i = 0; i < lookups; ++i) {
      entry = multi[word & mask];
      store_le(reinterpret_cast<std::byte*>(out + huffman_multi_entry::count(steps)), entry);
      begun |= huffman_multi_entry::starts(entry) << huffman_multi_entry::length(steps);
      word >>= huffman_multi_entry::length(huffman_multi_entry::step(entry));
      steps += huffman_multi_entry::step(entry);
    }
    const unsigned used = huffman_multi_entry::length(steps);
    out += huffman_multi_entry::count(steps);
    // These bits are fewer than 64, so the end of at most one window lies among them.
    const unsigned window_end = 64 - bit % 64;
    begun |= (std::uint64_t{1} << used) | (std::uint64_t{1} << 63);
    noted_[starts] = static_cast<std::uint8_t>(std::countr_zero(begun >> (window_end % 64)));
    starts_ = starts + (used >= window_end ? 1 : 0);
    out_ = out;
    bit_ = bit + used;
    if (entry == 0) take_one(tables);
  }

  /// Decodes the rest of the stretch code by code, and gives the verdict on the whole stretch.
  void finish(const gap_tables& tables) noexcept {
    if (!ends_well(tables)) *verdict_ = errc::corrupt;
  }

 private:
  bool ends_well(const gap_tables& tables) noexcept {
    const std::size_t last_window = std::size_t{64} * (windows_ - 1);
    const std::size_t all_bits = last_window + 64;
    const std::size_t known = last_ ? last_window : all_bits;  // bits of the windows whose ends follow from gaps
    while (bit_ < known) {
      if (out_ == end_) return false;
      take_one(tables);
    }
    if (!starts_as_noted(last_ ? windows_ - 1 : windows_)) return false;
    if (!last_) return out_ == end_;
    while (bit_ < all_bits && out_ < end_) take_one(tables);
    if (out_ != end_ || bit_ == last_window || bit_ > all_bits) return false;
    const std::size_t taken = bit_ - last_window;
    return taken == 64 || load_le<std::uint64_t>(bits_ + last_window / 8) >> taken == 0;
  }

  /// Decodes the next code, which is known to exist.
  void take_one(const gap_tables& tables) noexcept {
    const auto window = static_cast<std::uint32_t>(load_le<std::uint64_t>(bits_ + bit_ / 8) >> (bit_ % 8));
    const unsigned entry = tables.single.look_up(window);
    *out_++ = static_cast<std::uint8_t>(huffman_entry::value(entry) << tables.raw_bits);
    const std::size_t window_end = 64 - bit_ % 64;
    const std::size_t length = huffman_entry::length(entry);
    if (length >= window_end) noted_[starts_++] = static_cast<std::uint8_t>(length - window_end);
    bit_ += length;
  }

  /// Whether the `count` windows after the first start where their gaps say.
  bool starts_as_noted(std::uint32_t count) const noexcept {
    std::uint8_t gaps[gap_stretch_windows + 8];
    const unsigned width = chunk_.gap_bits;
    const std::byte* from = chunk_.gaps + std::size_t{first_window_} / 8 * width;
    for (std::uint32_t at = 0; at <= count; at += 8, from += width) {
      const auto eight = load_le<std::uint64_t>(from);
      ECQ_UNROLL
      for (unsigned i = 0; i < 8; ++i)
        gaps[at + i] = static_cast<std::uint8_t>((eight >> (width * i)) & ((1U << width) - 1U));
    }
    return std::equal(noted_, noted_ + count, gaps + 1);
  }

  gap_array_view chunk_{};
  const std::byte* bits_ = nullptr;  ///< code words of the stretch
  std::size_t bit_ = 0;
  errc* verdict_ = nullptr;
  std::uint8_t* out_ = nullptr;
  std::uint8_t* end_ = nullptr;
  std::size_t starts_ = 0;
  std::uint32_t first_window_ = 0;
  std::uint32_t windows_ = 0;
  bool last_ = false;
  std::uint8_t noted_[gap_stretch_windows + 8];  ///< where the first code word starts in each window after the first
};

/// Decodes stretches side by side. `next(cursor)` begins another stretch, or returns false if there are no more.
template <class Next>
void decode_gap_stretches(const gap_tables& tables, const Next& next) {
  constexpr std::size_t width = 4;
  gap_stretch_cursor cursors[width];
  std::size_t running = 0;
  for (bool more = true;;) {
    while (more && running < width) {
      more = next(cursors[running]);
      if (more) ++running;
    }
    if (running == 0) return;
    std::size_t steps = cursors[0].steps();
    for (std::size_t i = 1; i < running; ++i) steps = (std::min)(steps, cursors[i].steps());
    for (; steps > 0; --steps) {
      for (std::size_t i = 0; i < running; ++i) cursors[i].step(tables);
    }
    for (std::size_t i = running; i-- > 0;) {
      if (cursors[i].steps() > 0) continue;
      cursors[i].finish(tables);
      if (i != --running) cursors[i] = cursors[running];
    }
  }
}

}  // namespace ecq::detail
