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
#include "ecq/entropy/histogram_avx512.hpp"

namespace ecq {

namespace detail {

/// Counts codes one by one, with eight counters per value. With only one, a run of the same value would wait for its
/// last store every time. The counters are narrow, to stay in the cache, so they hold at most 2^32 - 1 codes.
struct split_counters {
  void add(std::span<const std::uint8_t> codes) noexcept {
    std::size_t at = 0;
    for (; at + 8 <= codes.size(); at += 8) {
      std::uint64_t eight = 0;
      std::memcpy(&eight, codes.data() + at, 8);
      ECQ_UNROLL
      for (std::size_t i = 0; i < 8; ++i) ++part[i][(eight >> (8 * i)) & 0xFFU];
    }
    for (; at < codes.size(); ++at) ++part[0][codes[at]];
  }

  void add_to(std::uint64_t* counts) const noexcept {
    for (std::size_t value = 0; value < 256; ++value) {
      for (const auto& counted : part) counts[value] += counted[value];
    }
  }

  std::uint32_t part[8][256] = {};
};

#if ECQ_X86
/// Counts whole batches of `codes`: those in a window are added to `counts`, the others to `others`. Counts nothing if
/// too few codes lie in any window. Returns the codes that are left.
inline std::span<const std::uint8_t> count_in_window(std::span<const std::uint8_t> codes, split_counters& others,
                                                     std::uint64_t* counts) {
  constexpr unsigned sample = 512;
  constexpr std::size_t batch = avx512::window_counter::batch;
  if (codes.size() < 2 * batch) return codes;
  const avx512::code_window window = avx512::code_window::of(codes.data(), sample);
  if (window.inside < sample / 2) return codes;
  avx512::window_counter counter(window);
  std::uint8_t listed[batch + 64];
  for (; codes.size() >= batch; codes = codes.subspan(batch)) {
    others.add(std::span(listed).first(counter.add(codes.data(), listed)));
  }
  counter.add_to(counts);
  return codes;
}
#endif

}  // namespace detail

ECQ_INLINE void histogram::add(std::span<const std::uint8_t> codes, [[maybe_unused]] instruction_set isa) noexcept {
  constexpr std::size_t counters_hold = std::size_t{1} << 31;
  for (; codes.size() > counters_hold; codes = codes.subspan(counters_hold)) add(codes.first(counters_hold), isa);
  detail::split_counters one_by_one;
#if ECQ_X86
  if (chosen_instruction_set(isa) == instruction_set::avx512) {
    // Codes further on may lie in another window.
    constexpr std::size_t piece = std::size_t{1} << 17;
    for (; codes.size() > piece; codes = codes.subspan(piece)) {
      one_by_one.add(detail::count_in_window(codes.first(piece), one_by_one, counts.data()));
    }
    codes = detail::count_in_window(codes, one_by_one, counts.data());
  }
#endif
  one_by_one.add(codes);
  one_by_one.add_to(counts.data());
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
    part.add(codes.subspan(first, size), backend.isa);
  });
}

ECQ_INLINE result<histogram> count_exponents(const cpu& backend, dtype format, std::span<const std::byte> elements) {
  return visit_split(format, [&]<class Split>() {
    constexpr std::size_t width = sizeof(typename Split::element);
    return detail::count_in_pieces(
        backend, elements.size() / width, [&](std::size_t first, std::size_t size, histogram& part) {
          constexpr std::size_t room = std::size_t{1} << 14;
          std::uint8_t exponents[room];
          for (const std::size_t end = first + size; first < end;) {
            const std::size_t count = (std::min)(room, end - first);
            for (std::size_t i = 0; i < count; ++i, ++first) {
              typename Split::element value;
              std::memcpy(&value, elements.data() + first * width, width);
              exponents[i] = static_cast<std::uint8_t>(Split::arrange(value) >> low_bits<Split>);
            }
            part.add({exponents, count}, backend.isa);
          }
        });
  });
}

}  // namespace ecq
