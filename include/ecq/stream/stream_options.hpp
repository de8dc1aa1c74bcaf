#pragma once
/// \file
/// How streams are written and read, besides their coder.

#include <cstdint>
#include <span>

#include "ecq/entropy/histogram.hpp"

namespace ecq {

/// How a stream is cut into chunks and classes.
struct stream_options {
  unsigned chunk_bits = 0;  ///< log2 of the symbols a chunk, 10..18; 0: default_chunk_bits
  /// Class of each chunk, or empty for one class. Chunks of one class share a frequency table: rows of different
  /// statistics code better apart. At most max_encoder_tables different classes, numbered as you like.
  std::span<const std::uint16_t> class_of_chunk = {};
  /// Counts that the one table is made for, instead of those of the codes at hand: streams with the same counts have
  /// the same table, byte for byte, as one code for a whole model has it. A code (an exponent) that it does not count
  /// is an error. Not with class_of_chunk.
  const histogram* shared_counts = nullptr;
  /// With smallest_of: thousandths of its size by which the stream of a coder has to be smaller than that of one named
  /// before it to be preferred. 0: any byte counts.
  unsigned margin = 0;
  /// Symbols are coded in pairs, two nibbles a byte (nibble_list.hpp): decoders take half the steps. For exponents, and
  /// for codes of few different values. Huffman codes get smaller by it, others a little larger for the wider table;
  /// rANS of up to 64 single symbols decodes faster with AVX-512, anything else in pairs.
  bool pairs = false;
};

/// How carefully a stream is read.
struct decode_options {
  bool verify_checksums = true;  ///< of each chunk before it is decoded; without, corrupt codes may pass as codes
};

}  // namespace ecq
