#pragma once
/// \file
/// What the exponents of a checkpoint's weights cost, block by block.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "ecq/analysis/exponent_law.hpp"
#include "ecq/base/backend.hpp"
#include "ecq/base/config.hpp"
#include "ecq/base/result.hpp"
#include "ecq/checkpoint/progress.hpp"
#include "ecq/checkpoint/selection.hpp"

namespace ecq {

/// The exponents of some weights of one format. What is a number of bits is so a weight, and 0 without weights.
struct exponent_statistics {
  std::uint64_t weights = 0;
  std::uint64_t zeros = 0;
  std::uint64_t non_finite = 0;
  double entropy = 0;            ///< of the exponent fields: what coding them takes at least
  double lossless_bits = 0;      ///< the same with sign and mantissa
  double scaled_entropy = 0;     ///< of the exponents in FP8 E4M3, each row scaled to its largest weight
  double rotated_entropy = 0;    ///< likewise after a Hadamard transform in blocks of hadamard_block(columns)
  double stable_alpha = 0;       ///< fit_stable_alpha; NaN where there is no exponent, as is the next
  two_sided_geometric fitted{};  ///< fit_two_sided_geometric
};

/// A tensor of two or more dimensions, or a block of them.
struct exponent_row {
  std::string name;
  std::string block;   ///< the block that the tensor belongs to; of a block's own row its name
  std::string format;  ///< of the weights; "mixed" for a block of several formats
  exponent_statistics exponents;
};

/// Longer rows are taken for several.
inline constexpr std::size_t longest_row_bytes = std::size_t{1} << 25;

/// Tensors in the order of their blocks, and the blocks, a row each.
struct exponent_report {
  bool container = false;
  std::vector<exponent_row> tensors;
  std::vector<exponent_row> blocks;
  exponent_row total;
};

/// Counts the exponents of all weights (tensors of a floating-point format and two or more dimensions, embeddings
/// included) of a plain checkpoint, or of all compressed ones of a container: of lossless matrices the weights', of
/// others those of their FP8 codes; codes that are integers have none and are left out. `block_pattern` as in
/// tensor_selection. Memory does not grow with the tensors. Errors are those of opening and decoding, naming file,
/// block and matrix.
result<exponent_report> inspect_exponents(const cpu& backend, const std::filesystem::path& in,
                                          const progress_callback& report_progress = {},
                                          const std::string& block_pattern = tensor_selection{}.block_pattern);

}  // namespace ecq

#if ECQ_HEADER_ONLY
#include "ecq/checkpoint/inspect_exponents-inl.hpp"
#endif
