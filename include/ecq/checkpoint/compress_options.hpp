#pragma once
/// \file
/// What compress_checkpoint is asked for, and what it answers.

#include <cstdint>
#include <optional>

#include "ecq/checkpoint/report.hpp"
#include "ecq/checkpoint/selection.hpp"
#include "ecq/entropy/entropy_coder.hpp"
#include "ecq/format/dtype.hpp"

namespace ecq {

/// How a checkpoint is compressed: EntQuant per output channel, one stream and one frequency table a block, or as
/// `lossless` or `entrollm` says. Exactly one of these two, bits_per_weight and lambda is set.
struct compress_options {
  dtype format = dtype::fp8_e4m3;  ///< fp8_e4m3, fp8_e5m2 or int8; with entrollm uint8 or uint4
  /// Rate of the compressed tensors with everything counted (streams, scales), 1.3 ... 6.5 bits a weight; met within
  /// rate_correction::tolerance, or the format's AbsMax where even that has fewer.
  std::optional<double> bits_per_weight{};
  std::optional<double> lambda{};  ///< at least 0; 0 is AbsMax
  /// Every bit comes back: exponents are coded, signs and mantissas kept. Embeddings and output heads are compressed as
  /// well, NaN and infinity are welcome, and each number format of a block has a stream of its own.
  bool lossless = false;
  bool pairs = false;  ///< with lossless: exponents are coded two at a time (stream_options::pairs)
  /// EntroLLM (quantize/entrollm.hpp): each tensor on a grid of its own and in a stream of its own, one code for all,
  /// which every stream carries. The model is read twice. The paper's coder is huffman; no coder: the one that is
  /// expected to be smallest over the model.
  bool entrollm = false;
  bool bits_per_tensor = false;                    ///< every tensor meets bits_per_weight by a lambda of its own
  std::optional<coder_id> coder = coder_id::rans;  ///< nothing: in each block whichever makes the smallest stream
  tensor_selection selection{};
  unsigned chunk_bits = 0;       ///< log2 of the symbols a chunk; 0: by the length of the stream
  bool keep_non_finite = false;  ///< tensors with NaN or infinity stay as they are instead of being an error
};

/// What compress_checkpoint made.
struct compress_report : checkpoint_report {
  std::uint64_t input_bytes = 0;
  double lambda = 0;         ///< with bits_per_tensor: the largest one
  double joint_entropy = 0;  ///< with entrollm: of all codes together, which is what their one code can reach
};

}  // namespace ecq
