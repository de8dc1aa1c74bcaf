#pragma once
/// \file
/// The options and the report of compress_checkpoint.

#include <cstdint>
#include <optional>

#include "ecq/checkpoint/report.hpp"
#include "ecq/checkpoint/selection.hpp"
#include "ecq/entropy/entropy_coder.hpp"
#include "ecq/methods/any_method.hpp"

namespace ecq {

/// How a checkpoint is compressed: by which method, and into what streams.
struct compress_options {
  /// EntQuant: each block has one stream and one frequency table. EntroLLM: each tensor has its own grid and its own
  /// stream; all share one code, which every stream carries, and the model is read twice. Lossless: embeddings and
  /// output heads are compressed too, NaN and infinity are allowed, and each number format of a block has its own
  /// stream.
  any_method method{};
  /// The coder of the streams. Nothing: for each block, whichever makes the smallest stream; with one code for all,
  /// whichever does so for the whole model. EntroLLM's paper uses huffman.
  std::optional<coder_id> coder = coder_id::rans;
  tensor_selection selection{};
  unsigned chunk_bits = 0;       ///< log2 of the symbols per chunk; 0: by the length of the stream
  bool keep_non_finite = false;  ///< tensors with NaN or infinity stay as they are instead of being an error
};

/// What compress_checkpoint made.
struct compress_report : checkpoint_report {
  std::uint64_t input_bytes = 0;
  double lambda = 0;         ///< EntQuant's lambda; the largest if every tensor has its own
  double joint_entropy = 0;  ///< entropy of all codes together, which one code for all of them can reach
};

}  // namespace ecq
