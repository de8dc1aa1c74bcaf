#pragma once
/// \file
/// Dot products of runs of integer codes with rows of 8-bit activations, in exact integers: every kernel gives the same
/// sums.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "ecq/base/config.hpp"
#include "ecq/base/instruction_set.hpp"
#include "ecq/matmul/integer_dot_avx2.hpp"
#include "ecq/matmul/integer_dot_avx512.hpp"
#include "ecq/matmul/integer_dot_neon.hpp"
#include "ecq/matmul/quantized_activations.hpp"

namespace ecq::detail {

/// Maximum number of columns of one sum. 255 * 127 * 2^13 is far below 2^31, and four rows of activations stay in the
/// L1 cache.
inline constexpr std::size_t most_integer_columns = std::size_t{1} << 13;

/// Sets out[row * out_stride + b] to the sum of (codes[row * code_stride + i] ^ flip) * x[b * stride + i] over i below
/// `count`, which is 1 to most_integer_columns. If activations are words, codes are words as well, `count` is a
/// multiple of 16, and nothing is flipped. Strides of codes are in bytes.
template <class Activation>
using integer_dot_function = void (*)(const std::byte* codes, std::size_t code_stride, std::uint8_t flip,
                                      const Activation* x, std::size_t stride, std::size_t count, std::int32_t* out,
                                      std::size_t out_stride);

/// Kernels in plain C++ for unsigned codes.
struct plain_integer_dots {
  static constexpr bool signed_codes = false;

  template <std::size_t Rows, std::size_t Batch>
  static void sums(const std::byte* codes, std::size_t code_stride, std::uint8_t flip, const std::int8_t* x,
                   std::size_t stride, std::size_t count, std::int32_t* out, std::size_t out_stride) {
    for (std::size_t row = 0; row < Rows; ++row) {
      for (std::size_t b = 0; b < Batch; ++b) {
        std::int32_t sum = 0;
        for (std::size_t i = 0; i < count; ++i) {
          const std::uint8_t code = std::to_integer<std::uint8_t>(codes[row * code_stride + i]) ^ flip;
          sum += static_cast<std::int16_t>(code) * static_cast<std::int16_t>(x[b * stride + i]);
        }
        out[row * out_stride + b] = sum;
      }
    }
  }
};

/// Kernels of one instruction set.
template <class Activation>
struct integer_kernels_of_type {
  integer_dot_function<Activation> of_one_row[4];    ///< one row of codes by 1, 2, 3 and 4 rows of activations
  integer_dot_function<Activation> of_four_rows[4];  ///< four rows of codes by 1, 2, 3 and 4 rows of activations
  bool signed_codes;                                 ///< flipped codes are taken for int8_t, otherwise for uint8_t
};
using integer_kernels = integer_kernels_of_type<std::int8_t>;

template <class Kernel, class Activation = std::int8_t>
inline constexpr integer_kernels_of_type<Activation> integer_kernels_by = {
    {Kernel::template sums<1, 1>, Kernel::template sums<1, 2>, Kernel::template sums<1, 3>,
     Kernel::template sums<1, 4>},
    {Kernel::template sums<4, 1>, Kernel::template sums<4, 2>, Kernel::template sums<4, 3>,
     Kernel::template sums<4, 4>},
    Kernel::signed_codes};

/// Returns the kernels for `isa`, a result of chosen_instruction_set(). 64-bit Arm has only one instruction set, with
/// dot products of bytes or without.
inline const integer_kernels& integer_kernels_of([[maybe_unused]] instruction_set isa) noexcept {
#if ECQ_X86
  if (isa == instruction_set::avx512 && machine_has_integer_dots()) return integer_kernels_by<avx512::integer_dots>;
  if (isa >= instruction_set::avx2) {
    return machine_has_integer_dots_avx2() ? integer_kernels_by<avx2::byte_dots> : integer_kernels_by<avx2::wide_dots>;
  }
#elif ECQ_NEON_DOT
  if (machine_has_integer_dots()) return integer_kernels_by<neon::integer_dots>;
#endif
  return integer_kernels_by<plain_integer_dots>;
}

/// A run of codes in each of several rows.
struct integer_code_rows {
  const std::byte* codes;  ///< of the first row
  std::size_t stride;      ///< bytes from row to row
  std::size_t rows;
  std::size_t count;  ///< codes in a row, 1 to most_integer_columns
  bool is_signed;     ///< codes are int8_t, otherwise uint8_t
  bool flipped;       ///< upper bits are flipped if the kernel takes the other kind
};

/// Sets sums[row * stride + b] to the sum of code * x[b * x_stride + i] over the run, for `batch` rows of activations.
/// Codes of the kind that the kernel does not take count as codes of the other kind with the upper bit flipped: see
/// add_differences().
template <class Activation>
void integer_sums(const integer_kernels_of_type<Activation>& kernels, const integer_code_rows& of, const Activation* x,
                  std::size_t x_stride, std::size_t batch, std::int32_t* sums, std::size_t stride) {
  const std::uint8_t flip = of.is_signed != kernels.signed_codes && !of.flipped ? 0x80 : 0;
  // This many activations stay in the L1 cache while all codes pass.
  const std::size_t most = 4 * most_integer_columns / sizeof(Activation);
  const std::size_t kept = (std::max)(most / of.count / 4 * 4, std::size_t{4});
  for (std::size_t begin = 0; begin < batch; begin += kept) {
    const std::size_t end = (std::min)(begin + kept, batch);
    for (std::size_t row = 0; row < of.rows;) {
      const bool four = of.rows - row >= 4;
      for (std::size_t b = begin; b < end; b += 4) {
        const std::size_t together = (std::min)(end - b, std::size_t{4});
        (four ? kernels.of_four_rows : kernels.of_one_row)[together - 1](of.codes + row * of.stride, of.stride, flip,
                                                                         x + b * x_stride, x_stride, of.count,
                                                                         sums + row * stride + b, stride);
      }
      row += four ? 4 : 1;
    }
  }
}

/// Corrects integer_sums() of `rows` rows of codes: a code of the kind that the kernel does not take differs by 128
/// once its upper bit is flipped. The run is `count` columns from `column` on; rows of activations begin with `first`.
inline void add_differences(const integer_kernels& kernels, bool is_signed, std::size_t rows,
                            const quantized_activations& x, std::size_t first, std::size_t column, std::size_t count,
                            std::size_t batch, std::int32_t* sums, std::size_t stride) {
  if (is_signed == kernels.signed_codes) return;
  constexpr std::size_t some = 64;
  std::int32_t differences[some];
  for (std::size_t begin = 0; begin < batch; begin += some) {
    const std::size_t there = (std::min)(some, batch - begin);
    for (std::size_t b = 0; b < there; ++b) {
      differences[b] = (is_signed ? -128 : 128) * x.sum(first + begin + b, column, count);
    }
    for (std::size_t row = 0; row < rows; ++row) {
      for (std::size_t b = 0; b < there; ++b) sums[row * stride + begin + b] += differences[b];
    }
  }
}

}  // namespace ecq::detail
