#pragma once
/// \file
/// Kernels of EntQuant, with one block per row.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "ecq/cuda/device_row_group.cuh"
#include "ecq/cuda/launch.cuh"
#include "ecq/quantize/lambda_group.hpp"
#include "ecq/quantize/row_group.hpp"

namespace ecq::detail {

/// Device memory used while matrices are quantised.
struct quantize_work {
  kernel_matrix* matrices;  ///< in ascending order of first row and of columns
  std::uint32_t count;
  row_summary* rows;   ///< summaries of the rows of all matrices
  double* magnitudes;  ///< sum of each matrix
  const double* lambda;
  lambda_search_state* search;  ///< null without a search
  std::uint64_t* counts;        ///< counts of a search, 256 per matrix
  unsigned long long* verdict;
};

// Largest number of blocks that a multiprocessor holds; ptxas ignores a larger limit, with a warning.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ > 800 && __CUDA_ARCH__ < 890
inline constexpr unsigned most_side_by_side = 16;
#else
inline constexpr unsigned most_side_by_side = 24;
#endif

/// Number of blocks of summarize_kernel, and of quantize_kernel, for which a multiprocessor has registers. Without
/// these limits, ptxas uses so few registers that it spills.
template <unsigned Threads>
inline constexpr unsigned blocks_side_by_side = Threads == 32 ? most_side_by_side : 5;
template <unsigned Threads>
inline constexpr unsigned quantizing_blocks = Threads == 32 ? (std::min)(20U, most_side_by_side) : 4;

/// Rows of one launch, one block per row.
struct row_range {
  std::uint64_t first;
  std::uint64_t capacity;  ///< weights that a block has shared memory for
};

/// Bytes of shared memory of a block: staged weights, the exchange between its threads, and their counts.
template <unsigned Threads>
constexpr std::size_t shared_bytes_of_row(std::uint64_t capacity) {
  return capacity * sizeof(float) + sizeof(row_group_memory<Threads>) + sizeof(balanced_scale_search) +
         sizeof(code_counts);
}

/// The parts of a block's shared memory.
template <unsigned Threads>
struct row_memory {
  float* staging;
  row_group_memory<Threads>& group;
  balanced_scale_search& search;
  code_counts& counts;

  static __device__ row_memory of(std::uint64_t capacity) {
    auto* const staging = dynamic_shared<float>();
    auto* const group = reinterpret_cast<row_group_memory<Threads>*>(staging + capacity);
    auto* const search = reinterpret_cast<balanced_scale_search*>(group + 1);
    return {staging, *group, *search, *reinterpret_cast<code_counts*>(search + 1)};
  }
};

/// Matrices passed as kernel parameters, so that nothing on the host has to outlive a call.
struct matrix_batch {
  kernel_matrix matrices[16];
  std::uint32_t first;
  std::uint32_t count;
};
static __global__ void describe_kernel(kernel_matrix* to, matrix_batch batch) {
  if (threadIdx.x < batch.count) to[batch.first + threadIdx.x] = batch.matrices[threadIdx.x];
}

static __global__ void set_lambda_kernel(double* to, double lambda) { *to = lambda; }

template <unsigned Threads>
__global__ void __launch_bounds__(Threads, blocks_side_by_side<Threads>)
    summarize_kernel(quantize_work work, row_range range) {
  const auto memory = row_memory<Threads>::of(range.capacity);
  device_row_group<Threads> group(memory.group, work.verdict);
  const std::uint64_t row = range.first + blockIdx.x;
  const kernel_matrix& matrix = work.matrices[matrix_of_row(work.matrices, work.count, row)];
  const kernel_weights weights = matrix.weights;
  const row_summary summary = summarize_row(group, weights, row - matrix.first_row, memory.staging, range.capacity);
  if (threadIdx.x == 0) work.rows[row] = summary;
}

/// Sums up the rows of each matrix, with one block per matrix.
static __global__ void __launch_bounds__(most_row_sums) sum_of_rows_kernel(quantize_work work) {
  __shared__ row_group_memory<most_row_sums> memory;
  device_row_group<most_row_sums> group(memory, work.verdict);
  const kernel_matrix& matrix = work.matrices[blockIdx.x];
  const double sum = sum_of_rows(group, work.rows + matrix.first_row, matrix.weights.rows);
  if (threadIdx.x == 0) work.magnitudes[blockIdx.x] = sum;
}

/// Computes codes and scales or, with `Counting`, the counts of a search. Does nothing once that search is finished.
template <class Format, unsigned Threads, bool Counting>
__global__ void __launch_bounds__(Threads, quantizing_blocks<Threads>)
    quantize_kernel(quantize_work work, row_range range) {
  if constexpr (Counting) {
    if (work.search->solver.finished()) return;
  }
  const auto memory = row_memory<Threads>::of(range.capacity);
  device_row_group<Threads> group(memory.group, work.verdict);
  const std::uint64_t number = range.first + blockIdx.x;
  const std::uint32_t index = matrix_of_row(work.matrices, work.count, number);
  const kernel_matrix& matrix = work.matrices[index];
  const kernel_weights weights = matrix.weights;
  const std::uint64_t row = number - matrix.first_row;
  double lambda = *work.lambda;
  if (!(lambda >= 0.0 && lambda < 1e30)) {
    if (threadIdx.x == 0) group.report(errc::invalid_argument, 0);
    lambda = 0.0;
  }
  const double balance = balance_of_rows<Format>(lambda, work.magnitudes[index], weights.rows * weights.columns);
  const row_summary summary = work.rows[number];
  if constexpr (Counting) {
    count_row<Format>(group, weights, row, summary, balance, memory.search, memory.staging, range.capacity,
                      memory.counts, work.counts + std::size_t{256} * index);
  } else {
    std::uint8_t* const to = matrix.codes + row * weights.columns;
    const auto sink = [to](std::uint64_t column, const std::uint32_t(&codes)[4], std::uint32_t count) {
      store_codes<device_row_group<Threads>>(to, column, codes, count);
    };
    const std::uint16_t scale = quantize_row<Format>(group, weights, row, summary, balance, memory.search,
                                                     memory.staging, range.capacity, sink);
    if (threadIdx.x == 0) matrix.scales[row] = scale;
  }
}

[[maybe_unused]] static __global__ void begin_search_kernel(lambda_search_state* search, lambda_search_state begun,
                                                            double* lambda) {
  *search = begun;
  *lambda = begun.solver.lambda();
}

/// Takes the rate of a round of the search; runs as one block.
[[maybe_unused]] static __global__ void __launch_bounds__(256) take_rate_kernel(quantize_work work, double* lambda) {
  __shared__ row_group_memory<256> memory;
  __shared__ rate_sums sums;
  if (work.search->solver.finished()) return;
  device_row_group<256> group(memory, work.verdict);
  take_rate(group, *work.search, work.matrices, work.count, work.counts, sums, lambda);
}

}  // namespace ecq::detail
