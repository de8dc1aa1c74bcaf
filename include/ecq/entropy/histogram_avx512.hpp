#pragma once
/// \file
/// Counts codes with AVX-512 and VPOPCNTDQ, as planes of bits. Counters in memory would take one store per code.

#include "ecq/base/config.hpp"

#if ECQ_X86

#include <immintrin.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

ECQ_KERNELS_BEGIN

namespace ecq::detail::avx512 {

/// Window of 64 values in which most codes of a network lie. Exponents and codes of integers lie in one as they are,
/// and codes of FP8 once they are rotated left by one bit, with signs below magnitudes.
struct code_window {
  static constexpr unsigned bits = 6;
  static constexpr unsigned values = 1U << bits;

  bool turned = false;
  std::uint8_t first = 0;  ///< first value, of the codes or of rotated ones; the window may wrap around to 0
  unsigned inside = 0;     ///< number of codes of a sample that lie in it

  /// Returns the window with the largest share of `count` codes.
  static code_window of(const std::uint8_t* codes, unsigned count) {
    code_window best;
    for (const bool turned : {false, true}) {
      unsigned counts[256] = {};
      for (unsigned i = 0; i < count; ++i) ++counts[turned ? std::rotl(codes[i], 1) : codes[i]];
      unsigned inside = 0;
      for (unsigned value = 0; value < values; ++value) inside += counts[value];
      for (unsigned first = 0; first < 256; ++first) {
        if (inside > best.inside) best = {turned, static_cast<std::uint8_t>(first), inside};
        inside += counts[(first + values) % 256] - counts[first];
      }
    }
    return best;
  }

  /// Returns the code at `place` in the window.
  std::uint8_t code(unsigned place) const {
    const auto arranged = static_cast<std::uint8_t>(first + place);
    return turned ? std::rotr(arranged, 1) : arranged;
  }
};

/// Swaps, in each byte, the bits of `a` that `low` leaves out with the bits of `b` that are `Distance` below them.
template <unsigned Distance>
ECQ_AVX512 [[gnu::always_inline]] inline void swap_bits(__m512i& a, __m512i& b, __m512i low) {
  const __m512i lower = _mm512_ternarylogic_epi64(low, a, _mm512_slli_epi16(b, Distance), 0xCA);  // low ? a : b
  b = _mm512_ternarylogic_epi64(low, _mm512_srli_epi16(a, Distance), b, 0xCA);
  a = lower;
}

/// Turns 512 bytes into eight planes: bit j of byte i of register r goes to bit r of byte i of register j.
ECQ_AVX512 [[gnu::always_inline]] inline void bytes_to_planes(__m512i (&bytes)[8]) {
  const __m512i halves = _mm512_set1_epi8(0x0F);
  const __m512i quarters = _mm512_set1_epi8(0x33);
  const __m512i eighths = _mm512_set1_epi8(0x55);
  ECQ_UNROLL
  for (std::size_t i = 0; i < 4; ++i) swap_bits<4>(bytes[i], bytes[i + 4], halves);
  ECQ_UNROLL
  for (std::size_t i = 0; i < 4; ++i) swap_bits<2>(bytes[i / 2 * 4 + i % 2], bytes[i / 2 * 4 + i % 2 + 2], quarters);
  ECQ_UNROLL
  for (std::size_t i = 0; i < 4; ++i) swap_bits<1>(bytes[2 * i], bytes[2 * i + 1], eighths);
}

/// Splits each of the first `Count` of `marks` by the bits of `plane`. The half with bits set goes `Count` places on.
template <std::size_t Count>
ECQ_AVX512 [[gnu::always_inline]] inline void split_marks(__m512i plane, __m512i* marks) {
  ECQ_UNROLL
  for (std::size_t v = 0; v < Count; ++v) {
    marks[v + Count] = _mm512_and_si512(marks[v], plane);
    marks[v] = _mm512_andnot_si512(plane, marks[v]);
  }
}

/// Writes eight registers. Register v marks those of `all` whose bits in the three planes are v.
ECQ_AVX512 [[gnu::always_inline]] inline void mark_values(const __m512i* planes, __m512i all, std::uint64_t (*to)[8]) {
  __m512i marks[8] = {all};
  split_marks<1>(planes[0], marks);
  split_marks<2>(planes[1], marks);
  split_marks<4>(planes[2], marks);
  ECQ_UNROLL
  for (std::size_t v = 0; v < 8; ++v) _mm512_store_si512(to[v], marks[v]);
}

/// Counts codes that lie in a window, and lists the others.
class window_counter {
 public:
  static constexpr std::size_t blocks = 8;  ///< blocks of a batch
  static constexpr std::size_t block_codes = 512;
  static constexpr std::size_t batch = blocks * block_codes;

