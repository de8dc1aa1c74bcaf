#pragma once
/// \file
/// One step of 32 lanes of rANS by an alias table in AVX-512 registers, with VBMI2. A chunk's 32 states are two
/// registers of 16-bit halves.

#include "ecq/base/config.hpp"

#if ECQ_X86

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "ecq/entropy/rans/alias_lookup.hpp"

ECQ_KERNELS_BEGIN

namespace ecq::detail::avx512 {

/// Returns table[index] for each 16-bit lane, by the low BucketBits bits of `index`. The table is in `low` and `high`.
template <unsigned BucketBits>
ECQ_AVX512 inline __m512i look_up(__m512i index, __m512i low, __m512i high) {
  if constexpr (BucketBits == 5) {
    return _mm512_permutexvar_epi16(index, low);
  } else {
    return _mm512_permutex2var_epi16(low, index, high);
  }
}

/// An alias table in registers.
template <unsigned BucketBits>
struct alias_registers {
  ECQ_AVX512 explicit alias_registers(const alias_lookup<BucketBits>& table)
      : bucket{_mm512_loadu_si512(table.bucket), _mm512_loadu_si512(table.bucket + 32)},
        adjust{_mm512_loadu_si512(table.adjust), _mm512_loadu_si512(table.adjust + 32)},
        frequency{_mm512_loadu_si512(table.frequency), _mm512_loadu_si512(table.frequency + 32)},
        minus_one(_mm512_set1_epi16(-1)) {
#if defined(__clang__) && !ECQ_AVX512_EMULATED
    __asm__("" : "+v"(minus_one));  // a compiler that knew it would turn the mask of carries into a register
#endif
  }

  /// Moves the states whose halves are `high` and `low` on by one symbol and takes words from `word`. Returns the
  /// symbols' numbers in the low BucketBits bits of each 16-bit lane; the other bits have any value. Look-ups take most
  /// of the time, so there are as few as possible. The last one waits for the first, and chunks side by side hide that.
  /// With few chunks, this chain is the bottleneck, and `Shorter` takes a tenth off it by one more operation. `Apart`
  /// says that compute_first() follows the steps of a round.
  template <bool Shorter, bool Apart>
  ECQ_AVX512 [[gnu::always_inline]] inline __m512i step(__m512i& high, __m512i& low, const std::byte*& word) const {
    const __m512i slot = low;
    const __m512i offset = _mm512_srli_epi16(slot, BucketBits);
    const __m512i found = look_up<BucketBits>(slot, bucket[0], bucket[1]);
    __mmask32 other = _mm512_cmpge_epu16_mask(slot, found);
#if defined(__clang__) && !ECQ_AVX512_EMULATED
    if constexpr (Apart) __asm__("" : "+Yk"(other));  // clang would invert the mask and need more operations
#endif
    const __m512i rank = _mm512_mask_add_epi16(offset, other, offset, look_up<BucketBits>(slot, adjust[0], adjust[1]));
    const __m512i symbol = _mm512_min_epu16(slot, found);
    const __m512i own = look_up<BucketBits>(symbol, frequency[0], frequency[1]);
    // frequency * high + rank, in halves.
    const __m512i next_low = _mm512_add_epi16(_mm512_mullo_epi16(own, high), rank);
    const __m512i product = _mm512_mulhi_epu16(own, high);
    const __mmask32 carry = _mm512_cmplt_epu16_mask(next_low, rank);
    const __m512i next_high = _mm512_mask_sub_epi16(product, carry, product, minus_one);
    const __mmask32 due = Shorter ? _kandn_mask32(carry, _mm512_testn_epi16_mask(product, product))
                                  : _mm512_testn_epi16_mask(next_high, next_high);
    high = _mm512_mask_mov_epi16(next_high, due, next_low);
    low = _mm512_mask_expand_epi16(next_low, due, _mm512_loadu_si512(word));
    word += std::size_t{2} * static_cast<std::size_t>(_mm_popcnt_u32(due));
    return symbol;
  }

  __m512i bucket[2];
  __m512i adjust[2];
  __m512i frequency[2];
  __m512i minus_one;
};

}  // namespace ecq::detail::avx512

ECQ_KERNELS_END

#endif
