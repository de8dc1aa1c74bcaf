#pragma once
/// \file
/// Definition of the parts of a model.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "ecq/base/config.hpp"
#include "ecq/base/result.hpp"
#include "ecq/checkpoint/model_parts.hpp"

namespace ecq::detail {

ECQ_INLINE std::vector<std::size_t> deal_files(std::span<const std::uint64_t> bytes, std::size_t count) {
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

ECQ_INLINE result<part_size> agree_on(const part_agreement& agree, const result<part_size>& mine) {
  return agree ? agree(mine) : mine;
}

ECQ_INLINE result<void> agree_on(const part_agreement& agree, const result<void>& mine) {
  ECQ_TRY(all, agree_on(agree, mine ? result<part_size>(part_size{}) : result<part_size>(mine.error())));
  static_cast<void>(all);
  return {};
}

}  // namespace ecq::detail
