#pragma once
/// \file
/// Lengths of prefix codes: without a limit (Huffman 1952), the best within a limit (package-merge: Larmore and
/// Hirschberg 1990), and within a limit by the method of DFloat11 and ECF8. Integer arithmetic gives the same lengths
/// on every machine.

#include <array>
#include <cstdint>

#include "ecq/base/config.hpp"
#include "ecq/entropy/histogram.hpp"

namespace ecq {

/// Length in bits of each symbol's code word; 0 for symbols that do not occur, and for a symbol that occurs alone.
using code_lengths = std::array<std::uint8_t, 256>;

/// Returns the lengths of a Huffman code for `codes`, up to 255 bits. Of all such codes, it is one whose longest code
/// word is shortest.
code_lengths huffman_code_lengths(const histogram& codes);

/// Returns the lengths, none above `limit`, with the least sum of count * length. Precondition: 2^limit is at least the
/// number of symbols.
code_lengths limited_code_lengths(const histogram& codes, unsigned limit);

/// Returns lengths, none above `limit` (at least 8), by the method of DFloat11 and ECF8: it sets the counts of the k
/// rarest symbols to 1, for k = 2, 3, ..., until the Huffman code of the changed counts keeps to the limit.
code_lengths adjusted_code_lengths(histogram codes, unsigned limit);

/// Returns the number of bits that `codes` take when coded with `lengths`.
std::uint64_t coded_bits(const histogram& codes, const code_lengths& lengths);

}  // namespace ecq

#if ECQ_HEADER_ONLY
#include "ecq/entropy/huffman/code_lengths-inl.hpp"
#endif
