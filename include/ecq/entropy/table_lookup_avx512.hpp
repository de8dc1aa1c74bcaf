#pragma once
/// \file
/// Look-ups in tables in memory for AVX-512 kernels: by plain loads or by gathers, whichever is faster on the processor
/// (machine_has_fast_gathers()).

#include "ecq/base/config.hpp"

#if ECQ_X86

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "ecq/base/lanes.hpp"
#include "ecq/base/little_endian.hpp"
#include "ecq/entropy/lanes_avx512.hpp"

ECQ_KERNELS_BEGIN

namespace ecq::detail::avx512 {

/// Entries of 32 bits for 32 lanes, in an order that only the look-ups that found them know.
struct looked_up {
  __m512i first;
  __m512i second;
};

/// Low and high halves of 16 entries of 64 bits.
struct entry_halves {
  __m512i low;
  __m512i high;
};

/// Look-ups by plain loads, several times as fast as gathers on machines whose gathers are microcode.
struct lookups_by_loads {
  /// Returns the 32 bits at table + Stride * index, for each index of 32 bits.
  template <std::size_t Stride>
  ECQ_AVX512 static __m512i dwords(const void* table, __m512i index) {
    std::uint64_t pairs[8];
    _mm512_storeu_si512(pairs, index);
    __m128i quarters[4];
    ECQ_UNROLL
    for (std::size_t i = 0; i < 4; ++i) {
      std::uint64_t low = pairs[2 * i];
      std::uint64_t high = pairs[2 * i + 1];
      __asm__("" : "+r"(low), "+r"(high));  // keeps clang from making it a gather
      quarters[i] = load_four<Stride>(table, low & 0xFFFFFFFFU, low >> 32, high & 0xFFFFFFFFU, high >> 32);
    }
    return join_quarters(quarters);
  }

  /// Returns the 64 bits at table + Stride * index, for each index of 32 bits.
  template <std::size_t Stride>
  ECQ_AVX512 static entry_halves qwords(const void* table, __m512i index) {
    std::uint64_t pairs[8];
    _mm512_storeu_si512(pairs, index);
    __m128i parts[2][4];
    ECQ_UNROLL
    for (std::size_t i = 0; i < 8; ++i) {
      std::uint64_t two = pairs[i];
      __asm__("" : "+r"(two));
      parts[i % 2][i / 2] = load_two<Stride>(table, two & 0xFFFFFFFFU, two >> 32);
    }
    const __m512 first = _mm512_castsi512_ps(join_quarters(parts[0]));
    const __m512 second = _mm512_castsi512_ps(join_quarters(parts[1]));
    return {_mm512_castps_si512(_mm512_shuffle_ps(first, second, 0x88)),
            _mm512_castps_si512(_mm512_shuffle_ps(first, second, 0xDD))};
  }

  /// Returns the 32 bits at table + Stride * index, for each index of 16 bits.
  template <std::size_t Stride>
  ECQ_AVX512 static looked_up entries(const void* table, __m512i index) {
    std::uint64_t indices[8];  // loading four lanes at a time is faster than lane by lane
    _mm512_storeu_si512(indices, index);
    __m128i parts[8];
    ECQ_UNROLL
    for (std::size_t i = 0; i < 8; ++i) {
      std::uint64_t four = indices[i];
      __asm__("" : "+r"(four));
      parts[i] = load_four<Stride>(table, four & 0xFFFFU, four >> 16 & 0xFFFFU, four >> 32 & 0xFFFFU, four >> 48);
    }
    return {join_quarters(parts), join_quarters(parts + 4)};
  }

  /// Returns the low halves of entries, one in each lane of 16 bits.
  ECQ_AVX512 static __m512i low_halves(const looked_up& found) {
    return _mm512_permutex2var_epi16(found.first, every(0, 2), found.second);
  }
  ECQ_AVX512 static __m512i high_halves(const looked_up& found) {
    return _mm512_permutex2var_epi16(found.first, every(1, 2), found.second);
  }

  /// The codes of a group of 128, from the last round to the first.
  class codes_of_group {
   public:
    ECQ_AVX512 void begin(const std::uint8_t* codes) { next_ = codes + rounds_per_group; }

    /// Looks up the entries of the codes of the next round.
    ECQ_AVX512 looked_up entries(const std::uint32_t* table) {
      --next_;
      __m128i parts[8];
      ECQ_UNROLL
      for (std::size_t i = 0; i < 8; ++i) {
        const std::uint8_t* const four = next_ + 4 * rounds_per_group * i;
        parts[i] = load_four<4>(table, four[0], four[rounds_per_group], four[2 * rounds_per_group],
                                four[3 * rounds_per_group]);
      }
      return {join_quarters(parts), join_quarters(parts + 4)};
    }

   private:
    const std::uint8_t* next_;
  };

 private:
  template <std::size_t Stride>
  ECQ_AVX512 static __m128i load_four(const void* table, std::size_t a, std::size_t b, std::size_t c, std::size_t d) {
    const auto* const from = static_cast<const std::byte*>(table);
    const auto at = [&](std::size_t index) { return static_cast<int>(load_le<std::uint32_t>(from + Stride * index)); };
    const __m128i first = _mm_insert_epi32(_mm_cvtsi32_si128(at(a)), at(b), 1);
    const __m128i second = _mm_insert_epi32(_mm_cvtsi32_si128(at(c)), at(d), 1);
    return _mm_unpacklo_epi64(first, second);
  }

