#pragma once
/// \file
/// The search for lambda on a device: the part of lambda_for_bits() that a row_group runs.

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "ecq/base/config.hpp"
#include "ecq/base/result.hpp"
#include "ecq/quantize/lambda_solver.hpp"
#include "ecq/quantize/row_group.hpp"

namespace ecq {

/// One of the matrices whose rows a launch quantises or examines.
struct kernel_matrix {
  kernel_weights weights;
  std::uint64_t first_row = 0;      ///< number of row 0 among the rows of all matrices
  std::uint8_t* codes = nullptr;    ///< row after row
  std::uint16_t* scales = nullptr;  ///< bits of BF16, one a row
  double stands_for = 1;            ///< number of weights of the stream that a sampled weight stands for

  ECQ_HOST_DEVICE std::uint64_t end_row() const { return first_row + weights.rows; }
};

/// Returns the index of the matrix that holds row `row` of all rows. `matrices` are in ascending order, none is empty,
/// and the last one ends after `row`.
ECQ_HOST_DEVICE inline std::uint32_t matrix_of_row(const kernel_matrix* matrices, std::uint32_t count,
                                                   std::uint64_t row) {
  std::uint32_t first = 0;
  std::uint32_t behind = count - 1;
  while (first < behind) {
    const std::uint32_t middle = first + (behind - first) / 2;
    if (matrices[middle].end_row() > row) {
      behind = middle;
    } else {
      first = middle + 1;
    }
  }
  return first;
}

/// State of a search for lambda, in device memory.
struct lambda_search_state {
  detail::lambda_solver solver;
  double codes = 0;       ///< codes of all matrices
  double fixed_bits = 0;  ///< bits of scales and overhead
};

/// Memory that the threads of a group share while they count codes.
struct code_counts {
  std::uint32_t of[256];
};

/// Counts the codes of row `row` of a sample at a lambda and adds them to `counts`. The other parameters are those of
/// quantize_row().
template <class Format, row_group Group>
ECQ_HOST_DEVICE void count_row(Group& group, const kernel_weights& weights, std::uint64_t row,
                               const row_summary& summary, double balance, detail::balanced_scale_search& search,
                               float* staging, std::uint64_t capacity, code_counts& shared, std::uint64_t* counts) {
  Group::each_thread([&](std::uint32_t thread) {
    for (std::uint32_t code = thread; code < 256; code += Group::size()) shared.of[code] = 0;
  });
  const auto sink = [&](std::uint64_t, const std::uint32_t(&codes)[4], std::uint32_t count) {
    ECQ_UNROLL
    for (std::uint32_t i = 0; i < 16; ++i) {
      if (i < count) Group::memory::increment(shared.of[codes[i / 4] >> (8 * (i % 4)) & 0xffU]);
    }
  };
  group.sync();
  quantize_row<Format>(group, weights, row, summary, balance, search, staging, capacity, sink);
  group.sync();
  Group::each_thread([&](std::uint32_t thread) {
    for (std::uint32_t code = thread; code < 256; code += Group::size()) {
      if (shared.of[code] != 0) Group::memory::add(counts[code], shared.of[code]);
    }
  });
}

/// Memory that the threads of a group share while they work out a rate.
struct rate_sums {
  std::uint64_t counts[256];
  double bits[256];
};

/// Computes the rate from `counts`, 256 for each matrix's sample, sets the counts to zero for the next round, and hands
/// the rate to the search. The group has 256 threads. `lambda` becomes the next one to try or, once the search has
/// finished, the result. If the target cannot be reached, the result is 0, and errc::unreachable_target is reported
/// with the rate that can be reached, in thousandths of a bit.
template <row_group Group>
ECQ_HOST_DEVICE void take_rate(Group& group, lambda_search_state& search, const kernel_matrix* matrices,
                               std::uint32_t count, std::uint64_t* counts, rate_sums& shared, double* lambda) {
  static_assert(Group::size() == 256);
  Group::each_thread([&](std::uint32_t code) {
    std::uint64_t sum = 0;
    for (std::uint32_t i = 0; i < count; ++i) {
      std::uint64_t& counted = counts[std::size_t{256} * i + code];
      sum += detail::nearest_count(Group::multiply(static_cast<double>(counted), matrices[i].stands_for));
      counted = 0;
    }
    shared.counts[code] = sum;
  });
  group.sync();
  Group::each_thread([&](std::uint32_t code) {
    std::uint64_t total = 0;
    for (const std::uint64_t some : shared.counts) total += some;
    const auto own = static_cast<double>(shared.counts[code]);
    shared.bits[code] = own == 0.0 ? 0.0 : Group::multiply(own, std::log2(static_cast<double>(total) / own));
  });
  group.sync();
  Group::each_thread([&](std::uint32_t thread) {
    if (thread != 0) return;
    std::uint64_t total = 0;
    double bits = 0;
    for (std::uint32_t code = 0; code < 256; ++code) {
      total += shared.counts[code];
      bits += shared.bits[code];
    }
    const double entropy = total == 0 ? 0.0 : bits / static_cast<double>(total);
    detail::lambda_solver solver = search.solver;
    solver.take((search.fixed_bits + Group::multiply(entropy, search.codes)) / search.codes);
    search.solver = solver;
    *lambda = solver.unreachable() ? 0.0 : solver.lambda();
    if (!solver.unreachable()) return;
    group.report(errc::unreachable_target, static_cast<std::uint64_t>(solver.last_rate() * 1000.0));
  });
}

}  // namespace ecq
