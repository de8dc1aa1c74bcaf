#pragma once
/// \file
/// Dot products with AVX-512 in the registers in which rANS decodes weights, which are never stored: sinks of
/// advance_groups (entropy/rans/alias_groups_avx512.hpp). The order in which activations are met is that of
/// matmul/fusion.hpp.

#include "ecq/base/config.hpp"

#if ECQ_X86

#include <immintrin.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "ecq/base/lanes.hpp"
#include "ecq/base/prefetch_avx512.hpp"
#include "ecq/entropy/join_avx512.hpp"
#include "ecq/entropy/nibble_list.hpp"
#include "ecq/entropy/rans/alias_groups_avx512.hpp"
#include "ecq/entropy/rans/alias_lookup.hpp"
#include "ecq/entropy/rans/alias_step_avx512.hpp"
#include "ecq/entropy/rans/rans_cursor.hpp"
#include "ecq/entropy/rans/rans_pairs_avx512.hpp"
#include "ecq/matmul/dot_product_avx512.hpp"
#include "ecq/matmul/fusion.hpp"

ECQ_KERNELS_BEGIN

namespace ecq::detail::avx512 {

/// A row of activations.
struct product_row {
  const float* x;      ///< in the order in which they are met
  const float* plain;  ///< in their own order
  std::size_t groups;  ///< of weights
};

/// The products of a chunk: one sum for each row of W that it has weights of.
struct product_cursor {
  const float* x = nullptr;      ///< activations of the next weights
  const float* plain = nullptr;  ///< the same in their own order
  std::size_t groups = 0;        ///< left in the row
  float* sums = nullptr;         ///< of the row
  alignas(64) float partial[16] = {};

  /// Ends a row, if one has begun.
  ECQ_AVX512 void end_row() {
    *sums++ = _mm512_reduce_add_ps(_mm512_load_ps(partial));
    _mm512_store_ps(partial, _mm512_setzero_ps());
  }

  /// Moves on by a group of `Weights` weights, with which the row's sums are `sum`.
  template <std::size_t Weights>
  ECQ_AVX512 [[gnu::always_inline]] inline void advance(__m512 sum, const product_row& row) {
    _mm512_store_ps(partial, sum);
    x += Weights;
    plain += Weights;
    if (--groups != 0) return;
    end_row();
    groups = row.groups;
    x = row.x;
    plain = row.plain;
  }
};

/// Adds the products of 32 weights, BF16 in 16-bit lanes, with the activations at `x`.
ECQ_AVX512 [[gnu::always_inline]] inline void add_halves(__m512i halves, const float* x, __m512& first,
                                                         __m512& second) {
  first = _mm512_fmadd_ps(first_values(halves), _mm512_loadu_ps(x), first);
  second = _mm512_fmadd_ps(second_values(halves), _mm512_loadu_ps(x + 16), second);
}

/// The products of a group of a chunk, in four registers of sums that do not wait for each other.
struct group_products {
  ECQ_AVX512 explicit group_products(const product_cursor& to)
      : sum{_mm512_load_ps(to.partial), _mm512_setzero_ps(), _mm512_setzero_ps(), _mm512_setzero_ps()} {}

  ECQ_AVX512 __m512 all() const { return _mm512_add_ps(_mm512_add_ps(sum[0], sum[1]), _mm512_add_ps(sum[2], sum[3])); }

  __m512 sum[4];
};

/// A sink that multiplies codes, each a symbol. `halves` are the BF16 values of all codes.
template <std::size_t Chunks, unsigned BucketBits>
struct code_products {
  static constexpr bool packs = false;

  ECQ_AVX512 code_products(const std::uint8_t (&codes)[64], const std::uint16_t* halves, const product_row& of,
                           product_cursor* const* products)
      : row(of) {
    alignas(64) std::uint16_t of_numbers[64];
    for (std::size_t i = 0; i < 64; ++i) of_numbers[i] = halves[codes[i]];
    values[0] = _mm512_load_si512(of_numbers);
    values[1] = _mm512_load_si512(of_numbers + 32);
    ECQ_UNROLL
    for (std::size_t c = 0; c < Chunks; ++c) to[c] = products[c];
  }

