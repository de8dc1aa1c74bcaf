#pragma once
/// \file
/// EntQuant on a device: a group of threads (base/threads.hpp) quantises a row, with one scale per row, to the codes
/// and scales of scaled_quantizer<row_root<>>.

#include <concepts>
#include <cstddef>
#include <cstdint>

#include "ecq/base/config.hpp"
#include "ecq/base/result.hpp"
#include "ecq/base/threads.hpp"
#include "ecq/format/bf16.hpp"
#include "ecq/format/dtype.hpp"
#include "ecq/quantize/balanced_scale.hpp"
#include "ecq/quantize/regularizer.hpp"
#include "ecq/quantize/rounding.hpp"
#include "ecq/quantize/row_sample.hpp"
#include "ecq/quantize/stored_scale.hpp"

namespace ecq {

/// rows x columns weights of fp32, bf16 or fp16 (little-endian) as kernels see them: all rows of a matrix, or a sample
/// of them (row_sample). Rows of a sample are counted through the stream of matrices that it belongs to. A weight that
/// is not finite is reported by its number, first_number + row of the stream * numbers_per_row + column.
struct kernel_weights {
  /// Address of weight (0, 0) of the matrix, aligned to its size. For a matrix of a stream, address of weight (0, 0) of
  /// the stream as if all its rows lay like those of this matrix; nothing need be there.
  const std::byte* data = nullptr;
  std::uint64_t rows = 0;
  std::uint64_t columns = 0;
  std::uint64_t row_stride = 0;  ///< in elements, of the matrix
  std::uint64_t first_number = 0;
  std::uint64_t numbers_per_row = 0;
  std::uint64_t step = 1;
  std::uint64_t first = 0;
  std::uint64_t rows_of_stream = 0;
  dtype type = dtype::fp32;

  /// Returns the row of the stream that is row `row` of these rows.
  ECQ_HOST_DEVICE std::uint64_t row_of_stream(std::uint64_t row) const {
    return detail::sampled_row(first + row, step, rows_of_stream);
  }
};

/// Summary of a row, needed to quantise it.
struct row_summary {
  double magnitudes;      ///< sum of the magnitudes, times 2^-exponent
  float largest;          ///< magnitude, times 2^-exponent; 0 for a row of zeros or with a weight that is not finite
  std::int32_t exponent;  ///< exponent_of_group
};

/// Returns the number of threads for a row of `columns` weights: one for each sum in its order of summation.
ECQ_HOST_DEVICE constexpr unsigned threads_of_row(std::uint64_t columns) noexcept {
  return static_cast<unsigned>(detail::row_sums(columns));
}

/// Threads that quantise a row, one for each sum in its order of summation. `lead` and `decide` give all threads the
/// result of one thread's call; `multiply` and `divide` round once, whatever the compiler's options.
template <class Group>
concept row_group =
    stepped_group<Group> && requires(Group& group, const typename Group::template own<std::uint32_t>& values,
                                     const typename Group::template own<detail::group_sums>& sums, int (*leading)(),
                                     int (*deciding)(const detail::group_sums&), std::uint64_t number, float narrow,
                                     double wide, const float* from, float (&four)[4]) {
      { group.largest(values) } -> std::same_as<std::uint32_t>;
      { group.lead(leading) } -> std::same_as<int>;
      { group.decide(sums, deciding) } -> std::same_as<int>;
      group.report(errc::non_finite, number);
      { Group::multiply(narrow, narrow) } -> std::same_as<float>;
      { Group::multiply(wide, wide) } -> std::same_as<double>;
      { Group::divide(narrow, narrow) } -> std::same_as<float>;
      { Group::bits_of_fp16(std::uint32_t{}) } -> std::same_as<std::uint32_t>;
      Group::load_four(from, four);
    };

/// A callable that takes the codes of a row: `sink(column, codes, count)`.
template <class Sink>
concept row_sink = requires(const Sink& sink, std::uint64_t column, const std::uint32_t (&codes)[4],
                            std::uint32_t count) { sink(column, codes, count); };

/// Number of weights that are staged at once if a row is longer than the room for it.
inline constexpr std::uint64_t staged_segment = 8192;

namespace detail {

/// Weights of a row as FP32, in memory that the threads share: all at once if they fit, otherwise segment by segment,
/// read anew for each walk. The weights that a thread sums up lie side by side, in parts of four; the weights of
/// neighbouring threads lie in different banks.
template <row_group Group>
class staged_row {
 public:
  /// `staging`, aligned to 16 bytes, has room for `capacity` weights: those of the row, padded to whole tiles, or a
  /// multiple of 4096.
  ECQ_HOST_DEVICE staged_row(Group& group, const kernel_weights& weights, std::uint64_t row, float* staging,
                             std::uint64_t capacity)
      : group_(group),
        weights_(weights),
        from_(weights.data + weights.row_of_stream(row) * weights.row_stride * width(weights.type)),
        staging_(staging),
        capacity_(capacity) {}

