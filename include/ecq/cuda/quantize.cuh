#pragma once
/// \file
/// EntQuant on a device, with one scale per row: finds the CPU's codes and scales, and lambda for a rate.

#include <cuda_runtime.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "ecq/base/out_of_memory.hpp"
#include "ecq/base/result.hpp"
#include "ecq/cuda/backend.cuh"
#include "ecq/cuda/launch.cuh"
#include "ecq/cuda/quantize_kernel.cuh"
#include "ecq/cuda/verdict.cuh"
#include "ecq/format/bf16.hpp"
#include "ecq/format/dtype.hpp"
#include "ecq/quantize/regularizer.hpp"
#include "ecq/quantize/row_sample.hpp"
#include "ecq/quantize/target_bits.hpp"

namespace ecq {

/// A matrix of rows x columns weights of fp32, bf16 or fp16 in device memory, aligned to their size. Rows begin
/// `row_stride` elements apart, at least `columns`. Rows that are aligned to 16 bytes are read faster.
struct device_weights {
  const void* data = nullptr;
  dtype type = dtype::bf16;
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::size_t row_stride = 0;

  std::uint64_t size() const noexcept { return std::uint64_t{rows} * columns; }
};

/// A matrix to quantise: its weights, the place of their codes, row after row, and the place of their scales, one per
/// row; all in device memory.
struct device_quantization {
  device_weights weights;
  std::uint8_t* codes = nullptr;
  bf16* scales = nullptr;
};

namespace detail {

/// Matrices, and the launches over their rows. A launch has rows of about the same length, because each of its blocks
/// has the shared memory that the longest row needs.
class row_plan {
 public:
  /// Adds a matrix. Errors: invalid_argument for weights that have no place, are misaligned or lie in rows that
  /// overlap; unsupported for other element types and for 2^32 columns or more.
  result<void> add(const device_weights& from, const row_sample& sample, std::uint64_t first_number) {
    const auto bad = [&](errc code, const char* why) {
      return error(code, "matrix of ", from.rows, " x ", from.columns, " weights: ", why);
    };
    if (from.type != dtype::fp32 && from.type != dtype::bf16 && from.type != dtype::fp16) {
      return bad(errc::unsupported, "devices quantise only fp32, bf16 and fp16");
    }
    if (sample.columns >> 32 != 0) return bad(errc::unsupported, "2^32 or more columns");
    const std::size_t element = size_of(from.type);
    if (from.data == nullptr || reinterpret_cast<std::uintptr_t>(from.data) % element != 0 ||
        from.row_stride < from.columns) {
      return bad(errc::invalid_argument, "data is null or misaligned, or rows overlap");
    }
    kernel_matrix& matrix = matrices_.emplace_back();
    // Kernels number rows through the whole stream. Data begin where row 0 of the stream would lie, so that kernels
    // need not know the row at which the matrix begins.
    const std::uint64_t before = sample.rows_before;
    const std::uintptr_t place = reinterpret_cast<std::uintptr_t>(from.data) - before * from.row_stride * element;
    matrix.weights = {.data = reinterpret_cast<const std::byte*>(place),
                      .rows = sample.rows,
                      .columns = sample.columns,
                      .row_stride = from.row_stride,
                      .first_number = first_number - before * from.columns,
                      .numbers_per_row = from.columns,
                      .step = sample.step,
                      .first = sample.first,
                      .rows_of_stream = sample.rows_of_stream,
                      .type = from.type};
    matrix.stands_for = sample.stands_for;
    return {};
  }

  std::vector<kernel_matrix>& matrices() noexcept { return matrices_; }