  ECQ_AVX512 [[gnu::always_inline]] inline bool take(std::size_t c, const __m512i (&numbers)[rounds_per_group]) {
    product_cursor& at = *to[c];
    group_products products(at);
    ECQ_UNROLL
    for (std::size_t i = 0; i < rounds_per_group; ++i) {
      add_halves(look_up<BucketBits>(numbers[i], values[0], values[1]), at.x + 32 * i, products.sum[i % 2 * 2],
                 products.sum[i % 2 * 2 + 1]);
    }
    at.advance<group_symbols>(products.all(), row);
    return true;
  }

  static void leave(std::size_t, const rans_cursor&) {}

  product_row row;
  __m512i values[2];
  product_cursor* to[Chunks];
};

/// A sink that multiplies BF16 whose symbols are exponents.
template <std::size_t Chunks>
struct bf16_products {
  static constexpr bool packs = true;

  ECQ_AVX512 bf16_products(const std::uint8_t (&codes)[64], const product_row& of, rans_cursor* const* cursors,
                           product_cursor* const* products)
      : row(of), writer({}), code(_mm512_loadu_si512(codes)) {
    ECQ_UNROLL
    for (std::size_t c = 0; c < Chunks; ++c) {
      raw[c] = cursors[c]->raw;
      to[c] = products[c];
    }
  }

  ECQ_AVX512 [[gnu::always_inline]] inline bool take(std::size_t c, const __m512i (&packed)[2]) {
    product_cursor& at = *to[c];
    group_products products(at);
    prefetch<bf16_writer::raw_lines>(raw[c], 2 * prefetch_distance);
    ECQ_UNROLL
    for (int i = 0; i < 2; ++i) {
      const __m512i exponents = _mm512_permutexvar_epi8(in_order(packed, i), code);
      const __m512i low = _mm512_loadu_si512(raw[c] + 64 * i);
      ECQ_UNROLL
      for (int half = 0; half < 2; ++half) {
        add_halves(writer.joined(exponents, low, half), at.x + 64 * i + 32 * half, products.sum[2 * half],
                   products.sum[2 * half + 1]);
      }
    }
    raw[c] += group_symbols;
    at.advance<group_symbols>(products.all(), row);
    return true;
  }

  static void leave(std::size_t, const rans_cursor&) {}

  product_row row;
  bf16_writer writer;
  symbols_in_order in_order;
  __m512i code;
  const std::byte* raw[Chunks];
  product_cursor* to[Chunks];
};

/// What pairs of codes stand for: the nibbles that occur have numbers, and number and raw bits of a code together are
/// the index of its value.
struct pair_values {
  static constexpr std::size_t most_nibbles = 8;
  static constexpr unsigned most_raw_bits = 2;

  alignas(64) std::uint8_t index[2][64];  ///< of the first and the second code of each pair, raw bits 0
  alignas(64) std::uint8_t escaped[64];   ///< bit 0: the first code is an escape; bit 1: the second one
  alignas(64) std::uint16_t halves[32];   ///< the value of each index as BF16; 0 for escapes
  const std::uint16_t* all_halves;        ///< of all codes
  unsigned raw_bits;
  bool usable = true;  ///< no more nibbles and raw bits than there is room for

