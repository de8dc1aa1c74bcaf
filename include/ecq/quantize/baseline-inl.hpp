#pragma once
/// \file
/// Definitions of the functions that baselines share.

#include <cstddef>
#include <limits>
#include <span>
#include <string_view>

#include "ecq/base/out_of_memory.hpp"
#include "ecq/quantize/baseline.hpp"
#include "ecq/quantize/finite.hpp"

namespace ecq::detail {

ECQ_INLINE result<baseline_result> load_for_baseline(const cpu& backend, weights_view weights) {
  baseline_result loaded;
  if (weights.empty()) return loaded;
  const std::size_t rows = weights.rows();
  const std::size_t columns = weights.columns();
  if (rows > static_cast<std::size_t>((std::numeric_limits<std::ptrdiff_t>::max)()) / sizeof(float) / columns) {
    return error(errc::limit_exceeded, rows, " x ", columns, " weights do not fit into memory");
  }
  const auto failed = [&] { return error(errc::out_of_memory, "no memory for ", rows * columns, " weights"); };
  ECQ_CHECK(or_out_of_memory(failed, [&]() -> result<void> {
    loaded.weights.resize(rows * columns);
    loaded.codes.resize(rows * columns);
    return {};
  }));
  ECQ_CHECK(parallel_for(backend, rows, [&](std::size_t row) -> result<void> {
    const std::span<float> values(loaded.weights.data() + row * columns, columns);
    weights.load(row, 0, values);
    return check_finite(values, row);
  }));
  return loaded;
}

ECQ_INLINE result<void> check_bits(std::string_view method, int bits) {
  if (bits >= 2 && bits <= 8) return {};
  return error(errc::invalid_argument, method, " takes 2 to 8 bits, not ", bits);
}

}  // namespace ecq::detail