  template <std::size_t Stride>
  ECQ_AVX512 static __m128i load_two(const void* table, std::size_t a, std::size_t b) {
    const auto* const from = static_cast<const std::byte*>(table);
    const __m128i first = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from + Stride * a));
    return _mm_castpd_si128(_mm_loadh_pd(_mm_castsi128_pd(first), reinterpret_cast<const double*>(from + Stride * b)));
  }

  ECQ_AVX512 static __m512i join_quarters(const __m128i* quarters) {
    const __m256i low = _mm256_inserti128_si256(_mm256_castsi128_si256(quarters[0]), quarters[1], 1);
    const __m256i high = _mm256_inserti128_si256(_mm256_castsi128_si256(quarters[2]), quarters[3], 1);
    return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
  }
};

/// Look-ups by gathers, with even lanes of 16 bits in one register and odd ones in another. Members do the same as
/// those of lookups_by_loads.
struct lookups_by_gathers {
  template <std::size_t Stride>
  ECQ_AVX512 static __m512i dwords(const void* table, __m512i index) {
    // Into a register of zeros: otherwise a gather waits for what the register held before.
    return _mm512_mask_i32gather_epi32(_mm512_setzero_si512(), 0xFFFF, index, table, Stride);
  }

  template <std::size_t Stride>
  ECQ_AVX512 static entry_halves qwords(const void* table, __m512i index) {
    const __m512i zeros = _mm512_setzero_si512();
    const __m512i first = _mm512_mask_i32gather_epi64(zeros, 0xFF, _mm512_castsi512_si256(index), table, Stride);
    const __m512i second = _mm512_mask_i32gather_epi64(zeros, 0xFF, _mm512_extracti64x4_epi64(index, 1), table, Stride);
    return {_mm512_permutex2var_epi32(first, every_second(0), second),
            _mm512_permutex2var_epi32(first, every_second(1), second)};
  }

  template <std::size_t Stride>
  ECQ_AVX512 static looked_up entries(const void* table, __m512i index) {
    return {dwords<Stride>(table, _mm512_and_si512(index, _mm512_set1_epi32(0xFFFF))),
            dwords<Stride>(table, _mm512_srli_epi32(index, 16))};
  }

  ECQ_AVX512 static __m512i low_halves(const looked_up& found) {
    return _mm512_mask_mov_epi16(found.first, 0xAAAAAAAAU, _mm512_slli_epi32(found.second, 16));
  }
  ECQ_AVX512 static __m512i high_halves(const looked_up& found) {
    return _mm512_mask_mov_epi16(_mm512_srli_epi32(found.first, 16), 0xAAAAAAAAU, found.second);
  }

  class codes_of_group {
   public:
    ECQ_AVX512 void begin(const std::uint8_t* codes) {
      const __m512i first = _mm512_loadu_si512(codes);
      const __m512i second = _mm512_loadu_si512(codes + 64);
      even_ = _mm512_permutex2var_epi32(first, every_second(0), second);
      odd_ = _mm512_permutex2var_epi32(first, every_second(1), second);
    }

    ECQ_AVX512 looked_up entries(const std::uint32_t* table) {
      const looked_up found = {dwords<4>(table, _mm512_srli_epi32(even_, 24)),
                               dwords<4>(table, _mm512_srli_epi32(odd_, 24))};
      even_ = _mm512_slli_epi32(even_, 8);
      odd_ = _mm512_slli_epi32(odd_, 8);
      return found;
    }

   private:
    __m512i even_;
    __m512i odd_;
  };

 private:
  /// Returns the numbers of every second lane of 32 bits, from `first` on.
  ECQ_AVX512 static __m512i every_second(int first) {
    const __m512i numbers =
        _mm512_cvtepu8_epi32(_mm_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30));
    return _mm512_add_epi32(numbers, _mm512_set1_epi32(first));
  }
};

/// Returns the entries of a table whose numbers are the low bits of each 16-bit lane: the low five bits if there are
/// `few` entries, at most 32, otherwise the low six.
ECQ_AVX512 inline __m512i entries_of(const std::uint16_t (&table)[64], __m512i numbers, bool few) {
  const __m512i lower = _mm512_loadu_si512(table);
  return few ? _mm512_permutexvar_epi16(numbers, lower)
             : _mm512_permutex2var_epi16(lower, numbers, _mm512_loadu_si512(table + 32));
}

/// A group of 128 codes as numbers below 64, by which entries are looked up in registers.
class numbers_of_group {
 public:
  /// Starts a group of codes. `numbers` holds the number of each code.
  ECQ_AVX512 void begin(const std::uint8_t (&numbers)[256], const std::uint8_t* codes) {
    const __m512i lower = numbers_of_half(numbers, codes);
    const __m512i upper = numbers_of_half(numbers, codes + 64);
    pairs_[0] = _mm512_permutex2var_epi16(lower, every(0, 2), upper);
    pairs_[1] = _mm512_permutex2var_epi16(lower, every(1, 2), upper);
  }

  /// Returns the numbers of round 2 * `pair` + `later`, by lane.
  ECQ_AVX512 __m512i of_round(unsigned pair, unsigned later) const {
    return later == 0 ? _mm512_and_si512(pairs_[pair], _mm512_set1_epi16(0xFF)) : _mm512_srli_epi16(pairs_[pair], 8);
  }

 private:
  ECQ_AVX512 static __m512i numbers_of_half(const std::uint8_t* numbers, const std::uint8_t* codes) {
    const __m512i bytes = _mm512_loadu_si512(codes);
    const __m512i low = _mm512_permutex2var_epi8(_mm512_loadu_si512(numbers), bytes, _mm512_loadu_si512(numbers + 64));
    const __m512i high =
        _mm512_permutex2var_epi8(_mm512_loadu_si512(numbers + 128), bytes, _mm512_loadu_si512(numbers + 192));
    return _mm512_mask_mov_epi8(low, _mm512_movepi8_mask(bytes), high);
  }

  __m512i pairs_[2];
};

}  // namespace ecq::detail::avx512

ECQ_KERNELS_END

#endif