  /// `pairs` are the pairs by their numbers in an alias table, `of_codes` the BF16 values of all codes.
  pair_values(const std::uint8_t (&pairs)[64], const nibble_list& list, unsigned bits, const std::uint16_t* of_codes)
      : all_halves(of_codes), raw_bits(bits) {
    const pair_lookup lookup(pairs, list);
    std::copy_n(lookup.escaped, 64, escaped);
    std::fill_n(halves, 32, std::uint16_t{0});
    std::uint8_t number_of[16];
    std::fill_n(number_of, 16, std::uint8_t{255});
    std::size_t numbers = 0;
    usable = bits <= most_raw_bits;
    for (std::size_t i = 0; i < 64 && usable; ++i) {
      for (std::size_t which = 0; which < 2; ++which) {
        const unsigned nibble = which == 0 ? pairs[i] % 16U : pairs[i] / 16U;
        if (number_of[nibble] == 255) {
          usable = usable && numbers < most_nibbles;
          if (!usable) return;
          number_of[nibble] = static_cast<std::uint8_t>(numbers << bits);
          const bool escape = list.has_escape() && nibble == nibble_list::escape_value;
          for (unsigned raw = 0; raw >> bits == 0 && !escape; ++raw) {
            halves[(numbers << bits) + raw] = of_codes[(list.symbols[nibble] + raw) % 256U];
          }
          ++numbers;
        }
        index[which][i] = number_of[nibble];
      }
    }
  }
};

/// Sets `sum` to the products of the escapes of a group, those that `marks` name, and moves `next` past them. Returns
/// false if there are too few. Most groups have one or two, hence one at a time.
ECQ_AVX512 [[gnu::always_inline]] inline bool escaped_products(const pair_marks& marks, const pair_values& values,
                                                               const std::byte* raw, const std::byte*& next,
                                                               const std::byte* end, const float* x, float& sum) {
  const unsigned bits = values.raw_bits;
  const unsigned raw_mask = (1U << bits) - 1U;
  sum = 0;
  ECQ_UNROLL
  for (unsigned i = 0; i < 4; ++i) {
    for (std::uint64_t left = marks.codes(i); left != 0; left &= left - 1) {
      if (next == end) return false;
      const unsigned at = 64 * i + static_cast<unsigned>(std::countr_zero(left));
      const unsigned low = std::to_integer<unsigned>(raw[at * bits / 8]) >> (at * bits % 8) & raw_mask;
      const std::uint32_t half = values.all_halves[(std::to_integer<unsigned>(*next++) + low) % 256U];
      sum += std::bit_cast<float>(half << 16) * x[at];
    }
  }
  return true;
}

/// A sink that multiplies narrow pairs of codes. Reads as far as pair_sink.
template <std::size_t Chunks, unsigned RawBits>
struct pair_products {
  static constexpr bool packs = true;

  ECQ_AVX512 pair_products(const pair_values& of_pairs, bool with_escapes, const product_row& of,
                           rans_cursor* const* cursors, product_cursor* const* products)
      : row(of),
        values(of_pairs),
        escaping(with_escapes),
        raw_bits(of_pairs.raw_bits),
        index{_mm512_load_si512(of_pairs.index[0]), _mm512_load_si512(of_pairs.index[1])},
        halves(_mm512_load_si512(of_pairs.halves)) {
    ECQ_UNROLL
    for (std::size_t c = 0; c < Chunks; ++c) {
      raw[c] = cursors[c]->raw;
      escape[c] = cursors[c]->escape;
      escape_end[c] = cursors[c]->escape_end;
      to[c] = products[c];
    }
  }

  ECQ_AVX512 [[gnu::always_inline]] inline bool take(std::size_t c, const __m512i (&packed)[2]) {
    product_cursor& at = *to[c];
    const __m512i pairs[2] = {order(packed, 0), order(packed, 1)};
    prefetch<raw_lines_of<RawBits>>(raw[c], 2 * prefetch_distance);
    const std::byte* const own = raw[c];
    raw[c] += raw_bits.template group_bytes<RawBits>();
    group_products products(at);
    if (escaping) {
      const pair_marks marks(pairs, _mm512_load_si512(values.escaped));
      if (marks.any()) {
        float sum;
        if (!escaped_products(marks, values, own, escape[c], escape_end[c], at.plain, sum)) return false;
        products.sum[3] = _mm512_maskz_mov_ps(1, _mm512_set1_ps(sum));
      }
    }
    __m512i indices[4];
    ECQ_UNROLL
    for (int i = 0; i < 2; ++i) unpack(pairs[i], index, indices[2 * i], indices[2 * i + 1]);
    raw_bits.template add<RawBits>(indices, own);
    ECQ_UNROLL
    for (std::size_t i = 0; i < 4; ++i) {
      // A permutation of 32 values reads five bits of an index, so the byte above it does not matter.
      const float* const with = at.x + 64 * i;
      add_halves(_mm512_permutexvar_epi16(indices[i], halves), with, products.sum[0], products.sum[1]);
      add_halves(_mm512_permutexvar_epi16(_mm512_srli_epi16(indices[i], 8), halves), with + 32, products.sum[2],
                 products.sum[3]);
    }
    at.advance<pair_group_codes>(products.all(), row);
    return true;
  }