  /// Calls body(first, count) for each segment once it is staged; all threads call it together.
  template <class Body>
  ECQ_HOST_DEVICE void each_segment(Body&& body) {
    const bool whole = weights_.columns <= capacity_;
    for (std::uint64_t first = 0; first < weights_.columns; first += capacity_) {
      const std::uint64_t left = weights_.columns - first;
      const std::uint64_t count = left < capacity_ ? left : capacity_;
      if (!whole || !staged_) {
        group_.sync();
        stage(first, static_cast<std::uint32_t>(count));
        group_.sync();
        staged_ = true;
      }
      body(first, static_cast<std::uint32_t>(count));
    }
  }

  /// Returns the bits of the largest magnitude that each thread has staged so far; the bits of NaN and infinity exceed
  /// those of any number.
  ECQ_HOST_DEVICE const typename Group::template own<std::uint32_t>& largest_bits() const { return largest_; }

  /// Sums up the weights in the order of row_sums(), in every thread's own `sums`. `term(weight, distortion, kept)`
  /// adds to `distortion` and `kept`, two FP32 numbers.
  template <class Term>
  ECQ_HOST_DEVICE void sum(typename Group::template own<group_sums>& sums, const Term& term) {
    each_segment([&](std::uint64_t, std::uint32_t count) {
      Group::each_thread([&](std::uint32_t thread) {
        group_sums own = Group::at(sums, thread);
        const std::uint32_t units = (count + tile_weights - 1) / tile_weights * lanes_of_tile;
        for (std::uint32_t unit = thread; unit < units; unit += Group::size()) {
          float distortion = 0.0F;
          float kept = 0.0F;
          ECQ_UNROLL
          for (std::uint32_t part = 0; part < 4; ++part) {
            float four[4];
            Group::load_four(staging_ + place(unit, 4 * part), four);
            ECQ_UNROLL
            for (const float weight : four) term(weight, distortion, kept);
          }
          own += {static_cast<double>(distortion), static_cast<double>(kept)};
        }
        Group::at(sums, thread) = own;
      });
    });
  }

  /// Returns weight number `index` of the segment.
  ECQ_HOST_DEVICE float at(std::uint32_t index) const {
    return staging_[place(index / tile_weights * lanes_of_tile + index % lanes_of_tile,
                          index / lanes_of_tile % (tile_weights / lanes_of_tile))];
  }

  /// Returns the column of the first weight that is not finite among those that `thread` checks, or at least the row's
  /// length if there is none.
  ECQ_HOST_DEVICE std::uint64_t first_non_finite(std::uint32_t thread) const {
    std::uint64_t column = thread;
    while (column < weights_.columns && (bits_at(column) & 0x7f800000U) != 0x7f800000U) column += Group::size();
    return column;
  }

 private:
  /// Returns the place of weight `step` (of 16) of sum `unit`.
  ECQ_HOST_DEVICE static std::uint32_t place(std::uint32_t unit, std::uint32_t step) {
    return unit * 16 + ((step ^ (unit << 1)) & 12U) + step % 4;
  }

  ECQ_HOST_DEVICE static constexpr std::uint32_t width(dtype type) { return type == dtype::fp32 ? 4 : 2; }

