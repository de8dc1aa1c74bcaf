#pragma once
/// \file
/// Data that the benchmarks of devices decode and encode. They are made and encoded on all cores of the host, in code
/// of the host's own compiler.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ecq/base/result.hpp"
#include "ecq/entropy/trellis.hpp"
#include "ecq/format/dtype.hpp"
#include "ecq/packed.hpp"
#include "ecq/quantize/entquant.hpp"
#include "ecq/stream/stream_options.hpp"

namespace ecq_bench {

using bytes = std::vector<std::byte>;

/// Distribution of elements: normal numbers of a format, or codes, which are Laplace numbers rounded.
struct workload {
  const char* name;
  std::optional<ecq::dtype> format;
  double scale;  ///< the standard deviation, or the scale of the Laplace distribution
};

/// Workloads that are decoded to elements.
inline constexpr workload element_workloads[] = {{"FP8 N(0, 1)", ecq::dtype::fp8_e4m3, 1},
                                                 {"BF16 Gaussian", ecq::dtype::bf16, 0.02},
                                                 {"bytes, 2.1 bits", {}, 0.79},
                                                 {"bytes, 3 bits", {}, 1.49},
                                                 {"bytes, 4 bits", {}, 2.98},
                                                 {"bytes, 6.5 bits", {}, 16.8}};

enum class coder { rans, rans_direct, tans, huffman, huffman_gaps };
const char* name_of(coder which);

/// Returns `size` bytes: 16 Mi elements, and then the same again, since no coder looks further back than a chunk.
bytes elements_of(const workload& work, std::size_t size);

/// Returns the goal of a row's streams: rows that name the length of their chunks measure streams for devices.
constexpr ecq::stream_goal goal_of(unsigned chunk_bits) {
  return chunk_bits != 0 ? ecq::stream_goal::gpu : ecq::stream_goal::size;
}

/// Returns a stream of exponents if `format` is set, otherwise of bytes.
ecq::result<bytes> encoded(coder which, std::optional<ecq::dtype> format, std::span<const std::byte> elements,
                           const ecq::stream_options& options);

/// Returns the codes of indices on a trellis. The first index is the first of a stream.
bytes path_of(const ecq::trellis& walk, std::span<const std::byte> indices);

struct extent {
  std::size_t rows;
  std::size_t columns;

  std::size_t size() const { return rows * columns; }
};

/// Returns a block of codes of `format` in matrices of these extents, with a scale per row.
ecq::result<ecq::packed_block> block_of(coder which, ecq::dtype format, std::span<const std::byte> codes,
                                        std::span<const extent> matrices, const ecq::stream_options& options);

/// Returns the weights of matrix `index` as BF16, decoded by the CPU.
ecq::result<std::vector<ecq::bf16>> weights_of(const ecq::packed_block& block, std::size_t index);

/// BF16 weights in `matrices` matrices of rows x columns, and the way in which EntQuant quantises them to FP8.
/// compressed() and codes_of() do so on the CPU.
struct quantizing {
  std::span<const std::byte> weights;
  std::size_t matrices;
  std::size_t rows;
  std::size_t columns;
  ecq::entquant how;
  unsigned chunk_bits = 0;

  std::size_t size() const { return matrices * rows * columns; }
  std::size_t bytes_of_matrix() const { return rows * columns * sizeof(ecq::bf16); }
};
ecq::result<ecq::packed_block> compressed(const quantizing& work);
ecq::result<bytes> codes_of(const quantizing& work);

/// Writes elements of each kind to <folder>/<name>-<mib>.bytes. Returns false if that fails.
bool dump_elements(const std::string& folder, std::size_t mib);

/// Whether both hold the same bytes.
bool same(std::span<const std::byte> one, std::span<const std::byte> other);

}  // namespace ecq_bench
