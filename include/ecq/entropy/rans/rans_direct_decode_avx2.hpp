#pragma once
/// \file
/// Direct tables of rANS for AVX2.

#include "ecq/base/config.hpp"

#if ECQ_X86

#include <immintrin.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "ecq/base/little_endian.hpp"
#include "ecq/entropy/rans/rans_groups_avx2.hpp"
#include "ecq/entropy/rans/rans_slots.hpp"

namespace ecq::detail::avx2 {

/// A direct table of up to 2^12 slots, 2^s in all. It has for each slot: frequency << (16 - s) | low nibble of the
/// code, and rank << 4 | high nibble. With x = high * 2^16 + m * 2^s + slot, the next state frequency * (x >> s) + rank
/// is high * (frequency << (16 - s)) + (frequency * m + rank), and the second term is below 2^16.
struct direct_entries {
  static constexpr bool wide = false;
  static constexpr unsigned max_scale_bits = 12;

  explicit direct_entries(const rans_slots_view& table) : slot_mask((1U << table.scale_bits) - 1) {
    for (std::uint32_t slot = 0; slot < 1U << table.scale_bits; ++slot) {
      const std::uint64_t entry = table.entries[table.entry_of_slot[slot]];
      const auto code = static_cast<std::uint32_t>(entry >> 32);
      const std::uint32_t rank = (slot + static_cast<std::uint32_t>(entry >> 16)) & slot_mask;
      const std::uint32_t frequency = static_cast<std::uint32_t>(entry) << (16 - table.scale_bits) & 0xFFFFU;
      entries[slot] = frequency | (code & 0xFU) | (rank << 20) | (code >> 4 << 16);
    }
  }

  ECQ_AVX2 slot_fields look_up(__m256i low, const index_extractor& extract) const {
    const __m256i mask = _mm256_set1_epi16(static_cast<std::int16_t>(slot_mask));
    const __m256i nibble = _mm256_set1_epi16(0xF);
    const __m256i slot = _mm256_and_si256(low, mask);
    const __m128i first = _mm256_castsi256_si128(slot);
    const __m128i second = _mm256_extracti128_si256(slot, 1);
    const __m128i a = four(extract(_mm_cvtsi128_si64(first)));
    const __m128i b = four(extract(_mm_extract_epi64(first, 1)));
    const __m128i c = four(extract(_mm_cvtsi128_si64(second)));
    const __m128i d = four(extract(_mm_extract_epi64(second, 1)));
    const __m256i ac = join(a, c);
    const __m256i bd = join(b, d);
    const __m256i low_halves = _mm256_unpacklo_epi64(ac, bd);
    const __m256i high_halves = _mm256_unpackhi_epi64(ac, bd);
    const __m256i frequency = _mm256_andnot_si256(nibble, low_halves);
    const __m256i multiplied = _mm256_mulhi_epu16(_mm256_andnot_si256(mask, low), frequency);
    __m256i code = _mm256_or_si256(_mm256_and_si256(low_halves, nibble), _mm256_slli_epi16(high_halves, 4));
    __asm__("" : "+x"(code));  // clang would keep both halves in memory until much later
    return {frequency, _mm256_add_epi16(multiplied, _mm256_srli_epi16(high_halves, 4)), code};
  }

  ECQ_AVX2 static __m256i code_of(__m256i symbols) { return symbols; }

 private:
  /// Returns the low halves of four entries, then the high ones.
  ECQ_AVX2 __m128i four(const std::array<std::size_t, 4>& slots) const {
    return _mm_unpacklo_epi32(pair(slots[0], slots[1]), pair(slots[2], slots[3]));
  }
  ECQ_AVX2 __m128i pair(std::size_t first, std::size_t second) const {
    return _mm_unpacklo_epi16(_mm_cvtsi32_si128(static_cast<int>(entries[first])), load_half(entries + second));
  }

  std::uint32_t slot_mask;
  std::uint32_t entries[(1U << max_scale_bits) + 3];  ///< 12 bytes beyond the last are read
};

}  // namespace ecq::detail::avx2

#endif
