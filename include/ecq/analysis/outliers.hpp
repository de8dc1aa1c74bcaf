#pragma once
/// \file
/// Weights that stand out of their matrix, found without data.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ecq/base/backend.hpp"
#include "ecq/base/config.hpp"
#include "ecq/base/result.hpp"
#include "ecq/format/weights_view.hpp"

namespace ecq {

/// The ratio from which on an exact weight pays: its 96 bits then buy more than they would in finer steps for all. The
/// codes of FP8 E4M3 miss a weight by up to 1/16 of it, 4 times the mean magnitude at this ratio, where all others are
/// missed by a part of that mean.
inline constexpr double usual_outlier_ratio = 64;

/// Positions (row * columns + column) of the weights that are at least `ratio` times as large as the other weights of
/// their row on average, and those of their column: the rule for super weights (Yu et al. 2024; EntQuant, A.2) without
/// activations. A row or column that is large as a whole has none. If more than one weight in 2^14 is such (and more
/// than one of the matrix), weights of that size are usual there, and there are none either. NaN and infinity do not
/// count. Reads the matrix twice; the result is the same for every number of threads. Errors: invalid_argument for a
/// ratio that is not above 1, out_of_memory.
result<std::vector<std::uint64_t>> find_outliers(const cpu& backend, const weights_view& weights,
                                                 double ratio = usual_outlier_ratio);

}  // namespace ecq

#if ECQ_HEADER_ONLY
#include "ecq/analysis/outliers-inl.hpp"
#endif
