#pragma once
/// \file
/// Cost of the exponents of a checkpoint's weights, block by block.

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

/// Statistics of the exponents of some weights of one format. Numbers of bits are per weight, and 0 without weights.
struct exponent_statistics {
  std::uint64_t weights = 0;
  std::uint64_t zeros = 0;
  std::uint64_t non_finite = 0;
  double entropy = 0;            ///< entropy of the exponent fields: the least that coding them takes
  double lossless_bits = 0;      ///< entropy, plus the bits of sign and mantissa
  double scaled_entropy = 0;     ///< entropy of the exponents in FP8 E4M3, each row scaled to its largest weight
  double rotated_entropy = 0;    ///< scaled_entropy after a Hadamard transform in blocks of hadamard_block(columns)
  double stable_alpha = 0;       ///< fit_stable_alpha; NaN if there is no exponent, as is `fitted`
  two_sided_geometric fitted{};  ///< fit_two_sided_geometric
};

/// Statistics of a tensor of two or more dimensions, or of a block of such tensors.
struct exponent_row {
  std::string name;
  std::string block;   ///< the block that the tensor belongs to; in a block's own row, its name
  std::string format;  ///< number format of the weights; "mixed" for a block of several formats
  exponent_statistics exponents;
};

/// Largest number of bytes of a row; longer rows count as several.
inline constexpr std::size_t longest_row_bytes = std::size_t{1} << 25;

/// Result of inspect_exponents(): tensors in the order of their blocks, and the blocks, one row each.
struct exponent_report {
  bool container = false;
  std::vector<exponent_row> tensors;
  std::vector<exponent_row> blocks;
  exponent_row total;
};

/// Counts the exponents of all weights of a plain checkpoint (tensors of a floating-point format with two or more
/// dimensions, embeddings included), or of all compressed weights of a container: for lossless matrices the exponents
/// of the weights, for others those of their FP8 codes. Integer codes have no exponents and are left out.
/// `block_pattern` is as in tensor_selection. Memory does not grow with the tensors. Errors are those of opening and
/// decoding, and name file, block and matrix.
result<exponent_report> inspect_exponents(const cpu& backend, const std::filesystem::path& in,
                                          const progress_callback& report_progress = {},
                                          const std::string& block_pattern = tensor_selection{}.block_pattern);

}  // namespace ecq

#if ECQ_HEADER_ONLY
#include "ecq/checkpoint/inspect_exponents-inl.hpp"
#endif
