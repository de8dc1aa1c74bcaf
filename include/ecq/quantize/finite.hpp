#pragma once
/// \file
/// Checks that weights are finite, as quantisers need them.

#include <cstddef>
#include <span>

#include "ecq/base/backend.hpp"
#include "ecq/base/result.hpp"
#include "ecq/format/weights_view.hpp"

namespace ecq {

/// Fails with errc::non_finite, naming row and column, at the first NaN or infinity among the weights of row `row`.
result<void> check_finite(std::span<const float> row_values, std::size_t row);

/// Fails with errc::non_finite, naming row and column, if a matrix holds NaN or infinity; reads each weight once.
result<void> check_finite(const cpu& backend, const weights_view& weights);

}  // namespace ecq

#if ECQ_HEADER_ONLY
#include "ecq/quantize/finite-inl.hpp"
#endif
