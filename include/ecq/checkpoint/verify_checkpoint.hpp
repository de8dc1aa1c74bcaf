#pragma once
/// \file
/// Is a container whole, and how far are its weights from the original's?

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

/// One tensor of a container beside the original's.
struct tensor_verification {
  std::string name;
  std::uint64_t weights = 0;
  bool compressed = false;
  bool lossless = false;   ///< compressed without loss
  bool identical = false;  ///< bit for bit, type included
  weight_error error;      ///< of a tensor that is neither: decoded weights, as FP32, against the original ones
};

/// What verify_checkpoint found; damage is an error instead.
struct verify_report {
  std::vector<tensor_verification> tensors;  ///< empty unless compared
  bool compared = false;                     ///< with an original
  weight_error total;                        ///< of all compressed tensors that are not lossless
  std::size_t checksums = 0;                 ///< checked: header, tensors and chunks

  /// Every tensor is bit for bit the original's.
  bool identical() const noexcept {
    return compared && std::all_of(tensors.begin(), tensors.end(),
                                   [](const tensor_verification& tensor) { return tensor.identical; });
  }
};

/// Checks every checksum of the container `in` and decodes every chunk. With `original` (what checkpoint::open takes),
/// all of its tensors must be there in the same shape, those that are not compressed or lossless bit for bit
/// (errc::checksum_mismatch names the first that differs), and the distortion of the others is measured.
result<verify_report> verify_checkpoint(const cpu& backend, const std::filesystem::path& in,
                                        const std::optional<std::filesystem::path>& original = std::nullopt,
                                        const progress_callback& report_progress = {});

}  // namespace ecq

#if ECQ_HEADER_ONLY
#include "ecq/checkpoint/verify_checkpoint-inl.hpp"
#endif
