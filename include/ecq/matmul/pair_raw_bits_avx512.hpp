#pragma once
/// \file
/// Raw bits of narrow pairs with AVX-512, as advance_rounds meets them (entropy/rans/alias_groups_avx512.hpp).

#include "ecq/base/config.hpp"

#if ECQ_X86

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "ecq/base/lanes.hpp"
#include "ecq/entropy/rans/rans_pairs_avx512.hpp"

ECQ_KERNELS_BEGIN

namespace ecq::detail::avx512 {

/// One or two raw bits of each code: those of the eight codes of a lane follow each other.
struct pair_raw_bits {
  ECQ_AVX512 explicit pair_raw_bits(unsigned bits)
      : group_bytes(pair_group_codes / 8 * bits), mask(_mm512_set1_epi8(static_cast<char>((1U << bits) - 1U))) {
    alignas(64) std::uint8_t lanes[64];
    for (unsigned byte = 0; byte < 64; ++byte) {  // of one bit, the second byte does not matter
      lanes[byte] = static_cast<std::uint8_t>(bits == 1 ? byte / 2 : byte);
    }
    order = _mm512_load_si512(lanes);
    for (unsigned round = 0; round < rounds_per_group; ++round) {
      for (unsigned byte = 0; byte < 64; ++byte) {  // the first bit of a code, among those of four lanes
        lanes[byte] = static_cast<std::uint8_t>(16 * (byte / 2 % 4) + bits * (2 * round + byte % 2));
      }
      place[round] = _mm512_load_si512(lanes);
    }
  }

  /// Those of a group, for each lane. Reads 64 bytes.
  ECQ_AVX512 [[gnu::always_inline]] inline __m512i load(const std::byte* from) const {
    return _mm512_permutexvar_epi8(order, _mm512_loadu_si512(from));
  }

  /// Those of both codes of each lane in the low bits of bytes, by what load() returned: see `mask`.
  ECQ_AVX512 [[gnu::always_inline]] inline __m512i of_round(__m512i loaded, std::size_t round) const {
    return _mm512_multishift_epi64_epi8(place[round], loaded);
  }

  std::size_t group_bytes;
  __m512i mask;
  __m512i order;
  __m512i place[rounds_per_group];
};

}  // namespace ecq::detail::avx512

ECQ_KERNELS_END

#endif
