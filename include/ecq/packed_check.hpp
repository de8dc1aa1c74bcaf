#pragma once
/// \file
/// What every decoder asks of packed matrices, and compression of what it has made.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "ecq/base/backend.hpp"
#include "ecq/base/config.hpp"
#include "ecq/base/result.hpp"
#include "ecq/format/dtype.hpp"
#include "ecq/packed.hpp"

namespace ecq {

/// Fails with errc::corrupt, naming the matrix, unless `matrices` fit a stream of `symbols` symbols, which holds
/// exponents of `format`, or without one codes: if shapes, scales and exact weights are as packed_matrix says, and no
/// code can become a weight beyond FP32.
result<void> check_matrices(std::span<const packed_matrix> matrices, std::uint64_t symbols,
                            std::optional<dtype> format);

/// Fails with errc::non_finite if one of the matrix's `codes` is no finite number of its format. Precondition: the
/// matrix is not lossless.
result<void> check_codes(const cpu& backend, const packed_matrix& matrix, std::span<const std::uint8_t> codes);

namespace detail {
/// The name of a matrix in errors.
std::string label_of(const packed_matrix& matrix, std::size_t index);
}  // namespace detail

}  // namespace ecq

#if ECQ_HEADER_ONLY
#include "ecq/packed_check-inl.hpp"
#endif