  /// Numbers the rows and groups them for launches.
  result<void> finish() {
    std::stable_sort(matrices_.begin(), matrices_.end(), [](const kernel_matrix& a, const kernel_matrix& b) {
      return a.weights.columns < b.weights.columns;
    });
    ECQ_TRY(most, most_staged());
    for (kernel_matrix& matrix : matrices_) {
      matrix.first_row = rows_;
      const std::uint64_t columns = matrix.weights.columns;
      const std::uint64_t padded = (columns + tile_weights - 1) / tile_weights * tile_weights;
      const bool whole = padded <= most;
      const group own = {
          .first = rows_,
          .rows = matrix.weights.rows,
          .threads = threads_of_row(columns),
          .length = whole ? static_cast<int>(std::bit_width((std::max)(columns - 1, std::uint64_t{1023}))) : any_length,
          .capacity = whole ? padded : staged_segment};
      rows_ += own.rows;
      if (!groups_.empty() && groups_.back().length == own.length) {
        groups_.back().rows += own.rows;
        groups_.back().capacity = own.capacity;
      } else {
        groups_.push_back(own);
      }
    }
    return {};
  }

  std::uint64_t rows() const noexcept { return rows_; }

  /// Copies the matrices to `to`, on gpu.stream.
  result<void> describe(const cuda& gpu, kernel_matrix* to) const {
    for (std::size_t first = 0; first < matrices_.size(); first += std::size(matrix_batch{}.matrices)) {
      matrix_batch batch{};
      batch.first = static_cast<std::uint32_t>(first);
      batch.count = static_cast<std::uint32_t>((std::min)(std::size(batch.matrices), matrices_.size() - first));
      std::copy_n(matrices_.begin() + static_cast<std::ptrdiff_t>(first), batch.count, batch.matrices);
      ECQ_CHECK(launch(gpu, "describing matrices", &describe_kernel, {1, 32}, to, batch));
    }
    return {};
  }

  /// Launches `kernel_for(threads)` over all rows; `threads` is an integral constant.
  template <class KernelFor>
  result<void> each_row(const cuda& gpu, const char* doing, const quantize_work& work, KernelFor&& kernel_for) const {
    constexpr std::uint64_t most_blocks = std::uint64_t{1} << 30;
    for (const group& some : groups_) {
      for (std::uint64_t done = 0; done < some.rows; done += most_blocks) {
        const row_range range = {some.first + done, some.capacity};
        const auto blocks = static_cast<std::size_t>((std::min)(some.rows - done, most_blocks));
        ECQ_CHECK(some.threads == 32
                      ? launch(gpu, doing, kernel_for(std::integral_constant<unsigned, 32>{}),
                               {blocks, 32, shared_bytes_of_row<32>(some.capacity)}, work, range)
                      : launch(gpu, doing, kernel_for(std::integral_constant<unsigned, most_row_sums>{}),
                               {blocks, most_row_sums, shared_bytes_of_row<most_row_sums>(some.capacity)}, work,
                               range));
      }
    }
    return {};
  }

  /// Computes the summaries and sums of all rows, which do not depend on lambda.
  result<void> summarize(const cuda& gpu, const quantize_work& work) const {
    ECQ_CHECK(
        each_row(gpu, "summing rows", work, [](auto threads) { return &summarize_kernel<decltype(threads)::value>; }));
    return launch(gpu, "summing matrices", &sum_of_rows_kernel, {matrices_.size(), most_row_sums}, work);
  }

 private:
  /// Consecutive rows of about the same length.
  struct group {
    std::uint64_t first;
    std::uint64_t rows;
    unsigned threads;
    int length;  ///< number of bits of the rows' length
    std::uint64_t capacity;
  };

  static constexpr int any_length = 64;  ///< for rows that exceed the shared memory of a block

  /// Returns the length of the longest row for which a block has shared memory.
  static result<std::uint64_t> most_staged() {
    ECQ_TRY(bytes, device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin));
    const std::uint64_t left = bytes - shared_bytes_of_row<most_row_sums>(0);
    return left / sizeof(float) / tile_weights * tile_weights;
  }

  std::vector<kernel_matrix> matrices_;
  std::vector<group> groups_;
  std::uint64_t rows_ = 0;
};

/// Hands out places in a workspace, one after another, each aligned to 256 bytes.
class workspace_layout {
 public:
  explicit workspace_layout(void* memory) : memory_(static_cast<std::byte*>(memory)) {}

