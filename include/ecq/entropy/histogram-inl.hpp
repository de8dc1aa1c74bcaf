#pragma once
/// \file
/// Definition of histograms.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <span>

#include "ecq/entropy/histogram.hpp"

namespace ecq {

ECQ_INLINE void histogram::add(std::span<const std::uint8_t> codes) noexcept {
  // Eight counters per value: with one, a run of the same value would wait for its last store every time. The
  // counters are narrow, to stay in the cache, so each holds a limited number of codes.
  constexpr std::size_t piece = std::size_t{1} << 31;
  for (; codes.size() > piece; codes = codes.subspan(piece)) add(codes.first(piece));
  std::uint32_t part[8][256] = {};
  std::size_t at = 0;
  for (; at + 8 <= codes.size(); at += 8) {
    std::uint64_t eight = 0;
    std::memcpy(&eight, codes.data() + at, 8);
    ECQ_UNROLL
    for (std::size_t i = 0; i < 8; ++i) ++part[i][(eight >> (8 * i)) & 0xFFU];
  }
  for (; at < codes.size(); ++at) ++part[0][codes[at]];
  for (std::size_t value = 0; value < 256; ++value) {
    for (const auto& counted : part) counts[value] += counted[value];
  }
}

namespace detail {

/// Calls `count(first, size, histogram)` for pieces of the `size` elements, on all threads of `backend`, and sums up
/// the histograms.
template <class Count>
result<histogram> count_in_pieces(const cpu& backend, std::size_t size, Count&& count) {
  constexpr std::size_t piece = std::size_t{1} << 20;
  histogram all;
  std::mutex guard;
  ECQ_CHECK(parallel_for(backend, (size + piece - 1) / piece, [&](std::size_t index) -> result<void> {
    histogram part;
    count(index * piece, (std::min)(piece, size - index * piece), part);
    const std::scoped_lock lock(guard);
    all += part;
    return {};
  }));
  return all;
}

}  // namespace detail

ECQ_INLINE result<histogram> count_codes(const cpu& backend, std::span<const std::uint8_t> codes) {
  return detail::count_in_pieces(backend, codes.size(), [&](std::size_t first, std::size_t size, histogram& part) {
    part.add(codes.subspan(first, size));
  });
}

ECQ_INLINE result<histogram> count_exponents(const cpu& backend, dtype format, std::span<const std::byte> elements) {
  return visit_split(format, [&]<class Split>() {
    constexpr std::size_t width = sizeof(typename Split::element);
    return detail::count_in_pieces(
        backend, elements.size() / width, [&](std::size_t first, std::size_t size, histogram& part) {
          for (std::size_t at = first; at < first + size; ++at) {
            typename Split::element value;
            std::memcpy(&value, elements.data() + at * width, width);
            ++part.counts[static_cast<std::size_t>(Split::arrange(value) >> low_bits<Split>)];
          }
        });
  });
}

}  // namespace ecq
