#pragma once
/// \file
/// Parts of a model that many jobs compress.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "ecq/base/config.hpp"
#include "ecq/base/result.hpp"

namespace ecq {

/// Some of the files of a folder: part `index` of `count`. Many jobs may compress one part each.
struct folder_part {
  std::size_t index = 0;
  std::size_t count = 1;
};

/// Size of a part of a model, or of all parts together.
struct part_size {
  std::uint64_t bytes = 0;    ///< size of the streams and scales that a target of bits counts
  std::uint64_t weights = 0;  ///< number of weights in them
};

/// Makes processes that compress parts of one model agree. Each process calls it with the size of its part, or with its
/// error, and gets the sum over all parts, or the error of one. All processes call it equally often, until one has
/// failed: before files get their names, and whenever the next step depends on all parts.
using part_agreement = std::function<result<part_size>(const result<part_size>&)>;

namespace detail {

/// Deals files to `count` parts and returns the part of each file. All parts get about the same number of bytes: the
/// largest files are dealt first, each to the part that has least. The same files give the same parts.
std::vector<std::size_t> deal_files(std::span<const std::uint64_t> bytes, std::size_t count);

/// Returns the sum of `mine` over all parts of a model, or the error of one.
result<part_size> agree_on(const part_agreement& agree, const result<part_size>& mine);

/// Returns success if `mine` is success in all parts, or the error of one.
result<void> agree_on(const part_agreement& agree, const result<void>& mine);

}  // namespace detail
}  // namespace ecq

#if ECQ_HEADER_ONLY
#include "ecq/checkpoint/model_parts-inl.hpp"
#endif
