#pragma once
/// \file
/// What compress_checkpoint is asked for, and what it answers.

#include <cstdint>
#include <optional>

#include "ecq/checkpoint/report.hpp"
#include "ecq/checkpoint/selection.hpp"
#include "ecq/entropy/entropy_coder.hpp"
#include "ecq/methods/any_method.hpp"

namespace ecq {

/// How a checkpoint is compressed: by which method, and into what streams.
struct compress_options {
  /// EntQuant: one stream and one frequency table a block. EntroLLM: each tensor on a grid of its own and in a stream
  /// of its own, one code for all, which every stream carries; the model is read twice. Lossless: embeddings and output
  /// heads are compressed as well, NaN and infinity are welcome, and each number format of a block has a stream.
  any_method method{};
  /// Nothing: in each block whichever makes the smallest stream; with one code for all, in the whole model. EntroLLM's
  /// paper has huffman.
  std::optional<coder_id> coder = coder_id::rans;
  tensor_selection selection{};
  unsigned chunk_bits = 0;       ///< log2 of the symbols a chunk; 0: by the length of the stream
  bool keep_non_finite = false;  ///< tensors with NaN or infinity stay as they are instead of being an error
};

/// What compress_checkpoint made.
struct compress_report : checkpoint_report {
  std::uint64_t input_bytes = 0;
  double lambda = 0;         ///< EntQuant's; the largest where every tensor has its own
  double joint_entropy = 0;  ///< of all codes together, which is what one code for all of them can reach
};

}  // namespace ecq
