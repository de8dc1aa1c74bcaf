#pragma once
/// \file
/// Search for the lambdas with which the matrices of a model meet a rate.

#include <cstdint>
#include <span>
#include <vector>

#include "ecq/base/backend.hpp"
#include "ecq/base/config.hpp"
#include "ecq/base/result.hpp"
#include "ecq/methods/method.hpp"
#include "ecq/quantize/target_bits.hpp"

namespace ecq::detail {

/// Smallest number of weights of a matrix that must meet a rate of its own. With `each_matrix`, a smaller matrix that
/// cannot meet the rate alone, because of its scales and its share of tables, takes the geometric mean of the other
/// matrices' lambdas.
inline constexpr std::uint64_t least_weights_of_a_rate = 4096;

/// Finds the lambda of every matrix, before its factors (named_weights::lambda_factor). All matrices have the same
/// lambda, with which they together take `target` bits per weight. With `each_matrix`, each matrix has a lambda of its
/// own, with which it takes `target` bits per weight alone. Tables, states and indexes of the streams count, and so do
/// scales. Errors: those of lambda_for_bits(), which name the matrix if only one is wrong.
result<std::vector<double>> find_lambdas(const cpu& backend, matrix_streams streams, double target, bool each_matrix,
                                         const method_setting& setting, const quantizer_at_lambda& quantizer);

/// Returns `found` or, if that is errc::non_finite, the error that the matrices themselves give, since searches see
/// only samples of their rows.
error name_non_finite(const cpu& backend, std::span<const named_weights* const> matrices, const error& found);

}  // namespace ecq::detail

#if ECQ_HEADER_ONLY
#include "ecq/methods/lambda_search-inl.hpp"
#endif
