#pragma once
/// \file
/// Registers of AMX, which hold tiles of matrices, and the operations on them (Intel 64 and IA-32 Architectures
/// Software Developer's Manual, volume 1, chapter 18). Intrinsics take numbers of registers as preprocessor tokens,
/// these functions as constants. Tests have a header that replaces this one on machines without AMX.

#include "ecq/base/config.hpp"

#if ECQ_X86

#include <cstddef>
#include <cstdint>

namespace ecq::detail::amx {

/// Maximum number of rows of a register, and of bytes of a row.
inline constexpr std::size_t tile_rows = 16;
inline constexpr std::size_t tile_row_bytes = 64;

/// Shapes of all registers, in the layout that the processor reads.
struct tile_shapes {
  std::uint8_t palette = 1;
  std::uint8_t first_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};

  void set(std::size_t tile, std::size_t of_rows, std::size_t bytes) {
    rows[tile] = static_cast<std::uint8_t>(of_rows);
    row_bytes[tile] = static_cast<std::uint16_t>(bytes);
  }
};
static_assert(sizeof(tile_shapes) == 64);

/// Gives all registers these shapes and sets them to zero.
ECQ_AMX inline void configure(const tile_shapes& shapes) { __asm__ volatile("ldtilecfg %0" : : "m"(shapes)); }

/// Releases the shapes and contents of the registers, which an operating system would otherwise have to keep.
ECQ_AMX inline void release() { __asm__ volatile("tilerelease"); }

template <std::size_t Tile>
ECQ_AMX [[gnu::always_inline]] inline void set_zero() {
  __asm__ volatile("{tilezero %%tmm%c0|tilezero tmm%c0}" : : "i"(Tile));
}

/// Loads a register from rows that are `stride` bytes apart.
template <std::size_t Tile>
ECQ_AMX [[gnu::always_inline]] inline void load(const void* rows, std::size_t stride) {
  __asm__ volatile("{tileloadd (%0,%1,1), %%tmm%c2|tileloadd tmm%c2, [%0+%1*1]}"
                   :
                   : "r"(rows), "r"(stride), "i"(Tile)
                   : "memory");
}

/// Stores a register to rows that are `stride` bytes apart.
template <std::size_t Tile>
ECQ_AMX [[gnu::always_inline]] inline void store(void* rows, std::size_t stride) {
  __asm__ volatile("{tilestored %%tmm%c2, (%0,%1,1)|tilestored [%0+%1*1], tmm%c2}"
                   :
                   : "r"(rows), "r"(stride), "i"(Tile)
                   : "memory");
}

/// Products of BF16. add() adds the products of all pairs in a row of `Weights` and a column of `Activations` to their
/// FP32 sum. Subnormal numbers count as 0.
struct half_products {
  using sum = float;

  template <std::size_t Sums, std::size_t Weights, std::size_t Activations>
  ECQ_AMX [[gnu::always_inline]] static void add() {
    __asm__ volatile("{tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0|tdpbf16ps tmm%c0, tmm%c1, tmm%c2}"
                     :
                     : "i"(Sums), "i"(Weights), "i"(Activations));
  }
};

/// Products of bytes, added four at a time to sums of 32 bits. Bytes of `Weights` are signed or not; bytes of
/// `Activations` are signed.
template <bool Signed>
struct byte_products {
  using sum = std::int32_t;

  template <std::size_t Sums, std::size_t Weights, std::size_t Activations>
  ECQ_AMX [[gnu::always_inline]] static void add() {
    if constexpr (Signed) {
      __asm__ volatile("{tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0|tdpbssd tmm%c0, tmm%c1, tmm%c2}"
                       :
                       : "i"(Sums), "i"(Weights), "i"(Activations));
    } else {
      __asm__ volatile("{tdpbusd %%tmm%c2, %%tmm%c1, %%tmm%c0|tdpbusd tmm%c0, tmm%c1, tmm%c2}"
                       :
                       : "i"(Sums), "i"(Weights), "i"(Activations));
    }
  }
};

}  // namespace ecq::detail::amx

#endif
