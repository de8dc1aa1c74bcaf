#pragma once
/// \file
/// Second moments of the inputs of a layer, summed up from rows of activations.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "ecq/base/backend.hpp"
#include "ecq/base/config.hpp"
#include "ecq/base/matrix_view.hpp"
#include "ecq/base/out_of_memory.hpp"
#include "ecq/base/result.hpp"
#include "ecq/calibrated/panel_product.hpp"
#include "ecq/format/fp32.hpp"

namespace ecq {

/// Moments of a layer's inputs for error feedback, as means over tokens. An engine may compute them in any way, or with
/// moment_sums.
struct input_moments {
  std::size_t width = 0;       ///< columns of an input, and of the matrices that it is multiplied with
  std::uint64_t tokens = 0;    ///< number of tokens that the means are taken over
  std::vector<double> second;  ///< E[x x^T], width x width, symmetric; x is the input in the model quantised so far
  /// E[y x^T], width x width, where y is the input in the original model; empty: y = x.
  std::vector<double> cross{};

  /// Fails with errc::invalid_argument if sizes do not fit, there are no tokens, or the second moments are not
  /// symmetric or cannot be moments (|E[a b]|^2 > E[a^2] E[b^2]); with errc::non_finite for NaN and infinity. Only a
  /// factorisation (input_factor::make) finds errors that no pair of columns shows.
  result<void> check(const cpu& backend) const;
};

/// Running sums of the moments of inputs. Sums over 256 tokens are FP32, and the sum of these is FP64. Neither the
/// number of threads nor the division of tokens among calls changes a bit.
class moment_sums {
 public:
  /// Width of the widest input; its moments take 32 GiB.
  static constexpr std::size_t most_columns = std::size_t{1} << 16;

  /// Makes empty sums for inputs of `width` columns; with_cross: for pairs of inputs. Memory: 8 bytes for every pair of
  /// columns, with cross moments 16. Errors: errc::invalid_argument for no columns, errc::limit_exceeded,
  /// errc::out_of_memory.
  static result<moment_sums> create(std::size_t width, bool with_cross = false);

  /// Adds tokens, a row of inputs each. `original` are the inputs of the same tokens in the original model, if there
  /// are cross moments; otherwise empty. Errors: errc::invalid_argument for other shapes; errc::non_finite for NaN and
  /// infinity, naming row and column. On such an error, nothing is added.
  result<void> add(const cpu& backend, matrix_view<const float> inputs, matrix_view<const float> original = {});

  std::uint64_t tokens() const noexcept { return tokens_; }

  /// Returns the means. Errors: errc::invalid_argument without tokens, errc::non_finite for sums beyond FP32.
  result<input_moments> finish(const cpu& backend) &&;

 private:
  static constexpr std::size_t slab_tokens = 256;

  result<void> check(matrix_view<const float> rows, std::size_t tokens) const;
  /// Copies a row to panels of `columns` columns, which lie panel after panel, token after token.
  void place(matrix_view<const float> rows, std::size_t row, std::size_t columns, std::vector<float>& panels) const;
  result<void> add_slab(const cpu& backend);

