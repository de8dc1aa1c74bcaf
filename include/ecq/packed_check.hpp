#pragma once
/// \file
/// Checks of packed matrices: by every decoder, and by compression of its own results.

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

/// Fails with errc::corrupt, naming the matrix, unless `matrices` fit a stream of `symbols` symbols, which are
/// exponents of `format`, or codes if there is no format. Shapes, scales and exact weights must be as packed_matrix
/// says, and no code may become a weight beyond FP32.
result<void> check_matrices(std::span<const packed_matrix> matrices, std::uint64_t symbols,
                            std::optional<dtype> format);

/// Fails with errc::non_finite if one of the matrix's `codes` is not a finite number in its format. Precondition: the
/// matrix is not lossless.
result<void> check_codes(const cpu& backend, const packed_matrix& matrix, std::span<const std::uint8_t> codes);

namespace detail {
/// Returns the name of a matrix for error messages.
std::string label_of(const packed_matrix& matrix, std::size_t index);
}  // namespace detail

}  // namespace ecq

#if ECQ_HEADER_ONLY
#include "ecq/packed_check-inl.hpp"
#endif
