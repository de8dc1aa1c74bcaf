#pragma once
/// \file
/// Parts of a model, which many jobs compress.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "ecq/base/config.hpp"
#include "ecq/base/result.hpp"

namespace ecq {

/// Some of the files of a folder. Many jobs each compress a part.
struct folder_part {
  std::size_t index = 0;
  std::size_t count = 1;
};

/// What a part of a model takes, or all parts together.
struct part_size {
  std::uint64_t bytes = 0;    ///< of the streams and scales that a target of bits is about
  std::uint64_t weights = 0;  ///< in them
};

/// Makes processes that compress parts of one model agree. Each calls it with what its part takes, or with why it has
/// failed, and gets the sum over all parts, or the error of one. All call it equally often, until one has failed:
/// before files get their names, and whenever it depends on all parts how to go on.
using part_agreement = std::function<result<part_size>(const result<part_size>&)>;

namespace detail {

/// The parts of `count`, one for each file, so that all have about as many bytes: the largest files are dealt first,
/// each to the part that has least. The same files give the same parts.
std::vector<std::size_t> deal_files(std::span<const std::uint64_t> bytes, std::size_t count);

/// What all parts of a model have in `mine`, or the error of one.
result<part_size> agree_on(const part_agreement& agree, const result<part_size>& mine);

/// Agrees whether all parts have come as far as `mine`.
result<void> agree_on(const part_agreement& agree, const result<void>& mine);

}  // namespace detail
}  // namespace ecq

#if ECQ_HEADER_ONLY
#include "ecq/checkpoint/model_parts-inl.hpp"
#endif
