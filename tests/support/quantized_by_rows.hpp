#pragma once
// Quantises weights on the host as a device does, by groups of threads.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "ecq/format/weights_view.hpp"
#include "ecq/quantize/row_group.hpp"
#include "support/host_row_group.hpp"

namespace ecq_test {

struct codes_and_scales {
  std::vector<std::uint8_t> codes;
  std::vector<std::uint16_t> scales;
  ecq::errc reported = ecq::errc::ok;
  std::uint64_t number = 0;
};

template <class Format, unsigned Threads>
codes_and_scales quantized_by_groups(const ecq::weights_view& weights, double lambda, std::uint64_t most_staged) {
  using group_of_row = ecq::host_row_group<Threads>;
  const ecq::kernel_weights view = {.data = weights.data(),
                                    .rows = weights.rows(),
                                    .columns = weights.columns(),
                                    .row_stride = static_cast<std::uint64_t>(weights.row_stride()),
                                    .first_number = 0,
                                    .numbers_per_row = weights.columns(),
                                    .type = weights.type()};
  const std::uint64_t padded = (view.columns + 255) / 256 * 256;
  const std::uint64_t capacity = (std::min)(padded, most_staged);
  std::vector<float> staging(capacity);
  codes_and_scales out;
  out.codes.resize(weights.size());
  out.scales.resize(weights.rows());
  group_of_row group;
  std::vector<ecq::row_summary> rows(weights.rows());
  for (std::uint64_t row = 0; row < view.rows; ++row) {
    rows[row] = ecq::summarize_row(group, view, row, staging.data(), capacity);
  }
  ecq::detail::balanced_scale_search search;
  ecq::host_row_group<256> whole;
  const double magnitudes = ecq::sum_of_rows(whole, rows.data(), view.rows);
  const double balance = ecq::balance_of_rows<Format>(lambda, magnitudes, weights.size());
  for (std::uint64_t row = 0; row < view.rows; ++row) {
    std::uint8_t* const to = out.codes.data() + row * view.columns;
    const auto sink = [&](std::uint64_t column, const std::uint32_t(&codes)[4], std::uint32_t count) {
      ecq::store_codes<group_of_row>(to, column, codes, count);
    };
    out.scales[row] =
        ecq::quantize_row<Format>(group, view, row, rows[row], balance, search, staging.data(), capacity, sink);
  }
  out.reported = group.reported;
  out.number = group.number;
  return out;
}

/// Precondition: rows have weights. `most_staged`, a multiple of 4096, is the number of weights that a group has room
/// for.
template <class Format>
codes_and_scales quantized_by_rows(const ecq::weights_view& weights, double lambda, std::uint64_t most_staged) {
  return ecq::threads_of_row(weights.columns()) == 32 ? quantized_by_groups<Format, 32>(weights, lambda, most_staged)
                                                      : quantized_by_groups<Format, 256>(weights, lambda, most_staged);
}

}  // namespace ecq_test
