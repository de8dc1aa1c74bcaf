#pragma once
/// \file
/// Search for weights that stand out of their matrix, without data.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ecq/base/backend.hpp"
#include "ecq/base/config.hpp"
#include "ecq/base/result.hpp"
#include "ecq/format/weights_view.hpp"

namespace ecq {

/// Smallest ratio at which an exact weight pays: from there on, its 96 bits gain more than they would if they bought
/// finer steps for all weights. The codes of FP8 E4M3 miss a weight by up to 1/16 of it. At this ratio, that is 4 times
/// the mean magnitude, while all other weights are missed by a part of that mean.
inline constexpr double usual_outlier_ratio = 64;

/// Returns the positions (row * columns + column) of the weights that are at least `ratio` times as large as the mean
/// of the other weights of their row, and of those of their column. This is the rule for super weights (Yu et al. 2024;
/// EntQuant, A.2) without activations. A row or column that is large as a whole has no outliers. If more than one
/// weight in 2^14 stands out (and more than one of the matrix), weights of that size are usual in the matrix, and the
/// result is empty. NaN and infinity do not count. Reads the matrix twice; the result is the same for every number of
/// threads. Errors: invalid_argument for a ratio that is not above 1, out_of_memory.
result<std::vector<std::uint64_t>> find_outliers(const cpu& backend, const weights_view& weights,
                                                 double ratio = usual_outlier_ratio);

}  // namespace ecq

#if ECQ_HEADER_ONLY
#include "ecq/analysis/outliers-inl.hpp"
#endif