  template <class Element>
  Element* take(std::uint64_t count) {
    auto* const place = memory_ == nullptr ? nullptr : reinterpret_cast<Element*>(memory_ + bytes_);
    bytes_ += (count * sizeof(Element) + 255) / 256 * 256;
    return place;
  }
  std::uint64_t bytes() const noexcept { return bytes_; }

 private:
  std::byte* memory_;
  std::uint64_t bytes_ = 0;
};

inline quantize_work place_work(workspace_layout& workspace, std::uint64_t matrices, std::uint64_t rows) {
  quantize_work work{};
  work.count = static_cast<std::uint32_t>(matrices);
  work.matrices = workspace.take<kernel_matrix>(matrices);
  work.magnitudes = workspace.take<double>(matrices);
  work.rows = workspace.take<row_summary>(rows);
  return work;
}

inline void place_search(workspace_layout& workspace, quantize_work& work) {
  work.search = workspace.take<lambda_search_state>(1);
  work.counts = workspace.take<std::uint64_t>(std::uint64_t{256} * work.count);
}

/// Checks alignment before a launch, because a misaligned access ends the use of the device, not only the call.
inline result<void> check_quantize_memory(const double* lambda, const void* workspace, const device_verdict& verdict) {
  ECQ_CHECK(check_aligned(lambda, alignof(double), "lambda"));
  ECQ_CHECK(check_aligned(workspace, 256, "workspace"));
  return check_aligned(verdict.memory(), 8, "the verdict");
}

inline std::uint64_t weights_of(std::span<const device_weights> matrices) {
  std::uint64_t weights = 0;
  for (const device_weights& matrix : matrices) weights += matrix.size();
  return weights;
}

/// Calls `use(matrix, sample)` for each matrix of a stream that has weights, with the sample of its rows.
template <class Use>
result<void> for_each_sample(std::span<const device_weights> matrices, const rate_options& options, Use&& use) {
  std::uint64_t rows = 0;
  for (const device_weights& matrix : matrices) rows += matrix.columns == 0 ? 0 : matrix.rows;
  row_sampler sampler(weights_of(matrices), options.sample_limit, rows);
  for (const device_weights& matrix : matrices) {
    if (matrix.size() != 0) ECQ_CHECK(use(matrix, sampler.next(matrix.rows, matrix.columns)));
  }
  return {};
}

}  // namespace detail

/// Returns the number of bytes of device memory that quantize() needs as its workspace.
inline std::uint64_t quantize_workspace_bytes(std::span<const device_quantization> matrices) {
  std::uint64_t rows = 0;
  for (const device_quantization& matrix : matrices) rows += matrix.weights.rows;
  detail::workspace_layout workspace(nullptr);
  detail::place_work(workspace, matrices.size(), rows);
  workspace.take<double>(1);
  return workspace.bytes();
}

