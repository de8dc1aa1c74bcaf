#pragma once
/// \file
/// The lambdas with which the matrices of a model meet a rate.

#include <cstdint>
#include <span>
#include <vector>

#include "ecq/base/backend.hpp"
#include "ecq/base/config.hpp"
#include "ecq/base/result.hpp"
#include "ecq/methods/method.hpp"
#include "ecq/quantize/target_bits.hpp"

namespace ecq::detail {

/// With `each_matrix`, a matrix of fewer weights that cannot meet the rate alone, for its share of tables and its
/// scales, takes the geometric mean of the other matrices' lambdas.
inline constexpr std::uint64_t least_weights_of_a_rate = 4096;

/// The lambda of every matrix, before its factors (named_weights::lambda_factor): one lambda by which all matrices
/// together take `target` bits per weight or, with `each_matrix`, one for each matrix by which it takes them alone.
/// Tables, states and indexes of the streams count, and so do scales. Errors: those of lambda_for_bits, which name the
/// matrix if only one is wrong.
result<std::vector<double>> find_lambdas(const cpu& backend, matrix_streams streams, double target, bool each_matrix,
                                         const method_setting& setting, const quantizer_at_lambda& quantizer);

/// Returns `found`; if that is errc::non_finite, returns the same error for the matrices themselves, since searches see
/// only samples of their rows.
error name_non_finite(const cpu& backend, std::span<const named_weights* const> matrices, const error& found);

}  // namespace ecq::detail

#if ECQ_HEADER_ONLY
#include "ecq/methods/lambda_search-inl.hpp"
#endif
