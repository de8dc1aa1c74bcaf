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

/// Thousandths of a bit per code by which narrow pairs may exceed single codes if a stream is made for processors.
/// Codes of Gaussian weights take up to 0.06 bit more, those of heavier tails up to 0.1.
inline constexpr std::uint64_t pair_allowance = 100;

/// The largest number of raw bits of a code in narrow pairs.
inline constexpr unsigned max_narrow_raw_bits = 7;

/// How a stream is cut into chunks and classes.
struct stream_options {
  unsigned chunk_bits = 0;  ///< log2 of the symbols per chunk, 10..18; 0: default_chunk_bits
  /// The class of each chunk, or empty for one class. Chunks of one class share a frequency table; rows of different
  /// statistics code better in separate classes. There may be at most max_encoder_tables classes, with any numbers.
  std::span<const std::uint16_t> class_of_chunk = {};
  /// The counts for which the one table is made, instead of the counts of the codes at hand. Streams with the same
  /// counts have the same table, byte for byte: one code for a whole model. A code (or exponent) without a count is an
  /// error. Not with class_of_chunk. With a trellis, they count indices.
  const histogram* shared_counts = nullptr;
  /// With smallest_of: thousandths of its size by which the stream of a coder has to be smaller than the stream of a
  /// coder named before it to be preferred. 0: any byte counts.
  unsigned margin = 0;
  /// Whether symbols are coded in pairs, two nibbles a byte (nibble_list.hpp), so that decoders take half the steps.
  /// This suits exponents, and codes of few different values. Pairs make Huffman streams smaller, and others a little
  /// larger because of the wider table. With AVX-512, rANS of up to 64 symbols decodes faster singly; anything else
  /// decodes faster in pairs.
  bool pairs = false;
  /// Whether codes of one byte are coded in narrow pairs (narrow_pairs.hpp): two codes a symbol, at most 64 different
  /// symbols, and low bits raw. Processors take half the steps, and tables stay in registers; devices are slower with
  /// them. Also how long chunks are if chunk_bits is 0, and whether symbols may have raw bits (most_raw_bits).
  /// Exponents are not paired by it.
  stream_goal goal = stream_goal::size;
  /// Narrow pairs with this number of raw bits per code, 0..7, whatever they cost and whatever the goal. Only codes of
  /// one byte; not with `pairs`.
  std::optional<unsigned> narrow_pairs = {};
  /// With narrow_pairs: at most 32 different pairs, which kernels of AVX2 decode faster; codes of rarer ones
  /// are escaped, whatever that costs. Not with shared_counts.
  bool few_pairs = false;
  /// The trellis on which codes of one byte lie: their indices are coded instead. Codes that do not lie on it are an
  /// error. Chunks have at least 2^period_bits codes. Encoding then takes a byte a code more.
  std::optional<ecq::trellis> trellis = {};
};

/// How carefully a stream is read.
struct decode_options {
  bool verify_checksums = true;  ///< verify each chunk before decoding it; otherwise corrupt codes may pass as codes
};

}  // namespace ecq
