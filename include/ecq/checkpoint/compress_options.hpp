#pragma once
/// \file
/// The options and the report of compress_checkpoint.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "ecq/checkpoint/exact_choice.hpp"
#include "ecq/checkpoint/model_parts.hpp"
#include "ecq/checkpoint/report.hpp"
#include "ecq/checkpoint/selection.hpp"
#include "ecq/checkpoint/sensitivities.hpp"
#include "ecq/entropy/entropy_coder.hpp"
#include "ecq/methods/any_method.hpp"
#include "ecq/stream/stream_options.hpp"

namespace ecq {

/// Smallest number of bytes for which lossless methods make a stream. Fewer are not worth one, whose header and table
/// take about as much.
inline constexpr std::uint64_t least_coded_bytes = 4096;

/// Options for the compression of a checkpoint: its methods, the choice of tensors, and the streams.
struct compress_options {
  /// Method of compression. EntQuant: each block has one stream and one frequency table. EntroLLM: each tensor has its
  /// own grid and its own stream; all streams share one code, which each of them carries, and the model is read twice.
  /// Lossless: embeddings and output heads are compressed too, NaN and infinity are allowed, and each number format of
  /// a block has its own stream. Each tensor that holds no weights has a stream, too, in which its bytes are coded.
  /// Tensors whose stream would have fewer than least_coded_bytes before coding stay as they are. If `coder` leaves the
  /// choice open, FP8 weights are coded by bytes, too, if that makes them smaller; they then are bytes, which no reader
  /// decodes to another type.
  ///
  /// Methods with loss first multiply weights that are already quantised (quantized_tensors) by their scales; these
  /// scales are not part of the compressed checkpoint. Other tensors that belong to quantised weights stay as they are.
  any_method method{};
  /// Name patterns of selected tensors that `fallback` compresses instead, in streams of their own: layers that do not
  /// bear few bits. A target of bits applies to all other tensors.
  std::vector<std::string> fallback_names{};
  any_method fallback = entquant{.lambda = 0.0};  ///< 8 bits per weight before coding, by AbsMax
  /// Coder of the streams. Without a value, each block gets the coder that makes the smallest stream or, with one code
  /// for all streams, the whole model gets the one that makes its streams smallest. EntroLLM's paper uses huffman.
  std::optional<coder_id> coder = coder_id::rans;
  tensor_selection selection{};
  exact_choice exact{};
  /// Sensitivities by which methods with a lambda divide bits among tensors; empty: bits are not divided. Every tensor
  /// that the method compresses needs one, and the model must contain every tensor named here.
  sensitivity_map sensitivities{};
  unsigned chunk_bits = 0;  ///< log2 of the symbols per chunk; 0: chosen by the length and goal of the stream
  /// Goal of the streams. With another goal than size and without a given coder, a coder other than rANS is chosen only
  /// if it saves 2 percent of a stream.
  stream_goal goal = stream_goal::size;
  /// Part of a folder's files that compress_folder writes; all parts have about the same number of bytes. The index and
  /// all other files belong to part 0. All parts need the same lambda, so there can be no target of bits unless they
  /// agree; find_lambda_of() finds the lambda for a target.
  folder_part part{};
  part_agreement agree{};  ///< agreement of parts that are compressed at the same time; empty if there is none
  /// Largest size in bytes of a file of a folder, counting one byte per weight before coding (lossless: the tensors
  /// themselves). Only a file with a single tensor may be larger. 0: the result has the same files as the model.
  std::uint64_t max_file_bytes = 0;
  bool keep_non_finite = false;  ///< tensors with NaN or infinity stay as they are instead of being an error
  /// Files from which these options were read, besides the model's. No output replaces them.
  std::vector<std::filesystem::path> other_inputs = {};
};

/// Result of compress_checkpoint().
struct compress_report : checkpoint_report {
  std::size_t unpacked = 0;      ///< tensors that were already quantised and no longer need their scales
  std::size_t by_fallback = 0;   ///< tensors that the fallback compressed
  std::uint64_t exact = 0;       ///< weights that were kept exact
  std::size_t of_quantized = 0;  ///< among the tensors passed through, those that belong to quantised weights
  /// Among the tensors passed through, quantised weights that have scales. If other weights were unpacked, config.json
  /// lacks data that readers of these need.
  std::size_t left_quantized = 0;
  /// Among the tensors passed through, those that were not compressed because of NaN or infinity.
  std::size_t non_finite = 0;
  std::uint64_t input_bytes = 0;
  double lambda = 0;                     ///< EntQuant's lambda; the largest if every tensor has its own
  double joint_entropy = 0;              ///< entropy of all codes together, which one code for all of them can reach
  std::vector<std::string> unmatched{};  ///< patterns of the options that match no tensor's name
  /// Patterns that ask for compression, or for the fallback, but whose tensors all stay as they are.
  std::vector<std::string> without_effect{};
};

}  // namespace ecq
