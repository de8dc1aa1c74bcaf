#pragma once
/// \file
/// Symbol maps, which lie between elements and the entropy coder: they say which part of an element is entropy coded
/// and which is stored as raw bits. A map has two steps. An element_split finds the symbol of at most 8 bits in an
/// element of any width; a split_map, which the coder chooses, leaves low bits of that symbol raw as well.
/// Alternatively, symbols are coded in pairs (nibble_list.hpp).

#include <bit>
#include <concepts>
#include <cstdint>
#include <optional>

#include "ecq/base/config.hpp"
#include "ecq/format/dtype.hpp"

namespace ecq {

/// Registered ids of symbol maps (docs/format.md).
enum class symbol_map_id : std::uint16_t { split = 0, exponent = 1, pairs = 2 };

/// A map that leaves the low `bits` (0..8) of a code raw and codes the others: join(coded(c), raw(c)) == c for every c.
/// 0 bits give the identity map; 8 bits code nothing at all.
struct split_map {
  unsigned bits = 0;
  unsigned symbol_bits = 8;  ///< width of the code that is split, at least `bits`

  /// Returns the size of the alphabet. Coded symbols are below it.
  constexpr unsigned alphabet() const noexcept { return 1U << (symbol_bits - bits); }
  constexpr std::uint8_t coded(std::uint8_t code) const noexcept { return static_cast<std::uint8_t>(code >> bits); }
  constexpr std::uint8_t raw(std::uint8_t code) const noexcept {
    return static_cast<std::uint8_t>(code & ((1U << bits) - 1U));
  }
  constexpr std::uint8_t join(std::uint8_t coded, std::uint8_t raw) const noexcept {
    return static_cast<std::uint8_t>((coded << bits) | raw);
  }

  bool operator==(const split_map&) const = default;
};

/// Way to find the symbol in elements of 8, 16 or 32 bits. `arrange` is a bijection that brings the `symbol_bits`
/// (1..8) bits of the symbol to the top, and `restore` is its inverse. The bits below are always raw.
template <class Split>
concept element_split = std::unsigned_integral<typename Split::element> && requires(typename Split::element value) {
  { Split::id } -> std::convertible_to<symbol_map_id>;
  { Split::symbol_bits } -> std::convertible_to<unsigned>;
  { Split::arrange(value) } -> std::same_as<typename Split::element>;
  { Split::restore(value) } -> std::same_as<typename Split::element>;
};

/// The split for codes of one byte: the symbol is the code.
struct byte_split {
  using element = std::uint8_t;
  static constexpr symbol_map_id id = symbol_map_id::split;
  static constexpr unsigned symbol_bits = 8;

  static constexpr element arrange(element code) noexcept { return code; }
  static constexpr element restore(element code) noexcept { return code; }
};

/// Number of bits of the exponent field of a floating-point format.
template <class Format>
inline constexpr unsigned exponent_bits = static_cast<unsigned>(Format::layout::exponent_bits);
template <>
inline constexpr unsigned exponent_bits<fp32> = 8;

/// The split for lossless weights of `Format`. The symbol is the exponent field; the mantissa and, as the lowest bit,
/// the sign are raw. The exponents of trained weights have 2 to 3 bits of entropy; mantissa and sign cannot be
/// compressed (DFloat11, arXiv:2504.11651, section 2.1; ECF8, arXiv:2510.02676, section 3.1). Every bit pattern
/// survives the round trip, whatever it means.
template <class Format>
struct exponent_split {
  using element = typename Format::code_type;
  static constexpr symbol_map_id id = symbol_map_id::exponent;
  static constexpr unsigned symbol_bits = exponent_bits<Format>;

  static constexpr element arrange(element bits) noexcept { return std::rotl(bits, 1); }
  static constexpr element restore(element bits) noexcept { return std::rotr(bits, 1); }
};

/// Number of bits of an element.
template <element_split Split>
inline constexpr unsigned element_bits = 8 * sizeof(typename Split::element);

/// Number of bits of every element that no coder sees.
template <element_split Split>
inline constexpr unsigned low_bits = element_bits<Split> - Split::symbol_bits;

static_assert(element_split<byte_split> && low_bits<byte_split> == 0);
static_assert(element_split<exponent_split<fp32>> && low_bits<exponent_split<fp32>> == 24);
static_assert(element_split<exponent_split<fp16>> && low_bits<exponent_split<fp16>> == 11);
static_assert(element_split<exponent_split<bf16>> && low_bits<exponent_split<bf16>> == 8);
static_assert(element_split<exponent_split<fp8_e4m3>> && low_bits<exponent_split<fp8_e4m3>> == 4);
static_assert(element_split<exponent_split<fp8_e5m2>> && low_bits<exponent_split<fp8_e5m2>> == 3);

/// The map for pairs of nibbles: all 8 bits are coded.
inline constexpr split_map pair_map{};

/// Returns the number of bytes of `symbols` symbols in pairs. The byte of an odd last symbol has 0 as its upper nibble.
ECQ_HOST_DEVICE constexpr std::uint64_t pairs_of(std::uint64_t symbols) noexcept { return symbols / 2 + symbols % 2; }

/// Returns the map to use for symbols of `Split`, given the map that the coder would use for bytes of the same values.
template <element_split Split>
constexpr split_map narrowed(split_map map) noexcept {
  return {map.bits < Split::symbol_bits ? map.bits : Split::symbol_bits, Split::symbol_bits};
}

/// Calls `visitor.template operator()<Split>()` with the split for weights of `format`, which must be a floating-point
/// format, or, without a format, with the split for byte codes.
template <class Visitor>
constexpr decltype(auto) visit_split(std::optional<dtype> format, Visitor&& visitor) {
  if (!format) return visitor.template operator()<byte_split>();
  switch (*format) {
    case dtype::fp32: return visitor.template operator()<exponent_split<fp32>>();
    case dtype::fp16: return visitor.template operator()<exponent_split<fp16>>();
    case dtype::bf16: return visitor.template operator()<exponent_split<bf16>>();
    case dtype::fp8_e5m2: return visitor.template operator()<exponent_split<fp8_e5m2>>();
    default: break;
  }
  return visitor.template operator()<exponent_split<fp8_e4m3>>();
}

}  // namespace ecq