  explicit window_counter(const code_window& window) : window_(window) {}

  /// Counts `batch` codes. Writes those outside the window to `others`, which has room for `batch` + 64 codes, and
  /// returns their number.
  ECQ_AVX512 std::size_t add(const std::uint8_t* codes, std::uint8_t* others) {
    alignas(64) std::uint64_t low[blocks][8][8];
    alignas(64) std::uint64_t high[blocks][8][8];
    const __m512i first = _mm512_set1_epi8(static_cast<char>(window_.first));
    // Rows of a matrix of bits, the row of bit 0 in the highest byte. A bit comes from the same bit, or from the one
    // below it.
    const __m512i arrange = _mm512_set1_epi64(window_.turned ? static_cast<long long>(0x8001020408102040)
                                                             : static_cast<long long>(0x0102040810204080));
    const __m512i all = _mm512_set1_epi8(-1);
    std::size_t listed = 0;
    for (std::size_t block = 0; block < blocks; ++block) {
      const std::uint8_t* const from = codes + block * block_codes;
      __m512i planes[8];
      ECQ_UNROLL
      for (std::size_t i = 0; i < 8; ++i) {
        planes[i] =
            _mm512_sub_epi8(_mm512_gf2p8affine_epi64_epi8(_mm512_loadu_si512(from + 64 * i), arrange, 0), first);
      }
      bytes_to_planes(planes);
      const __m512i outside = _mm512_or_si512(planes[6], planes[7]);
      if (_mm512_test_epi64_mask(outside, outside) != 0) listed += list(outside, from, others + listed);
      mark_values(planes, all, low[block]);
      mark_values(planes + 3, _mm512_andnot_si512(outside, all), high[block]);
    }
    for (std::size_t i = 0; i < 8; ++i) {
      __m512i sum[8];
      ECQ_UNROLL
      for (std::size_t j = 0; j < 8; ++j) sum[j] = _mm512_load_si512(counts_[i][j]);
      for (std::size_t block = 0; block < blocks; ++block) {
        const __m512i marked = _mm512_load_si512(high[block][i]);
        ECQ_UNROLL
        for (std::size_t j = 0; j < 8; ++j) {
          const __m512i both = _mm512_and_si512(marked, _mm512_load_si512(low[block][j]));
          sum[j] = _mm512_add_epi64(sum[j], _mm512_popcnt_epi64(both));
        }
      }
      ECQ_UNROLL
      for (std::size_t j = 0; j < 8; ++j) _mm512_store_si512(counts_[i][j], sum[j]);
    }
    return listed;
  }

  /// Adds the counts of all codes so far that lay in the window to `counts`, by code.
  void add_to(std::uint64_t* counts) const {
    for (unsigned place = 0; place < code_window::values; ++place) {
      for (const std::uint64_t part : counts_[place / 8][place % 8]) counts[window_.code(place)] += part;
    }
  }

 private:
  /// Lists the codes of a block that are marked in `outside`, where bit r of a byte stands for code 64 r + byte.
  ECQ_AVX512 static std::size_t list(__m512i outside, const std::uint8_t* codes, std::uint8_t* to) {
    std::size_t listed = 0;
    for (unsigned r = 0; r < 8; ++r) {
      const __mmask64 marked = _mm512_test_epi8_mask(outside, _mm512_set1_epi8(static_cast<char>(1U << r)));
      _mm512_storeu_si512(to + listed, _mm512_maskz_compress_epi8(marked, _mm512_loadu_si512(codes + 64 * r)));
      listed += static_cast<std::size_t>(_mm_popcnt_u64(marked));
    }
    return listed;
  }

  code_window window_;
  alignas(64) std::uint64_t counts_[8][8][8] = {};
};

}  // namespace ecq::detail::avx512

ECQ_KERNELS_END

#endif
