#pragma once
/// \file
/// Parts of a model, which many jobs compress.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <new>
#include <numeric>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

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
inline std::vector<std::size_t> deal_files(std::span<const std::uint64_t> bytes, std::size_t count) {
  std::vector<std::size_t> order(bytes.size()), part_of(bytes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater(), [&](std::size_t file) { return bytes[file]; });
  std::vector<std::pair<std::uint64_t, std::size_t>> heap;  // bytes of each part, and its number
  for (std::size_t part = 0; part < (std::min)(count, bytes.size()); ++part) heap.emplace_back(0, part);
  for (const std::size_t file : order) {
    std::ranges::pop_heap(heap, std::greater());
    part_of[file] = heap.back().second;
    heap.back().first += bytes[file];
    std::ranges::push_heap(heap, std::greater());
  }
  return part_of;
}

/// Calls `work`, and makes a lack of memory an error. Processes that work together agree on errors, so none may leave
/// by an exception.
template <class Work>
auto without_exceptions(std::string_view needed_for, Work&& work) -> decltype(work()) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return error(errc::out_of_memory, "no memory for ", needed_for);
  }
}

/// What all parts of a model have in `mine`, or the error of one.
inline result<part_size> agree_on(const part_agreement& agree, const result<part_size>& mine) {
  return agree ? agree(mine) : mine;
}

/// Agrees whether all parts have come as far as `mine`.
inline result<void> agree_on(const part_agreement& agree, const result<void>& mine) {
  ECQ_TRY(all, agree_on(agree, mine ? result<part_size>(part_size{}) : result<part_size>(mine.error())));
  static_cast<void>(all);
  return {};
}

}  // namespace detail
}  // namespace ecq
