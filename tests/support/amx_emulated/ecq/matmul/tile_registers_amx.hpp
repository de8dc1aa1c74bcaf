#pragma once
/// \file
/// Replaces the library's header by an emulation of the registers of AMX and of the operations on them, as Intel's
/// manual defines them.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "ecq/base/config.hpp"

#if ECQ_X86

namespace ecq::detail::amx {

inline constexpr std::size_t tile_rows = 16;
inline constexpr std::size_t tile_row_bytes = 64;

struct tile_shapes {
  void set(std::size_t tile, std::size_t of_rows, std::size_t bytes) {
    rows[tile] = of_rows;
    row_bytes[tile] = bytes;
  }

  std::size_t rows[8] = {};
  std::size_t row_bytes[8] = {};
};

/// Registers of a thread. Use that would raise an exception in the processor ends the program.
struct emulated_registers {
  static emulated_registers& of_thread() {
    thread_local emulated_registers own;
    return own;
  }

  static void expect(bool sound) {
    if (!sound) __builtin_trap();
  }

  template <class Word>
  Word word(std::size_t tile, std::size_t row, std::size_t at) const {
    Word found;
    std::memcpy(&found, &bytes[tile][row][at * sizeof(Word)], sizeof found);
    return found;
  }

  /// Adds to the sums: replaces each sum by add(sum, word of a, word of b), for all words of its row of `a` and of its
  /// column of `b` in turn.
  template <class Sum, class Add>
  void multiply(std::size_t sums, std::size_t a, std::size_t b, const Add& add) {
    const std::size_t words = shapes.row_bytes[a] / 4;
    const std::size_t columns = shapes.row_bytes[sums] / 4;
    expect(shapes.rows[sums] != 0 && shapes.rows[sums] == shapes.rows[a]);
    expect(shapes.row_bytes[sums] == shapes.row_bytes[b] && shapes.rows[b] == words);
    for (std::size_t row = 0; row < shapes.rows[sums]; ++row) {
      for (std::size_t column = 0; column < columns; ++column) {
        Sum sum = word<Sum>(sums, row, column);
        for (std::size_t k = 0; k < words; ++k) {
          sum = add(sum, word<std::uint32_t>(a, row, k), word<std::uint32_t>(b, k, column));
        }
        std::memcpy(&bytes[sums][row][column * sizeof sum], &sum, sizeof sum);
      }
    }
  }

  tile_shapes shapes;
  std::byte bytes[8][tile_rows][tile_row_bytes] = {};
};

inline void configure(const tile_shapes& shapes) {
  auto& registers = emulated_registers::of_thread();
  registers = {};
  registers.shapes = shapes;
  for (std::size_t tile = 0; tile < 8; ++tile) {
    const std::size_t rows = shapes.rows[tile], bytes = shapes.row_bytes[tile];
    emulated_registers::expect(rows <= tile_rows && bytes <= tile_row_bytes && bytes % 4 == 0 &&
                               (bytes == 0) == (rows == 0));
  }
}

inline void release() { emulated_registers::of_thread() = {}; }

template <std::size_t Tile>
void set_zero() {
  auto& registers = emulated_registers::of_thread();
  emulated_registers::expect(registers.shapes.rows[Tile] != 0);
  std::memset(registers.bytes[Tile], 0, sizeof registers.bytes[Tile]);
}

template <std::size_t Tile>
void load(const void* rows, std::size_t stride) {
  set_zero<Tile>();
  auto& registers = emulated_registers::of_thread();
  for (std::size_t row = 0; row < registers.shapes.rows[Tile]; ++row) {
    const std::byte* const from = static_cast<const std::byte*>(rows) + row * stride;
    std::memcpy(registers.bytes[Tile][row], from, registers.shapes.row_bytes[Tile]);
  }
}

template <std::size_t Tile>
void store(void* rows, std::size_t stride) {
  const auto& registers = emulated_registers::of_thread();
  emulated_registers::expect(registers.shapes.rows[Tile] != 0);
  for (std::size_t row = 0; row < registers.shapes.rows[Tile]; ++row) {
    std::byte* const to = static_cast<std::byte*>(rows) + row * stride;
    std::memcpy(to, registers.bytes[Tile][row], registers.shapes.row_bytes[Tile]);
  }
}

struct half_products {
  using sum = float;

  /// Returns the lower or the upper number of a word; subnormal numbers count as 0.
  static float half_of(std::uint32_t word, bool upper) {
    const std::uint32_t bits = upper ? word & 0xFFFF0000U : word << 16;
    return std::bit_cast<float>((bits & 0x7F800000U) == 0 ? bits & 0x80000000U : bits);
  }

  template <std::size_t Sums, std::size_t Weights, std::size_t Activations>
  static void add() {
    emulated_registers::of_thread().multiply<float>(
        Sums, Weights, Activations, [](float sum, std::uint32_t a, std::uint32_t b) {
          return sum + half_of(a, false) * half_of(b, false) + half_of(a, true) * half_of(b, true);
        });
  }
};

template <bool Signed>
struct byte_products {
  using sum = std::int32_t;

  template <std::size_t Sums, std::size_t Weights, std::size_t Activations>
  static void add() {
    const auto add_four = [](std::int32_t sum, std::uint32_t a, std::uint32_t b) {
      for (unsigned shift = 0; shift < 32; shift += 8) {
        const auto first = static_cast<std::uint8_t>(a >> shift);
        const auto second = static_cast<std::int8_t>(static_cast<std::uint8_t>(b >> shift));
        sum += (Signed ? int{static_cast<std::int8_t>(first)} : int{first}) * int{second};
      }
      return sum;
    };
    emulated_registers::of_thread().multiply<std::int32_t>(Sums, Weights, Activations, add_four);
  }
};

}  // namespace ecq::detail::amx

#endif
