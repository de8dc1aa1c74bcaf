#pragma once
/// \file
/// Checks that a container is whole, and measures how far its weights are from the original's.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "ecq/analysis/weight_error.hpp"
#include "ecq/base/backend.hpp"
#include "ecq/base/config.hpp"
#include "ecq/base/result.hpp"
#include "ecq/checkpoint/progress.hpp"

namespace ecq {

/// Comparison of one tensor of a container with that of the original.
struct tensor_verification {
  std::string name;
  std::uint64_t weights = 0;
  bool compressed = false;
  bool lossless = false;   ///< compressed without loss
  bool identical = false;  ///< bit for bit, type included
  weight_error error;      ///< if neither: error of the weights that decompress_checkpoint writes
};

/// Result of verify_checkpoint() for undamaged files; damage is reported as an error.
struct verify_report {
  std::vector<tensor_verification> tensors;  ///< empty unless compared
  bool compared = false;                     ///< with an original
  weight_error total;                        ///< error of all compressed tensors that are not lossless
  std::size_t checksums = 0;                 ///< number of checksums checked: of header, tensors and chunks
  bool same_file = false;                    ///< every file of the original comes back byte for byte

  /// Whether every tensor is bit for bit the original's.
  bool identical() const noexcept {
    return compared && std::all_of(tensors.begin(), tensors.end(),
                                   [](const tensor_verification& tensor) { return tensor.identical; });
  }
};

/// Checks every checksum of the container `in`, or of all containers in a folder, and decodes every chunk. With
/// `original` (a path that checkpoint::open takes), also checks that all of its tensors are there in the same shape,
/// compares tensors that are lossless or not compressed bit for bit (errc::checksum_mismatch names the first that
/// differs), and measures the distortion of the others as decompress_checkpoint writes them by default.
/// errc::non_finite names the first of these whose original holds NaN or infinity.
result<verify_report> verify_checkpoint(const cpu& backend, const std::filesystem::path& in,
                                        const std::optional<std::filesystem::path>& original = std::nullopt,
                                        const progress_callback& report_progress = {});

}  // namespace ecq

#if ECQ_HEADER_ONLY
#include "ecq/checkpoint/verify_checkpoint-inl.hpp"
#endif