  ECQ_HOST_DEVICE const std::byte* address(std::uint64_t column) const { return from_ + column * width(weights_.type); }

  ECQ_HOST_DEVICE std::uint32_t bits_at(std::uint64_t column) const {
    if (weights_.type == dtype::fp32) return Group::memory::template load<std::uint32_t>(address(column));
    const std::uint32_t half = Group::memory::template load<std::uint16_t>(address(column));
    return weights_.type == dtype::bf16 ? half << 16 : Group::bits_of_fp16(half);
  }

  ECQ_HOST_DEVICE void stage(std::uint64_t first, std::uint32_t count) {
    switch (weights_.type) {
      case dtype::fp32: return stage_as<dtype::fp32>(first, count);
      case dtype::bf16: return stage_as<dtype::bf16>(first, count);
      default: return stage_as<dtype::fp16>(first, count);
    }
  }

  template <dtype Type>
  ECQ_HOST_DEVICE void stage_as(std::uint64_t first, std::uint32_t count) {
    constexpr std::uint32_t at_once = 16 / width(Type);
    const std::byte* const from = address(first);
    const bool aligned = reinterpret_cast<std::uintptr_t>(from) % 16 == 0;
    const std::uint32_t padded = (count + tile_weights - 1) / tile_weights * tile_weights;
    Group::each_thread([&](std::uint32_t thread) {
      std::uint32_t largest = Group::at(largest_, thread);
      for (std::uint32_t index = at_once * thread; index < padded; index += at_once * Group::size()) {
        std::uint32_t bits[at_once];
        if (aligned && index + at_once <= count) {
          std::uint32_t words[4];
          Group::memory::load_16_bytes(from + std::size_t{index} * width(Type), words);
          ECQ_UNROLL
          for (std::uint32_t i = 0; i < at_once; ++i) bits[i] = unpack<Type>(words, i);
        } else {
          ECQ_UNROLL
          for (std::uint32_t i = 0; i < at_once; ++i) bits[i] = index + i < count ? bits_at(first + index + i) : 0U;
        }
        const std::uint32_t unit = index / tile_weights * lanes_of_tile + index % lanes_of_tile;
        const std::uint32_t step = index / lanes_of_tile % (tile_weights / lanes_of_tile);
        ECQ_UNROLL
        for (std::uint32_t i = 0; i < at_once; ++i) {
          const std::uint32_t magnitude = bits[i] & 0x7fffffffU;
          largest = largest < magnitude ? magnitude : largest;
          staging_[place(unit + i, step)] = __builtin_bit_cast(float, bits[i]);
        }
      }
      Group::at(largest_, thread) = largest;
    });
  }

  template <dtype Type>
  ECQ_HOST_DEVICE static std::uint32_t unpack(const std::uint32_t (&words)[4], std::uint32_t i) {
    if constexpr (Type == dtype::fp32) {
      return words[i];
    } else if constexpr (Type == dtype::bf16) {
      return i % 2 == 0 ? words[i / 2] << 16 : words[i / 2] & 0xffff0000U;
    } else {
      return Group::bits_of_fp16(words[i / 2] >> (16 * (i % 2)) & 0xffffU);
    }
  }