  void leave(std::size_t c, rans_cursor& cursor) const { cursor.escape = escape[c]; }

  product_row row;
  const pair_values& values;
  bool escaping;
  raw_bit_registers raw_bits;
  pair_order order;
  __m512i index[2];
  __m512i halves;
  const std::byte* raw[Chunks];
  const std::byte* escape[Chunks];
  const std::byte* escape_end[Chunks];
  product_cursor* to[Chunks];
};

/// Chunks that are multiplied side by side.
inline constexpr std::size_t product_chunks = 8;

/// advance_groups with a `Sink` made of `arguments`.
template <class Sink, unsigned BucketBits, class... Arguments>
ECQ_AVX512 inline bool multiply_groups(const alias_lookup<BucketBits>& lookup, rans_cursor* const* cursors,
                                       std::size_t groups, const Arguments&... arguments) {
  Sink sink(arguments...);
  return advance_groups<product_chunks>(lookup, cursors, groups, sink);
}

/// Calls `multiply(cursors, products)` with arrays of pointers to product_chunks of each, of which the first `count`
/// (at least 1) are those given, and returns what it returns. Copies of the last chunk fill the places that are left;
/// their sums, `most_rows` at most, go nowhere.
template <class Multiply>
inline bool with_product_chunks(rans_cursor* cursors, product_cursor* products, std::size_t count,
                                std::size_t most_rows, const Multiply& multiply) {
  rans_cursor copies[product_chunks];
  product_cursor nowhere[product_chunks];
  rans_cursor* all[product_chunks];
  product_cursor* to[product_chunks];
  std::vector<float> sums(count == product_chunks ? 0 : most_rows);
  for (std::size_t i = 0; i < product_chunks; ++i) {
    if (i >= count) {
      copies[i] = cursors[count - 1];
      nowhere[i] = products[count - 1];
      nowhere[i].sums = sums.data();
    }
    all[i] = i < count ? &cursors[i] : &copies[i];
    to[i] = i < count ? &products[i] : &nowhere[i];
  }
  return multiply(static_cast<rans_cursor* const*>(all), static_cast<product_cursor* const*>(to));
}

/// Multiplies all of `count` chunks, 1 .. product_chunks, whole groups each, by `of`. Each chunk has weights of
/// `most_rows` rows at most. If one of them is damaged, returns false. `halves` are the BF16 values of all codes, not
/// used for fusion::bf16; `list` and `raw_bits` are those of pairs.
template <unsigned BucketBits>
inline bool multiply_chunks(fusion how, const alias_lookup<BucketBits>& lookup, const nibble_list& list,
                            unsigned raw_bits, const std::uint16_t* halves, const product_row& of, rans_cursor* cursors,
                            product_cursor* products, std::size_t count, std::size_t most_rows) {
  const std::size_t groups = cursors[0].left / group_symbols;
  return with_product_chunks(cursors, products, count, most_rows, [&](auto* all, auto* to) {
    if (how == fusion::codes) {
      return multiply_groups<code_products<product_chunks, BucketBits>>(lookup, all, groups, lookup.code, halves, of,
                                                                        to);
    }
    if (how == fusion::bf16) {
      return multiply_groups<bf16_products<product_chunks>>(lookup, all, groups, lookup.code, of, all, to);
    }
    const pair_values values(lookup.code, list, raw_bits, halves);
    if (!values.usable) return false;
    const auto by = [&]<unsigned RawBits>() {
      return multiply_groups<pair_products<product_chunks, RawBits>>(lookup, all, groups, values, list.has_escape(), of,
                                                                     all, to);
    };
    if (raw_bits == 0) return by.template operator()<0>();
    if (raw_bits == 1) return by.template operator()<1>();
    return by.template operator()<any_raw_bits>();
  });
}

}  // namespace ecq::detail::avx512

ECQ_KERNELS_END

#endif