/// Quantises each of `matrices`, on gpu.stream, into the codes and scales of entquant{.lambda = *lambda} on the CPU.
/// `lambda` lies in device memory and is read when the device does the work. `workspace` has
/// quantize_workspace_bytes(matrices) bytes, aligned to 256 bytes. The codes of the matrices may follow one another.
/// `verdict` reports a weight that is not finite, by its number counted through all matrices in their order, and a
/// lambda that is not at least 0 and below 1e30. Errors: invalid_argument, unsupported, out_of_memory, device_error.
template <symmetric_format Format>
result<void> quantize(const cuda& gpu, std::span<const device_quantization> matrices, const double* lambda,
                      void* workspace, const device_verdict& verdict) {
  ECQ_CHECK(detail::check_quantize_memory(lambda, workspace, verdict));
  return detail::or_out_of_memory("the list of matrices", [&]() -> result<void> {
    detail::row_plan plan;
    std::uint64_t weights = 0;
    for (const device_quantization& matrix : matrices) {
      const device_weights& from = matrix.weights;
      if (from.size() == 0) continue;
      if (matrix.codes == nullptr) return error(errc::invalid_argument, "memory for codes is a null pointer");
      ECQ_CHECK(detail::check_aligned(matrix.scales, sizeof(bf16), "memory for scales"));
      ECQ_CHECK(plan.add(from, {.rows = from.rows, .columns = from.columns}, weights));
      plan.matrices().back().codes = matrix.codes;
      plan.matrices().back().scales = reinterpret_cast<std::uint16_t*>(matrix.scales);
      weights += from.size();
    }
    if (weights == 0) return {};
    ECQ_CHECK(plan.finish());
    detail::workspace_layout layout(workspace);
    detail::quantize_work work = detail::place_work(layout, plan.matrices().size(), plan.rows());
    work.lambda = lambda;
    work.verdict = verdict.memory();
    ECQ_CHECK(plan.describe(gpu, work.matrices));
    ECQ_CHECK(plan.summarize(gpu, work));
    return plan.each_row(gpu, "quantising rows", work, [](auto threads) {
      return &detail::quantize_kernel<Format, decltype(threads)::value, false>;
    });
  });
}

/// Quantises each of `matrices` as the overload for a lambda in device memory does, but with a lambda that the host
/// knows. Errors: those of that overload, and invalid_argument for lambda.
template <symmetric_format Format>
result<void> quantize(const cuda& gpu, std::span<const device_quantization> matrices, double lambda, void* workspace,
                      const device_verdict& verdict) {
  if (!(lambda >= 0.0) || !(lambda < 1e30)) {
    return error(errc::invalid_argument, "lambda is ", lambda, ", not from 0 to 1e30");
  }
  ECQ_CHECK(detail::check_aligned(workspace, 256, "workspace"));
  auto* const place =
      reinterpret_cast<double*>(static_cast<std::byte*>(workspace) + quantize_workspace_bytes(matrices) - 256);
  ECQ_CHECK(detail::launch(gpu, "setting lambda", &detail::set_lambda_kernel, {1, 1}, place, lambda));
  return quantize<Format>(gpu, matrices, static_cast<const double*>(place), workspace, verdict);
}

/// Returns the number of bytes of device memory that lambda_for_bits() needs as its workspace.
inline std::uint64_t lambda_workspace_bytes(std::span<const device_weights> matrices,
                                            const rate_options& options = {}) {
  std::uint64_t rows = 0;
  static_cast<void>(
      detail::for_each_sample(matrices, options, [&](const device_weights&, const detail::row_sample& sample) {
        rows += sample.rows;
        return result<void>{};
      }));
  detail::workspace_layout workspace(nullptr);
  detail::quantize_work work = detail::place_work(workspace, matrices.size(), rows);
  detail::place_search(workspace, work);
  return workspace.bytes();
}