  std::size_t width_ = 0;
  std::uint64_t tokens_ = 0;
  std::size_t waiting_ = 0;          ///< tokens in the slab
  std::vector<float> left_, right_;  ///< inputs of the slab, as panels of panel_columns and of lanes_of_rows
  std::vector<float> original_;      ///< laid out like left_
  std::vector<double> second_;       ///< on and above the diagonal
  std::vector<double> cross_;
};

inline result<void> input_moments::check(const cpu& backend) const {
  if (width == 0 || tokens == 0) {
    return error(errc::invalid_argument, "moments of ", width, " columns and ", tokens,
                 " tokens: both must be at least 1");
  }
  if (width > moment_sums::most_columns || second.size() != width * width ||
      (!cross.empty() && cross.size() != width * width)) {
    return error(errc::invalid_argument, second.size(), " second and ", cross.size(), " cross moments do not fit ",
                 width, " columns");
  }
  return parallel_for(backend, width, [&](std::size_t row) -> result<void> {
    const auto not_finite = [](const std::vector<double>& moments, std::size_t at) {
      return !moments.empty() && !std::isfinite(moments[at]);
    };
    for (std::size_t column = 0; column < width; ++column) {
      const std::size_t at = row * width + column;
      const double moment = second[at], of_row = second[row * width + row], of_column = second[column * width + column];
      const double mirrored = second[column * width + row];
      if (not_finite(second, at) || not_finite(cross, at) || !std::isfinite(mirrored) || !std::isfinite(of_row) ||
          !std::isfinite(of_column)) {
        return error(errc::non_finite, "moments of columns ", row, " and ", column, " are NaN or infinite");
      }
      const double most = std::sqrt(of_row) * std::sqrt(of_column);
      if (!(std::fabs(moment) <= most * (1 + 1e-4))) {
        return error(errc::invalid_argument, "E[a b] = ", moment, " of columns ", row, " and ", column,
                     " is impossible where E[a^2] and E[b^2] are ", of_row, " and ", of_column);
      }
      if (!(std::fabs(moment - mirrored) <= most * 1e-6)) {
        return error(errc::invalid_argument, "the moments of columns ", row, " and ", column,
                     " are not symmetric: ", moment, " and ", mirrored);
      }
    }
    return {};
  });
}

inline result<moment_sums> moment_sums::create(std::size_t width, bool with_cross) {
  if (width == 0) return error(errc::invalid_argument, "moments need at least 1 column");
  if (width > most_columns) {
    return error(errc::limit_exceeded, "moments of ", width, " columns, more than ", most_columns);
  }
  const auto failed = [&] { return error(errc::out_of_memory, "no memory for the moments of ", width, " columns"); };
  return detail::or_out_of_memory(failed, [&]() -> result<moment_sums> {
    moment_sums made;
    made.width_ = width;
    const auto panels = [&](std::size_t columns) {
      return std::vector<float>((width + columns - 1) / columns * columns * slab_tokens);
    };
    made.left_ = panels(detail::panel_columns);
    made.right_ = panels(detail::lanes_of_rows);
    made.second_.resize(width * width);
    if (with_cross) {
      made.original_ = made.left_;
      made.cross_.resize(width * width);
    }
    return made;
  });
}

inline result<void> moment_sums::check(matrix_view<const float> rows, std::size_t tokens) const {
  if (rows.rows() != tokens || (tokens != 0 && rows.columns() != width_)) {
    return error(errc::invalid_argument, rows.rows(), " x ", rows.columns(), " inputs, not ", tokens, " x ", width_);
  }
  for (std::size_t row = 0; row < tokens; ++row) {
    for (std::size_t column = 0; column < width_; ++column) {
      if (!fp32::is_finite(std::bit_cast<std::uint32_t>(rows(row, column)))) {
        return error(errc::non_finite, "input at row ", row, ", column ", column, " is NaN or infinite");
      }
    }
  }
  return {};
}

inline void moment_sums::place(matrix_view<const float> rows, std::size_t row, std::size_t columns,
                               std::vector<float>& panels) const {
  for (std::size_t column = 0; column < width_; ++column) {
    panels[(column / columns * slab_tokens + waiting_) * columns + column % columns] = rows(row, column);
  }
}

inline result<void> moment_sums::add(const cpu& backend, matrix_view<const float> inputs,
                                     matrix_view<const float> original) {
  ECQ_CHECK(check(inputs, inputs.rows()));
  ECQ_CHECK(check(original, cross_.empty() ? 0 : inputs.rows()));
  for (std::size_t row = 0; row < inputs.rows(); ++row) {
    place(inputs, row, detail::panel_columns, left_);
    place(inputs, row, detail::lanes_of_rows, right_);
    if (!cross_.empty()) place(original, row, detail::panel_columns, original_);
    ++tokens_;
    if (++waiting_ == slab_tokens) ECQ_CHECK(add_slab(backend));
  }
  return {};
}

inline result<void> moment_sums::add_slab(const cpu& backend) {
  using detail::lanes_of_rows, detail::panel_columns;
  const auto isa = chosen_instruction_set(backend.isa);
  const auto add_band = [&](std::size_t first_row, const std::vector<float>& panels, std::size_t first_column,
                            std::vector<double>& sums) {
    std::vector<float> tile(panel_columns * lanes_of_rows);
    for (std::size_t column = first_column; column < width_; column += lanes_of_rows) {
      std::fill(tile.begin(), tile.end(), 0.0F);
      detail::subtract_products(tile.data(), panels.data() + first_row * slab_tokens,
                                right_.data() + column * slab_tokens, waiting_, isa);
      const std::size_t rows = (std::min)(panel_columns, width_ - first_row);
      const std::size_t columns = (std::min)(lanes_of_rows, width_ - column);
      for (std::size_t i = 0; i < rows; ++i) {
        double* const to = &sums[(first_row + i) * width_ + column];
        for (std::size_t j = 0; j < columns; ++j) to[j] -= static_cast<double>(tile[i * lanes_of_rows + j]);
      }
    }
  };
  ECQ_CHECK(parallel_for(backend, (width_ + panel_columns - 1) / panel_columns, [&](std::size_t panel) -> result<void> {
    const std::size_t row = panel * panel_columns;
    add_band(row, left_, row / lanes_of_rows * lanes_of_rows, second_);
    if (!cross_.empty()) add_band(row, original_, 0, cross_);
    return {};
  }));
  waiting_ = 0;
  return {};
}

inline result<input_moments> moment_sums::finish(const cpu& backend) && {
  if (tokens_ == 0) return error(errc::invalid_argument, "moments need at least 1 token");
  ECQ_CHECK(add_slab(backend));
  input_moments made{width_, tokens_, std::move(second_), std::move(cross_)};
  const auto count = static_cast<double>(tokens_);
  ECQ_CHECK(parallel_for(backend, width_, [&](std::size_t row) -> result<void> {
    for (std::size_t column = row; column < width_; ++column) {
      double& moment = made.second[row * width_ + column];
      moment /= count;
      if (column != row) made.second[column * width_ + row] = moment;
      if (!std::isfinite(moment)) {
        return error(errc::non_finite, "the products of columns ", row, " and ", column, " are beyond FP32");
      }
    }
    if (made.cross.empty()) return {};
    for (std::size_t column = 0; column < width_; ++column) {
      double& moment = made.cross[row * width_ + column];
      moment /= count;
      if (!std::isfinite(moment)) {
        return error(errc::non_finite, "the products of columns ", row, " and ", column, " are beyond FP32");
      }
    }
    return {};
  }));
  return made;
}

}  // namespace ecq
