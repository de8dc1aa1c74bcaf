#pragma once
/// \file
/// Reports on a checkpoint's tensors: rate, entropy, use of the alphabet.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "ecq/analysis/code_statistics.hpp"
#include "ecq/entropy/histogram.hpp"
#include "ecq/format/dtype.hpp"
#include "ecq/packed.hpp"
#include "ecq/quantize/trellis_indices.hpp"
#include "ecq/stream/stream_header.hpp"

namespace ecq {

/// Report on one tensor of a checkpoint.
struct tensor_report {
  std::string name;
  std::string block;  ///< the block whose stream holds it; empty for a tensor that is not compressed
  std::vector<std::uint64_t> shape;
  /// Number format of the codes ("fp8_e4m3"), "bytes", or the file's type if not compressed ("BF16").
  std::string format;
  std::string original;  ///< number format before compression; of bytes, the file's type ("I32")
  std::uint64_t weights = 0;
  double bits_per_weight = 0;  ///< its share of the block's stream, its scales, values and exact weights
  /// Entropy of its codes alone, or of their indices in a trellis, in bits per weight; 0 if not compressed, as are all
  /// members below.
  double entropy = 0;
  double sparsity = 0;          ///< share of codes that are zero, or nearest to it; 0 if lossless
  std::uint64_t exact = 0;      ///< weights that are kept exact
  unsigned unique_values = 0;   ///< number of different codes that occur; if lossless, of exponents or bytes
  double exponent_entropy = 0;  ///< for a lossless tensor of weights, `entropy` without the bits that are stored raw
};

/// Tensors of a checkpoint, and totals of the compressed ones.
struct checkpoint_report {
  std::vector<tensor_report> tensors;
  std::uint64_t weights = 0;  ///< number of compressed weights
  /// Size of streams (tables, states, indexes, checksums, padding), scales, tables of values, and exact weights;
  /// without the file's JSON header, which holds names, shapes and zero points.
  std::uint64_t compressed_bytes = 0;
  std::uint64_t file_bytes = 0;
  double bits_per_weight = 0;  ///< 8 * compressed_bytes / weights
  double entropy = 0;          ///< lowest rate that one table per block could reach: weighted mean over blocks
  std::size_t blocks = 0;
  std::size_t passed_through = 0;

  /// Adds the tensors of one block. `counts[i]` counts the codes of `block.matrices[i]`, or its exponents if it is
  /// lossless. The stream's bits are divided among matrices by the cost of their codes under the block's one
  /// distribution.
  void add_block(const std::string& name, packed_block_view block, std::span<const histogram> counts);
};

namespace detail {

/// Returns the code whose value is nearest to 0, in a tensor with one scale.
inline std::uint8_t zero_code(const packed_matrix& matrix) noexcept {
  if (matrix.format == dtype::table) {
    const auto zero = std::find(matrix.values.begin(), matrix.values.end(), 0.0F);
    return zero == matrix.values.end() ? std::uint8_t{0} : static_cast<std::uint8_t>(zero - matrix.values.begin());
  }
  if (matrix.zero == 0 || matrix.scales.size() != 1) return 0;
  return visit_code_format(matrix.format, [&]<class Format>() {
    return Format::encode(-matrix.zero / static_cast<float>(matrix.scales[0]));
  });
}

}  // namespace detail

inline void checkpoint_report::add_block(const std::string& name, packed_block_view block,
                                         std::span<const histogram> counts) {
  // A coder sees the indices of a trellis. Each index stands for two codes, and only one of the codes of index 0 is
  // zero.
  std::vector<histogram> indices;
  std::span<const histogram> coded = counts;
  if (const auto header = stream_header::read(block.stream); header && header->trellis) {
    std::transform(counts.begin(), counts.end(), std::back_inserter(indices), counts_of_indices);
    coded = indices;
  }
  histogram all;
  for (const histogram& part : coded) all += part;
  const auto symbols = static_cast<double>(all.total());
  const bool lossless = !block.matrices.empty() && block.matrices.front().lossless();
  const bool exponents = lossless && block.matrices.front().codes_exponents();
  const double never_coded = exponents ? stream_header::never_coded_bits(block.matrices.front().format) : 0;
  const double entropy_bits = (entropy_of(all) + never_coded) * symbols;
  const double overhead_bits = 8.0 * static_cast<double>(block.stream.size()) - entropy_bits;
  std::uint64_t weights_of_block = 0;
  for (std::size_t index = 0; index < block.matrices.size(); ++index) {
    const packed_matrix& matrix = block.matrices[index];
    const code_statistics codes = analyse_codes(counts[index], detail::zero_code(matrix));
    compressed_bytes += matrix.side_bytes();
    tensor_report& report = tensors.emplace_back();
    report.name = matrix.name;
    report.block = name;
    report.shape = matrix.shape;
    report.format = matrix.is_bytes() ? "bytes" : std::string(to_string(matrix.format));
    report.original = matrix.is_bytes() ? matrix.element_type : std::string(to_string(matrix.original));
    report.weights = matrix.weights();
    report.exact = matrix.exact.size();
    weights_of_block += report.weights;
    const double symbols_per_weight =
        report.weights == 0 ? 0 : static_cast<double>(codes.count) / static_cast<double>(report.weights);
    const double entropy_here = entropy_of(coded[index]);
    report.entropy = codes.count == 0 ? 0 : (entropy_here + never_coded) * symbols_per_weight;
    report.exponent_entropy = exponents ? entropy_here : 0;
    report.sparsity = lossless ? 0 : codes.sparsity;
    report.unique_values = codes.unique_values;
    if (codes.count == 0) continue;
    double information = never_coded * static_cast<double>(codes.count);
    for (std::size_t code = 0; code < 256; ++code) {
      const std::uint64_t count = coded[index].counts[code];
      if (count == 0) continue;
      information += static_cast<double>(count) * std::log2(symbols / static_cast<double>(all.counts[code]));
    }
    report.bits_per_weight =
        ((information + 8.0 * static_cast<double>(matrix.side_bytes())) / static_cast<double>(codes.count) +
         overhead_bits / symbols) *
        symbols_per_weight;
  }
  compressed_bytes += block.stream.size();
  const std::uint64_t sum = weights + weights_of_block;
  entropy = sum == 0 ? 0 : (entropy * static_cast<double>(weights) + entropy_bits) / static_cast<double>(sum);
  weights = sum;
  bits_per_weight = weights == 0 ? 0 : 8.0 * static_cast<double>(compressed_bytes) / static_cast<double>(weights);
  ++blocks;
}

}  // namespace ecq
