#pragma once
/// \file
/// Integer frequencies that approximate a histogram with the least possible loss, the same on every machine.

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "ecq/base/config.hpp"
#include "ecq/base/host_group.hpp"
#include "ecq/base/threads.hpp"
#include "ecq/entropy/histogram.hpp"

namespace ecq {

/// The symbols that occur, in ascending order, and their frequencies (1 .. 2^scale_bits), which sum to 2^scale_bits.
struct frequency_table {
  unsigned scale_bits = 0;
  unsigned count = 0;  ///< 1 .. 256
  std::array<std::uint8_t, 256> symbols{};
  std::array<std::uint32_t, 256> frequencies{};

  bool operator==(const frequency_table&) const = default;
};

namespace detail {

/// Returns std::bit_width(value) for device code, which cannot call that function.
ECQ_HOST_DEVICE constexpr unsigned bit_width(std::uint64_t value) noexcept {
  unsigned width = 0;
  for (unsigned step = 32; step != 0; step /= 2) {
    if (value >> step != 0) {
      value >>= step;
      width += step;
    }
  }
  return width + static_cast<unsigned>(value);
}

/// Computes log2_fixed() of several values side by side, so that their chains of dependent multiplications overlap.
template <std::size_t Count>
ECQ_HOST_DEVICE constexpr void log2_fixed_of(const std::uint32_t (&values)[Count],
                                             std::uint64_t (&logarithms)[Count]) noexcept {
  std::uint64_t whole[Count] = {};
  std::uint64_t mantissa[Count] = {};  // in [1, 2), 31 fraction bits
  std::uint64_t fraction[Count] = {};
  ECQ_UNROLL
  for (std::size_t i = 0; i < Count; ++i) {
    whole[i] = bit_width(values[i]) - 1;
    mantissa[i] = std::uint64_t{values[i]} << (31 - whole[i]);
  }
  for (int step = 0; step < 32; ++step) {
    ECQ_UNROLL
    for (std::size_t i = 0; i < Count; ++i) {
      mantissa[i] = (mantissa[i] * mantissa[i]) >> 31;
      const std::uint64_t bit = mantissa[i] >> 32;
      fraction[i] = (fraction[i] << 1) | bit;
      mantissa[i] >>= bit;
    }
  }
  ECQ_UNROLL
  for (std::size_t i = 0; i < Count; ++i) logarithms[i] = (whole[i] << 32) | fraction[i];
}

}  // namespace detail

/// Returns log2(value) in units of 2^-32, rounded down to within 4 units. Uses integer arithmetic only. Precondition:
/// value >= 1.
ECQ_HOST_DEVICE constexpr std::uint64_t log2_fixed(std::uint32_t value) noexcept {
  std::uint64_t logarithm[1] = {};
  detail::log2_fixed_of({value}, logarithm);
  return logarithm[0];
}

namespace detail {

/// Meaning of frequency_work::next: not known, the symbol's gain after it gets one unit more, or its loss after it gets
/// one unit less.
enum class next_price : std::uint8_t { none, more, less };

/// A frequency table under construction, in memory that the threads of a group share.
struct frequency_work {
  std::uint32_t count;        ///< number of symbols that occur
  std::uint8_t symbols[256];  ///< the symbols that occur, ascending
  std::uint64_t counts[256];  ///< how often each of these symbols occurs
  std::uint32_t frequencies[256];
  std::uint64_t weight[256];
  std::uint64_t gain[256];  ///< gain from one unit more
  std::uint64_t loss[256];  ///< loss from one unit less
  std::uint64_t next[256];  ///< gain after one unit more, or loss after one less, if next_for says that it is known
  next_price next_for[256];
};

/// Returns the first index below `count` whose value is largest, or smallest if `Least`.
template <bool Least, shuffling_group Group>
ECQ_HOST_DEVICE std::uint32_t first_extreme(const Group& group, const std::uint64_t* values, std::uint32_t count) {
  std::uint64_t best = 0;
  std::uint32_t where = group.rank();
  for (std::uint32_t i = group.rank(); i < count; i += group.size()) {
    const std::uint64_t value = Least ? ~values[i] : values[i];
    if (value > best) {
      best = value;
      where = i;
    }
  }
  return group.first_of_largest(best, where);
}

/// Lists in `work` the symbols that occur according to counts[0], ..., counts[255], and their counts.
template <shuffling_group Group>
ECQ_HOST_DEVICE void list_symbols(const Group& group, const std::uint64_t* counts, frequency_work& work) {
  const std::uint32_t each = 256 / group.size();
  const std::uint32_t first = group.rank() * each;
  std::uint32_t present = 0;
  for (std::uint32_t symbol = first; symbol < first + each; ++symbol) present += counts[symbol] != 0 ? 1 : 0;
  std::uint32_t all = 0;
  std::uint32_t at = group.exclusive_sum(present, all);
  for (std::uint32_t symbol = first; symbol < first + each; ++symbol) {
    if (counts[symbol] == 0) continue;
    work.symbols[at] = static_cast<std::uint8_t>(symbol);
    work.counts[at++] = counts[symbol];
  }
  if (group.rank() == 0) work.count = all;
  group.sync();
}

/// Computes the frequencies of the symbols listed in `work`, of which there is at least one, as the public
/// normalize_frequencies() describes. The cost is convex in each frequency, so an allocation from which no single unit
/// can be moved with profit is optimal. The search starts near the proportional allocation and moves units, always
/// where it gains most or hurts least.
template <shuffling_group Group>
ECQ_HOST_DEVICE void normalize_frequencies(const Group& group, unsigned scale_bits, frequency_work& work) {
  const std::uint32_t count = work.count;
  const auto each = [&](auto&& use) {
    for (std::uint32_t i = group.rank(); i < count; i += group.size()) use(i);
  };
  // Keeps 31 bits of the counts, so that count * log2 fits in 64 bits.
  std::uint64_t own = 0;
  each([&](std::uint32_t i) { own += work.counts[i]; });
  const unsigned width = bit_width(group.sum(own));
  const unsigned shift = width > 31 ? width - 31 : 0;
  own = 0;
  each([&](std::uint32_t i) {
    const std::uint64_t weight = work.counts[i] >> shift;
    work.weight[i] = weight != 0 ? weight : 1;
    own += work.weight[i];
  });
  const std::uint64_t total = group.sum(own);
  constexpr std::uint64_t impossible = ~std::uint64_t{0};
  const auto price = [&](std::uint32_t i) {
    const std::uint32_t f = work.frequencies[i];
    std::uint64_t logarithms[3] = {};
    log2_fixed_of({f > 1 ? f - 1 : 1U, f, f + 1}, logarithms);
    work.gain[i] = work.weight[i] * (logarithms[2] - logarithms[1]);
    work.loss[i] = f > 1 ? work.weight[i] * (logarithms[1] - logarithms[0]) : impossible;
    work.next_for[i] = next_price::none;
  };
  const auto price_next = [&](std::uint32_t i, next_price which) {
    const bool more = which == next_price::more;
    const std::uint32_t f = work.frequencies[i];
    const std::uint32_t low = more ? f + 1 : f > 2 ? f - 2 : 1U;
    std::uint64_t logarithms[2] = {};
    log2_fixed_of({low, low + 1}, logarithms);
    work.next[i] = more || f > 2 ? work.weight[i] * (logarithms[1] - logarithms[0]) : impossible;
    work.next_for[i] = which;
  };
  own = 0;
  each([&](std::uint32_t i) {
    const std::uint64_t share = (work.weight[i] << scale_bits) / total;
    work.frequencies[i] = share != 0 ? static_cast<std::uint32_t>(share) : 1;
    own += work.frequencies[i];
    price(i);
  });
  std::uint64_t sum = group.sum(own);
  group.sync();
  // Logarithms take longer than all else, so each thread computes those of one symbol, and moves use known values.
  const auto change = [&](std::uint32_t i, next_price which) {
    const bool known = work.next_for[i] == which;
    group.sync();
    if (!known) {
      const std::uint32_t mine = i - i % group.size() + group.rank();
      if (mine < count && work.next_for[mine] != which) price_next(mine, which);
      group.sync();
    }
    if (i % group.size() == group.rank()) {
      const bool more = which == next_price::more;
      work.frequencies[i] += more ? 1U : ~std::uint32_t{0};
      std::uint64_t& there = more ? work.gain[i] : work.loss[i];
      std::uint64_t& back = more ? work.loss[i] : work.gain[i];
      const std::uint64_t further_back = back;
      back = there;
      there = work.next[i];
      work.next[i] = further_back;
      work.next_for[i] = more ? next_price::less : next_price::more;
    }
    group.sync();
  };
  const std::uint64_t wanted = std::uint64_t{1} << scale_bits;
  for (;;) {
    const std::uint32_t up = first_extreme<false>(group, work.gain, count);
    if (sum == wanted) {
      const std::uint32_t down = first_extreme<true>(group, work.loss, count);
      if (up == down || work.gain[up] <= work.loss[down]) return;
    }
    if (sum <= wanted) {
      change(up, next_price::more);
      ++sum;
    }
    if (sum > wanted) {
      change(first_extreme<true>(group, work.loss, count), next_price::less);
      --sum;
    }
  }
}

/// Returns the information, in bits, of `count` symbols with these counts and frequencies, as the public coded_bits()
/// defines it.
template <shuffling_group Group>
ECQ_HOST_DEVICE std::uint64_t coded_bits(const Group& group, const std::uint64_t* counts,
                                         const std::uint32_t* frequencies, std::uint32_t count, unsigned scale_bits) {
  std::uint64_t sum = 0;  // in 2^-16 bit: below 2^64 for 2^43 codes of at most 16 bits
  for (std::uint32_t i = group.rank(); i < count; i += group.size()) {
    const std::uint64_t each = (std::uint64_t{scale_bits} << 32) - log2_fixed(frequencies[i]);
    sum += counts[i] * (each >> 16);
  }
  return (group.sum(sum) >> 16) + 1;
}

}  // namespace detail

/// Returns the frequencies that minimise the cross entropy -sum(count * log2(frequency / 2^scale_bits)), where symbols
/// that occur have frequencies of at least 1. Precondition: at least one symbol occurs, and 8 <= scale_bits <= 16.
inline frequency_table normalize_frequencies(const histogram& codes, unsigned scale_bits) {
  detail::frequency_work work;
  detail::list_symbols(host_group(), codes.counts.data(), work);
  detail::normalize_frequencies(host_group(), scale_bits, work);
  frequency_table table;
  table.scale_bits = scale_bits;
  table.count = work.count;
  std::copy_n(work.symbols, work.count, table.symbols.begin());
  std::copy_n(work.frequencies, work.count, table.frequencies.begin());
  return table;
}

/// Returns the information of `codes` coded with `table`, in whole bits: the sum of count * (scale_bits -
/// log2(frequency)), rounded down, plus 1. Precondition: every code that occurs is in the table.
inline std::uint64_t coded_bits(const histogram& codes, const frequency_table& table) {
  std::array<std::uint64_t, 256> counts;
  for (std::size_t i = 0; i < table.count; ++i) counts[i] = codes.counts[table.symbols[i]];
  return detail::coded_bits(host_group(), counts.data(), table.frequencies.data(), table.count, table.scale_bits);
}

}  // namespace ecq