/// Finds lambda for `target_bits` bits per weight, for matrices whose codes go into one stream, and writes it to
/// `lambda` in device memory, on gpu.stream. Samples, search and lambda are those of lambda_for_bits on the CPU, except
/// if a logarithm whose last bits differ falls on the edge between two lambdas of 12 bits. The host takes no part in
/// the search: it enqueues as many launches as the longest search has rounds, and launches do nothing once the search
/// is over. `overhead_bits` is the cost of the stream on top of the entropy of its codes. `workspace` has
/// lambda_workspace_bytes(matrices, options) bytes, aligned to 256 bytes. `verdict` reports errc::unreachable_target,
/// with the lowest reachable rate in thousandths of a bit per weight, and errc::non_finite for weights that the search
/// reads; then `lambda` is 0 or any number. Errors: invalid_argument, unsupported, out_of_memory, device_error.
template <symmetric_format Format>
result<void> lambda_for_bits(const cuda& gpu, std::span<const device_weights> matrices, double target_bits,
                             double overhead_bits, double* lambda, void* workspace, const device_verdict& verdict,
                             const rate_options& options = {}) {
  if (!(target_bits > 0.0) || !(target_bits < 64.0)) {
    return error(errc::invalid_argument, "target is ", target_bits, " bits per weight, not between 0 and 64");
  }
  ECQ_CHECK(detail::check_quantize_memory(lambda, workspace, verdict));
  const std::uint64_t weights = detail::weights_of(matrices);
  if (weights == 0) return detail::launch(gpu, "setting lambda", &detail::set_lambda_kernel, {1, 1}, lambda, 0.0);
  return detail::or_out_of_memory("the list of matrices", [&]() -> result<void> {
    detail::row_plan plan;
    double fixed_bits = 0;
    std::uint64_t first_number = 0;
    const auto add = [&](const device_weights& matrix, const detail::row_sample& sample) -> result<void> {
      if (sample.rows != 0) ECQ_CHECK(plan.add(matrix, sample, first_number));
      first_number += matrix.size();
      if (options.count_scales) fixed_bits += options.scale_bits * static_cast<double>(matrix.rows);
      return {};
    };
    ECQ_CHECK(detail::for_each_sample(matrices, options, add));
    fixed_bits += overhead_bits;
    ECQ_CHECK(plan.finish());
    detail::workspace_layout layout(workspace);
    detail::quantize_work work = detail::place_work(layout, plan.matrices().size(), plan.rows());
    detail::place_search(layout, work);
    work.lambda = lambda;
    work.verdict = verdict.memory();
    const auto codes = static_cast<double>(weights);
    const lambda_search_state begun = {detail::lambda_solver(target_bits, fixed_bits / codes), codes, fixed_bits};
    ECQ_CHECK(plan.describe(gpu, work.matrices));
    ECQ_CHECK(detail::launch(gpu, "starting the search for lambda", &detail::begin_search_kernel, {1, 1}, work.search,
                             begun, lambda));
    ECQ_CHECK(detail::check_cuda(cudaMemsetAsync(work.counts, 0, sizeof(std::uint64_t) * 256 * work.count, gpu.stream),
                                 "clearing counts"));
    ECQ_CHECK(plan.summarize(gpu, work));
    for (int round = 0; round < detail::lambda_solver::most_rounds; ++round) {
      ECQ_CHECK(plan.each_row(gpu, "counting codes", work, [](auto threads) {
        return &detail::quantize_kernel<Format, decltype(threads)::value, true>;
      }));
      ECQ_CHECK(detail::launch(gpu, "measuring a rate", &detail::take_rate_kernel, {1, 256}, work, lambda));
    }
    return {};
  });
}

}  // namespace ecq

/// \def ECQ_INSTANCES_OF_DEVICE_QUANTIZATION
/// The instances of quantisation in ecq::compiled_cuda for one format.
#define ECQ_INSTANCES_OF_DEVICE_QUANTIZATION(TEMPLATE, FORMAT)                                                        \
  TEMPLATE ecq::result<void> ecq::quantize<FORMAT>(const ecq::cuda&, std::span<const ecq::device_quantization>,       \
                                                   const double*, void*, const ecq::device_verdict&);                 \
  TEMPLATE ecq::result<void> ecq::quantize<FORMAT>(const ecq::cuda&, std::span<const ecq::device_quantization>,       \
                                                   double, void*, const ecq::device_verdict&);                        \
  TEMPLATE ecq::result<void> ecq::lambda_for_bits<FORMAT>(const ecq::cuda&, std::span<const ecq::device_weights>,     \
                                                          double, double, double*, void*, const ecq::device_verdict&, \
                                                          const ecq::rate_options&)

#if defined(ECQ_COMPILED_CUDA)
#include "ecq/format/fp8_e4m3.hpp"
#include "ecq/format/int8.hpp"

ECQ_INSTANCES_OF_DEVICE_QUANTIZATION(extern template, ecq::fp8_e4m3);
ECQ_INSTANCES_OF_DEVICE_QUANTIZATION(extern template, ecq::int8);
#endif
