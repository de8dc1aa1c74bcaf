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

/// Without loss, fewer bytes are not worth a stream: its header and table take about as much.
inline constexpr std::uint64_t least_coded_bytes = 4096;

/// How a checkpoint is compressed: by which method, and into what streams.
struct compress_options {
  /// EntQuant: each block has one stream and one frequency table. EntroLLM: each tensor has its own grid and its own
  /// stream; all share one code, which every stream carries, and the model is read twice. Lossless: embeddings and
  /// output heads are compressed too, NaN and infinity are allowed, and each number format of a block has its own
  /// stream; so has each other tensor, whose bytes are coded. What would be a stream of less than least_coded_bytes
  /// before coding stays as it is. Where `coder` leaves the choice, FP8 weights are coded by bytes, too, if that makes
  /// them smaller; they then are bytes, which no reader decodes to another type.
  ///
  /// Weights that are quantised already (quantized_tensors) are multiplied by their scales before anything else is done
  /// with them; the scales then are not part of the compressed checkpoint. Tensors that belong to quantised weights
  /// stay as they are.
  any_method method{};
  /// Patterns of the names of selected tensors that `fallback` compresses instead, in streams of their own: layers that
  /// do not bear few bits. A target of bits is met by all others.
  std::vector<std::string> fallback_names{};
  any_method fallback = entquant{.lambda = 0.0};  ///< 8 bits per weight before coding, by AbsMax
  /// The coder of the streams. Nothing: for each block, whichever makes the smallest stream; with one code for all,
  /// whichever does so for the whole model. EntroLLM's paper uses huffman.
  std::optional<coder_id> coder = coder_id::rans;
  tensor_selection selection{};
  exact_choice exact{};
  /// Other than empty: how methods with a lambda divide bits among tensors. There must be one for every tensor that the
  /// method compresses, and the model must have every tensor that is named.
  sensitivity_map sensitivities{};
  unsigned chunk_bits = 0;  ///< log2 of the symbols per chunk; 0: by the length of the stream and its goal
  /// What streams are made for. With another goal than size and without a coder, another coder than rANS has
  /// to save 2 percent of a stream.
  stream_goal goal = stream_goal::size;
  /// The files of a folder that compress_folder writes: parts have about as many bytes each. The index and all other
  /// files belong to part 0. All parts need the same lambda, so there can be no target of bits unless they agree:
  /// find_lambda_of finds the lambda of a target.
  folder_part part{};
  part_agreement agree{};  ///< how parts that are compressed at the same time agree; nothing if they do not
  /// The most that a file of a folder may hold, in bytes, counting a byte a weight before coding (lossless: the tensors
  /// themselves); only a tensor that is larger has a file with more. 0: the files of the model stay as they are.
  std::uint64_t max_file_bytes = 0;
  bool keep_non_finite = false;  ///< tensors with NaN or infinity stay as they are instead of being an error
  /// Files that these options were read from, besides the model's: no output replaces them.
  std::vector<std::filesystem::path> other_inputs = {};
};

/// What compress_checkpoint made.
struct compress_report : checkpoint_report {
  std::size_t unpacked = 0;      ///< tensors that were quantised already, and whose scales are no longer needed
  std::size_t by_fallback = 0;   ///< tensors that the fallback has compressed
  std::uint64_t exact = 0;       ///< weights that were kept exact
  std::size_t of_quantized = 0;  ///< among the tensors passed through, those that belong to quantised weights
  /// Among the tensors passed through, quantised weights that have scales. If others were unpacked, config.json lacks
  /// what readers of these need.
  std::size_t left_quantized = 0;
  /// Among the tensors passed through, those that NaN or infinity kept from being compressed.
  std::size_t non_finite = 0;
  std::uint64_t input_bytes = 0;
  double lambda = 0;                     ///< EntQuant's lambda; the largest if every tensor has its own
  double joint_entropy = 0;              ///< entropy of all codes together, which one code for all of them can reach
  std::vector<std::string> unmatched{};  ///< patterns of the options that match the name of no tensor
  /// Patterns that ask for compression, or for that of the fallback, of tensors that all stay as they are.
  std::vector<std::string> without_effect{};
};

}  // namespace ecq
