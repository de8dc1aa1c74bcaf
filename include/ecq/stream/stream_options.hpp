#pragma once
/// \file
/// Options for writing and reading streams, besides the coder.

#include <cstdint>
#include <optional>
#include <span>

#include "ecq/entropy/histogram.hpp"
#include "ecq/entropy/trellis.hpp"
#include "ecq/stream/stream_goal.hpp"

namespace ecq {

/// Largest number of thousandths of a bit per code by which narrow pairs may exceed single codes in a stream for
/// processors. Codes of Gaussian weights take up to 0.06 bits more, those of weights with heavier tails up to 0.1.
inline constexpr std::uint64_t pair_allowance = 100;

/// Largest number of raw bits of a code in narrow pairs.
inline constexpr unsigned max_narrow_raw_bits = 7;

/// Options for encoding a stream: its chunks, tables and pairs.
struct stream_options {
  unsigned chunk_bits = 0;  ///< log2 of the symbols per chunk, 10..18; 0: default_chunk_bits
  /// Class of each chunk, or empty for one class. Chunks of one class share a frequency table; rows of different
  /// statistics code better in separate classes. There may be at most max_encoder_tables classes, with any numbers.
  std::span<const std::uint16_t> class_of_chunk = {};
  /// Counts from which the only table is made, instead of the counts of the codes at hand. Streams with the same counts
  /// have the same table, byte for byte, so that a whole model can have one code. It is an error if a code (or
  /// exponent) without a count occurs. Cannot be combined with class_of_chunk. With a trellis, the counts are those of
  /// indices.
  const histogram* shared_counts = nullptr;
  /// With smallest_of: a coder is preferred to those named before it only if its stream is smaller by this many
  /// thousandths of its size. 0: any byte counts.
  unsigned margin = 0;
  /// Whether symbols are coded in pairs, two nibbles a byte (nibble_list.hpp), so that decoders take half the steps.
  /// This suits exponents, and codes of few different values. Pairs make Huffman streams smaller, and others a little
  /// larger because of the wider table. With AVX-512, rANS of up to 64 symbols decodes faster singly; anything else
  /// decodes faster in pairs.
  bool pairs = false;
  /// Goal of the stream. It decides whether codes of one byte are coded in narrow pairs (narrow_pairs.hpp): two codes
  /// per symbol, at most 64 different symbols, and low bits raw. With narrow pairs, processors take half the steps, and
  /// their tables stay in registers; devices are slower. The goal also decides how long chunks are if chunk_bits is 0,
  /// and whether symbols may have raw bits (most_raw_bits). It does not pair exponents.
  stream_goal goal = stream_goal::size;
  /// If set, codes are coded in narrow pairs with this number of raw bits per code, 0..7, whatever they cost and
  /// whatever the goal. Only for codes of one byte; not with `pairs`.
  std::optional<unsigned> narrow_pairs = {};
  /// With narrow_pairs: whether to have at most 32 different pairs, which AVX2 kernels decode faster. Codes of rarer
  /// pairs are escaped, whatever that costs. Not with shared_counts.
  bool few_pairs = false;
  /// Trellis on which codes of one byte lie; their indices are coded instead. It is an error if a code does not lie on
  /// it. Chunks must have at least 2^period_bits codes. Encoding takes one more byte of memory per code.
  std::optional<ecq::trellis> trellis = {};
};

/// Options for decoding a stream.
struct decode_options {
  bool verify_checksums = true;  ///< verify each chunk before decoding it; if false, damage may go unnoticed
};

}  // namespace ecq
