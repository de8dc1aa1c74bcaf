#pragma once
/// \file
/// Indices of the codes of narrow pairs with AVX-512, for pairs in the order of advance_rounds
/// (entropy/rans/alias_groups_avx512.hpp).

#include "ecq/base/config.hpp"

#if ECQ_X86

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "ecq/base/lanes.hpp"
#include "ecq/entropy/rans/rans_pairs_avx512.hpp"

ECQ_KERNELS_BEGIN

namespace ecq::detail::avx512 {

/// Turns the pairs of a round into the indices of their codes. An index is the code's nibble, a number of four bits,
/// above its raw bits: none, one or two.
struct pair_indices {
  /// `nibbles` are the nibbles of each pair by its number in an alias table, the second code's in the upper bits.
  ECQ_AVX512 pair_indices(const std::uint8_t (&nibbles)[64], unsigned raw_bits)
      : group_bytes(pair_group_codes / 8 * raw_bits),
        both(_mm512_loadu_si512(nibbles)),
        raw_mask(_mm512_set1_epi8(static_cast<char>((1U << raw_bits) - 1U))) {
    alignas(64) std::uint8_t bytes[64];
    for (unsigned byte = 0; byte < 64; ++byte) {  // the first bit of an index, among the bits of four lanes
      bytes[byte] = static_cast<std::uint8_t>((16 * (byte / 2 % 4) + 4 * (byte % 2) - raw_bits) % 64);
    }
    nibble_place = _mm512_load_si512(bytes);
    for (unsigned byte = 0; byte < 64; ++byte) {  // with one raw bit, the second byte does not matter
      bytes[byte] = static_cast<std::uint8_t>(raw_bits == 1 ? byte / 2 : byte);
    }
    raw_order = _mm512_load_si512(bytes);
    for (unsigned round = 0; round < rounds_per_group; ++round) {
      for (unsigned byte = 0; byte < 64; ++byte) {  // the first raw bit of a code, among those of four lanes
        bytes[byte] = static_cast<std::uint8_t>(16 * (byte / 2 % 4) + raw_bits * (2 * round + byte % 2));
      }
      raw_place[round] = _mm512_load_si512(bytes);
    }
  }

  /// Loads the raw bits of a group, such that those of the eight codes of a lane follow each other. Reads 64 bytes.
  ECQ_AVX512 [[gnu::always_inline]] inline __m512i load_raw(const std::byte* from) const {
    return _mm512_permutexvar_epi8(raw_order, _mm512_loadu_si512(from));
  }

  /// Returns the nibbles of both codes of a round's pairs, in the low bytes of their lanes.
  ECQ_AVX512 [[gnu::always_inline]] inline __m512i nibbles(__m512i numbers) const {
    return _mm512_permutexvar_epi8(numbers, both);
  }

  /// Returns the indices of a round, those of a pair in the bytes of its lane, for codes with raw bits. `numbers` are
  /// the numbers of the pairs; `raw` is a result of load_raw(). Bits above an index are undefined.
  ECQ_AVX512 [[gnu::always_inline]] inline __m512i of_round(__m512i numbers, __m512i raw, std::size_t round) const {
    const __m512i index = _mm512_multishift_epi64_epi8(nibble_place, nibbles(numbers));
    const __m512i below = _mm512_multishift_epi64_epi8(raw_place[round], raw);
    return _mm512_ternarylogic_epi32(index, below, raw_mask, 0xD8);  // raw_mask ? below : index
  }

  std::size_t group_bytes;  ///< bytes of the raw bits of a group
  __m512i both;
  __m512i raw_mask;
  __m512i nibble_place;
  __m512i raw_order;
  __m512i raw_place[rounds_per_group];
};

}  // namespace ecq::detail::avx512

ECQ_KERNELS_END

#endif