  Group& group_;
  const kernel_weights& weights_;
  const std::byte* from_;  ///< the row's first weight: one address to keep instead of the matrix and a row number
  float* staging_;
  std::uint64_t capacity_;
  bool staged_ = false;
  typename Group::template own<std::uint32_t> largest_{};
};

}  // namespace detail

/// Returns the summary of row `row` to every thread, and reports weights that are not finite. `staging` and `capacity`
/// are those of staged_row; Group::size() is threads_of_row().
template <row_group Group>
ECQ_HOST_DEVICE row_summary
summarize_row(Group& group, const kernel_weights& weights, std::uint64_t row,
              float* staging,  // NOLINT(readability-non-const-parameter): staged_row writes to it
              std::uint64_t capacity) {
  detail::staged_row<Group> staged(group, weights, row, staging, capacity);
  staged.each_segment([](std::uint64_t, std::uint32_t) {});
  const std::uint32_t bits = group.largest(staged.largest_bits());
  if (bits >= 0x7f800000U) {
    Group::each_thread([&](std::uint32_t thread) {
      const std::uint64_t column = staged.first_non_finite(thread);
      if (column < weights.columns) {
        group.report(errc::non_finite,
                     weights.first_number + weights.row_of_stream(row) * weights.numbers_per_row + column);
      }
    });
    return {0.0, 0.0F, 0};
  }
  const auto largest = __builtin_bit_cast(float, bits);
  const int exponent = detail::exponent_of_group(largest);
  const float factor = detail::power_of_two(-exponent);
  typename Group::template own<detail::group_sums> sums{};
  staged.sum(sums,
             [&](float weight, float& sum, float&) { sum += detail::magnitude_of(Group::multiply(weight, factor)); });
  return group.decide(sums, [&](const detail::group_sums& all) {
    return row_summary{all.distortion, Group::multiply(largest, factor), exponent};
  });
}

/// Returns the sum of all magnitudes of a matrix to every thread. Rows are summed in the order of
/// detail::sum_over_groups() and count for at most detail::balance_limit_of().
template <row_group Group>
ECQ_HOST_DEVICE double sum_of_rows(Group& group, const row_summary* rows, std::uint64_t count) {
  static_assert(Group::size() == detail::most_row_sums);
  const auto number = [&](std::uint64_t i) {
    return Group::multiply(rows[i].magnitudes, detail::power_of_two_f64(rows[i].exponent));
  };
  std::uint32_t exponent = 0;  // the largest that enough rows have or exceed
  for (std::uint32_t bit = 1024; bit != 0; bit /= 2) {
    typename Group::template own<detail::group_sums> counts{};
    Group::each_thread([&](std::uint32_t thread) {
      double above = 0;
      double all = 0;
      for (std::uint64_t i = thread; i < count; i += Group::size()) {
        if (number(i) == 0.0) continue;
        all += 1;
        if (detail::biased_exponent(number(i)) >= exponent + bit) above += 1;
      }
      Group::at(counts, thread) = {above, all};
    });
    exponent += group.decide(counts, [&](const detail::group_sums& sums) {
      return detail::enough_for_balance(sums.distortion, sums.kept) ? bit : 0U;
    });
  }
  const double limit = detail::balance_limit(exponent);
  typename Group::template own<detail::group_sums> sums{};
  Group::each_thread([&](std::uint32_t thread) {
    double sum = 0;
    for (std::uint64_t i = thread; i < count; i += Group::size()) sum += number(i) < limit ? number(i) : limit;
    Group::at(sums, thread).distortion = sum;
  });
  return group.decide(sums, [](const detail::group_sums& all) { return all.distortion; });
}

namespace detail {

/// Scale at which to evaluate a row next or, once finished, its stored scale.
struct row_step {
  float scale;
  float inverse;  ///< 1 / scale
  bool finished;
};

template <row_group Group>
ECQ_HOST_DEVICE row_step step_at(float scale, bool finished) noexcept {
  return {scale, Group::divide(1.0F, scale), finished};
}

template <row_group Group, class Format>
ECQ_HOST_DEVICE row_step stored_step(float scale, int exponent) noexcept {
  const bf16 stored = stored_scale<Format>(denormalize<Format>(scale, exponent));
  return step_at<Group>(static_cast<float>(stored), true);
}

/// Adds one weight w to the sums. Its magnitude is |w * factor|, not |w| * factor, since taking a magnitude may flush a
/// subnormal number to zero.
template <row_group Group, class Format>
ECQ_HOST_DEVICE void add_at_scale(float weight, float factor, const row_step& at, float& distortion, float& kept) {
  const float magnitude = magnitude_of(Group::multiply(weight, factor));
  const float value = rounding<Format>::nearest(smaller_of(magnitude * at.inverse, Format::largest));
  distortion += magnitude_of(value * at.scale - magnitude);  // the product is exact
  if (value > 0.0F) kept += magnitude;
}

/// Finds the stored scale of a row, and returns the finished step to every thread.
template <class Format, row_group Group>
ECQ_HOST_DEVICE row_step find_scale(Group& group, balanced_scale_search& search, staged_row<Group>& staged,
                                    const row_summary& row, std::uint64_t columns, double balance) {
  row_step step = group.lead([&] {
    if (!(row.largest > 0.0F)) return step_at<Group>(1.0F, true);
    if (balance == 0.0) return stored_step<Group, Format>(Group::divide(row.largest, Format::largest), row.exponent);
    const double balance_here = balance * power_of_two_f64(-row.exponent);
    search = search_of_group<Format, Group>(1, balance_here, row.magnitudes, columns, row.largest);
    return step_at<Group>(search.scale(), false);
  });
  const float factor = power_of_two(-row.exponent);
  while (!step.finished) {
    typename Group::template own<group_sums> sums{};
    staged.sum(sums, [&](float weight, float& distortion, float& kept) {
      add_at_scale<Group, Format>(weight, factor, step, distortion, kept);
    });
    step = group.decide(sums, [&](const group_sums& all) {
      search.take(all);
      return search.finished() ? stored_step<Group, Format>(search.scale(), row.exponent)
                               : step_at<Group>(search.scale(), false);
    });
  }
  return step;
}

}  // namespace detail

/// Returns the balance that all rows of a matrix share, lambda * weight * mean magnitude; 0 stands for AbsMax.
template <class Format>
ECQ_HOST_DEVICE double balance_of_rows(double lambda, double magnitudes, std::uint64_t weights) noexcept {
  return lambda * detail::l1_weight<Format> * (magnitudes / static_cast<double>(weights));
}

/// Quantises row `row`; Group::size() is threads_of_row(). The codes go to sink(column, codes, count), 16 at a time,
/// low byte first, of which the first `count` are valid. Returns the bits of the BF16 scale to every thread. `search`
/// is memory of the leading thread.
template <class Format, row_group Group, row_sink Sink>
ECQ_HOST_DEVICE std::uint16_t quantize_row(Group& group, const kernel_weights& weights, std::uint64_t row,
                                           const row_summary& summary, double balance,
                                           detail::balanced_scale_search& search,
                                           float* staging,  // NOLINT(readability-non-const-parameter): as above
                                           std::uint64_t capacity, const Sink& sink) {
  detail::staged_row<Group> staged(group, weights, row, staging, capacity);
  const detail::row_step step = detail::find_scale<Format>(group, search, staged, summary, weights.columns, balance);
  staged.each_segment([&](std::uint64_t first, std::uint32_t count) {
    Group::each_thread([&](std::uint32_t thread) {
      for (std::uint32_t index = 16 * thread; index < count; index += 16 * Group::size()) {
        std::uint32_t codes[4] = {};
        ECQ_UNROLL
        for (std::uint32_t i = 0; i < 16; ++i) {
          const float real = Group::multiply(staged.at(index + i), step.inverse);
          codes[i / 4] |= detail::rounding<Format>::encode(real) << (8 * (i % 4));
        }
        sink(first + index, codes, count - index < 16 ? count - index : 16U);
      }
    });
  });
  return static_cast<std::uint16_t>(__builtin_bit_cast(std::uint32_t, step.scale) >> 16);
}

/// Writes up to 16 codes of a row to row + column.
template <row_group Group>
ECQ_HOST_DEVICE void store_codes(std::uint8_t* row, std::uint64_t column, const std::uint32_t (&codes)[4],
                                 std::uint32_t count) {
  std::uint8_t* const to = row + column;
  const auto alignment = reinterpret_cast<std::uintptr_t>(to);
  if (count == 16 && alignment % 16 == 0) return Group::memory::store_16_bytes(reinterpret_cast<std::byte*>(to), codes);
  ECQ_UNROLL
  for (std::uint32_t i = 0; i < 16; ++i) {
    if (i < count) to[i] = static_cast<std::uint8_t>(codes[i / 4] >> (8 * (i % 4)));
  }
}

}  // namespace ecq
