#pragma once
/// \file
/// Factor of the second moments of a layer's inputs for error feedback, made once for all matrices with these inputs.
/// Needs Eigen 3.3 (target ecq::calibrated).

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "ecq/base/backend.hpp"
#include "ecq/base/config.hpp"
#include "ecq/base/out_of_memory.hpp"
#include "ecq/base/result.hpp"
#include "ecq/calibrated/input_moments.hpp"
#include "ecq/calibrated/panel_product.hpp"
#include "ecq/calibrated/reversed_cholesky.hpp"

namespace ecq {

/// Options for input_factor::make().
struct factor_options {
  /// Share of the mean E[x^2] that is added to E[x^2] of every column. Above 0, at most 1000.
  double damping = 0.01;
  /// Number of tokens needed for each column. Fewer tokens show what those tokens have in common, not what inputs have
  /// in common; more tokens are better, up to 20. 0 accepts any number: with one token, an error goes where that token
  /// does not see it, and the weights become worse for all other tokens.
  double least_tokens_per_column = 1;
};

/// Factor R of H = E[x x^T] with damping d: H + d = R R^T with R upper triangular. Let w be the weights of a row and q
/// the quantised weights, which are chosen one after another; then
///
///   E|sum (w - q) x|^2 + d |w - q|^2 = sum over k of R_kk^2 (w_k - q_k + sum over j < k of (w_j - q_j) R_jk / R_kk)^2,
///
/// so each q_k should be near w_k + sum over j < k of (w_j - q_j) R_jk / R_kk. (With U = R^-1, which is the upper
/// Cholesky factor of (H + d)^-1, this is GPTQ's W[:, j+1:] -= e U[j, j+1:] with e = (w - q) / U_jj, without an
/// inverse.) A column of zeros gets no feedback and gives none, so it is rounded to nearest; so are all columns if H is
/// a multiple of the identity or 0.
class input_factor {
 public:
  /// Makes the factor of `moments`. Memory: 6 bytes for every pair of columns while it is made, and then 2; with cross
  /// moments 12, and then 6. Errors: those of input_moments::check; errc::invalid_argument for options out of range,
  /// for too few tokens, and for second moments that are indefinite in spite of damping; errc::out_of_memory.
  static result<input_factor> make(const cpu& backend, const input_moments& moments, const factor_options& how = {});

  std::size_t width() const noexcept { return width_; }
  /// Whether the inputs differ from those of the original model.
  bool corrects() const noexcept { return !shift_.empty(); }
  /// Returns R_kk^2 for column k, the cost of the error w_k - q_k, in units of the mean E[x^2].
  float importance(std::size_t column) const noexcept { return importance_[column]; }

  /// Sets `targets` to the values that the weights of a panel should be near, apart from feedback. With the inputs of
  /// the original model, these are the weights themselves. With other inputs x, q x should be near w y, where y are the
  /// original inputs and C = E[y x^T]. So w becomes w' = w + share * w (C - H) (H + d)^-1. Since w' R is all that
  /// counts, each w_k moves by share * (w (C - H) R^-T)_k / R_kk, and the feedback remains that of w. `weights` are all
  /// columns, side by side; `targets` has panel_columns x lanes_of_rows.
  void load_targets(std::size_t panel, double share, const float* weights, float* targets, instruction_set isa) const;

  /// Returns R_jk / R_kk for the panel_columns columns k of a panel: a row for every column j up to the panel's last, 0
  /// unless j < k.
  std::span<const float> feedback_of_panel(std::size_t panel) const noexcept {
    return std::span(upper_).subspan(panel_begin(panel), rows_of_panel(panel) * detail::panel_columns);
  }

 private:
  std::size_t panels() const noexcept { return (width_ + detail::panel_columns - 1) / detail::panel_columns; }
  /// Returns the number of rows of panel `panel` of an upper triangle.
  static std::size_t rows_of_panel(std::size_t panel) noexcept { return (panel + 1) * detail::panel_columns; }
  static std::size_t panel_begin(std::size_t panel) noexcept {
    return detail::panel_columns * detail::panel_columns * (panel * (panel + 1) / 2);
  }

  result<void> take_panels(const cpu& backend, const detail::lower_triangle& lower);
  result<void> take_shift(const cpu& backend, const detail::lower_triangle& lower, const input_moments& moments,
                          double mean);

  std::size_t width_ = 0;
  std::vector<float> upper_;       ///< R_jk / R_kk, by panels of k: rows j = 0 ... the last k, 0 where j > k
  std::vector<float> importance_;  ///< R_kk^2
  std::vector<float> shift_;       ///< ((H - C) R^-T)_jk / R_kk, by panels of k: rows j = 0 ... width; empty: 0
};

namespace detail {

/// Solves for the columns of a panel, from the last one to the first: tile[k] -= sum over the solved i > k of
/// coefficients[i * panel_columns + k] * tile[i].
ECQ_EXACT_FLOAT inline void solve_panel(float* tile, const float* coefficients) {
  ECQ_EXACT_FLOAT_BODY
  for (std::size_t solved = panel_columns; solved-- > 0;) {
    const float* const from = tile + solved * lanes_of_rows;
    for (std::size_t column = 0; column < solved; ++column) {
      const float factor = coefficients[solved * panel_columns + column];
      float* const to = tile + column * lanes_of_rows;
      for (std::size_t row = 0; row < lanes_of_rows; ++row) to[row] -= factor * from[row];
    }
  }
}

/// Multiplies values[k][row] by factors[k].
ECQ_EXACT_FLOAT inline void scale_columns(float* values, std::span<const float> factors) {
  ECQ_EXACT_FLOAT_BODY
  for (std::size_t column = 0; column < factors.size(); ++column) {
    for (std::size_t row = 0; row < lanes_of_rows; ++row) values[column * lanes_of_rows + row] *= factors[column];
  }
}

/// Sets `shifts` to weights + share * shifts.
ECQ_EXACT_FLOAT inline void shift_from(const float* weights, float share, std::size_t count, float* shifts) {
  ECQ_EXACT_FLOAT_BODY
  for (std::size_t at = 0; at < count; ++at) shifts[at] = weights[at] + share * shifts[at];
}

}  // namespace detail

inline result<input_factor> input_factor::make(const cpu& backend, const input_moments& moments,
                                               const factor_options& how) {
  if (!(how.damping > 0) || !(how.damping <= 1000) || !(how.least_tokens_per_column >= 0)) {
    return error(errc::invalid_argument, "damping ", how.damping, " or least_tokens_per_column ",
                 how.least_tokens_per_column, " is out of range");
  }
  ECQ_CHECK(moments.check(backend));
  const std::size_t width = moments.width;
  if (static_cast<double>(moments.tokens) < how.least_tokens_per_column * static_cast<double>(width)) {
    return error(errc::invalid_argument, moments.tokens, " tokens for ", width, " columns, but each column needs ",
                 how.least_tokens_per_column);
  }
  const auto failed = [&] { return error(errc::out_of_memory, "no memory for the factor of ", width, " columns"); };
  return detail::or_out_of_memory(failed, [&]() -> result<input_factor> {
    double mean = 0;
    for (std::size_t column = 0; column < width; ++column) {
      mean += moments.second[column * width + column] / static_cast<double>(width);
    }
    if (!(mean < (std::numeric_limits<double>::max)() / 2)) {
      return error(errc::non_finite, "the mean of E[x^2] is beyond FP64");
    }
    input_factor made;
    made.width_ = width;
    // The factor of the matrix with rows and columns in reverse order is R in reverse order.
    detail::lower_triangle lower(width);
    const double unit = mean == 0 ? 1 : mean;
    ECQ_CHECK(parallel_for(backend, lower.blocks(), [&](std::size_t number) -> result<void> {
      constexpr std::size_t side = detail::lower_triangle::rows_of_block;
      double* const block = lower.block(number);
      for (std::size_t column = 0; column < number * side + lower.rows(number); ++column) {
        const double* const from = &moments.second[(width - 1 - column) * width];  // symmetric
        for (std::size_t at = column / side == number ? column % side : 0; at < lower.rows(number); ++at) {
          block[column * side + at] = from[width - 1 - (number * side + at)] / unit;
        }
        if (column / side == number) block[column * side + column % side] += how.damping;
      }
      return {};
    }));
    ECQ_TRY(factorized, detail::factorize(backend, lower));
    if (factorized != width) {
      const std::size_t last = width - 1 - factorized;
      return error(errc::invalid_argument, "the second moments are indefinite at column ", last,
                   " or up to 127 columns before it");
    }
    ECQ_CHECK(made.take_panels(backend, lower));
    if (!moments.cross.empty() && moments.cross != moments.second) {
      ECQ_CHECK(made.take_shift(backend, lower, moments, unit));
    }
    return made;
  });
}

inline result<void> input_factor::take_panels(const cpu& backend, const detail::lower_triangle& lower) {
  using detail::panel_columns;
  const auto r = [&](std::size_t row, std::size_t column) { return lower(width_ - 1 - row, width_ - 1 - column); };
  upper_.resize(panel_begin(panels()));
  importance_.resize(width_);
  return parallel_for(backend, panels(), [&](std::size_t panel) -> result<void> {
    const std::size_t first = panel * panel_columns;
    const std::size_t columns = (std::min)(panel_columns, width_ - first);
    float* const up = &upper_[panel_begin(panel)];
    for (std::size_t at = 0; at < columns; ++at) {
      const std::size_t column = first + at;
      const double inverse = 1 / r(column, column);
      importance_[column] = static_cast<float>(r(column, column) * r(column, column));
      for (std::size_t row = 0; row < column; ++row) {
        up[row * panel_columns + at] = static_cast<float>(r(row, column) * inverse);
      }
    }
    return {};
  });
}

inline result<void> input_factor::take_shift(const cpu& backend, const detail::lower_triangle& lower,
                                             const input_moments& moments, double mean) {
  using detail::lanes_of_rows, detail::panel_columns;
  const auto r = [&](std::size_t row, std::size_t column) { return lower(width_ - 1 - row, width_ - 1 - column); };
  const std::size_t padded = panels() * panel_columns;
  // R_kj / R_kk for j > k, by panels of k: rows j = the first k ... the padded width.
  std::vector<float> coefficients(padded * padded - panel_begin(panels() - 1));
  const auto of_panel = [&](std::size_t panel) {
    return &coefficients[panel * padded * panel_columns - (panel == 0 ? 0 : panel_begin(panel - 1))];
  };
  std::vector<float> inverse_diagonal(width_);
  ECQ_CHECK(parallel_for(backend, panels(), [&](std::size_t panel) -> result<void> {
    const std::size_t first = panel * panel_columns;
    const std::size_t columns = (std::min)(panel_columns, width_ - first);
    float* const down = of_panel(panel);
    double inverses[panel_columns];
    for (std::size_t at = 0; at < columns; ++at) {
      inverses[at] = 1 / r(first + at, first + at);
      inverse_diagonal[first + at] = static_cast<float>(inverses[at]);
    }
    for (std::size_t row = 1; first + row < width_; ++row) {
      for (std::size_t at = 0; at < (std::min)(columns, row); ++at) {
        down[row * panel_columns + at] = static_cast<float>(r(first + at, first + row) * inverses[at]);
      }
    }
    return {};
  }));
  // X R^T = H - C, solved for some rows of X at a time, from the last column to the first.
  shift_.resize(padded * width_);
  const auto isa = chosen_instruction_set(backend.isa);
  return parallel_for(backend, (width_ + lanes_of_rows - 1) / lanes_of_rows, [&](std::size_t block) -> result<void> {
    const std::size_t first_row = block * lanes_of_rows;
    const std::size_t rows = (std::min)(lanes_of_rows, width_ - first_row);
    std::vector<float> solved(padded * lanes_of_rows);
    for (std::size_t row = 0; row < rows; ++row) {
      for (std::size_t column = 0; column < width_; ++column) {
        const std::size_t place = (first_row + row) * width_ + column;
        solved[column * lanes_of_rows + row] =
            static_cast<float>((moments.second[place] - moments.cross[place]) / mean);
      }
    }
    detail::scale_columns(solved.data(), inverse_diagonal);
    for (std::size_t panel = panels(); panel-- > 0;) {
      float* const tile = &solved[panel * panel_columns * lanes_of_rows];
      detail::subtract_products(tile, of_panel(panel) + panel_columns * panel_columns,
                                tile + panel_columns * lanes_of_rows, padded - (panel + 1) * panel_columns, isa);
      detail::solve_panel(tile, of_panel(panel));
    }
    detail::scale_columns(solved.data(), inverse_diagonal);
    for (std::size_t column = 0; column < width_; ++column) {
      float* const to = &shift_[(column / panel_columns * width_ + first_row) * panel_columns + column % panel_columns];
      for (std::size_t row = 0; row < rows; ++row) to[row * panel_columns] = solved[column * lanes_of_rows + row];
    }
    return {};
  });
}

inline void input_factor::load_targets(std::size_t panel, double share, const float* weights, float* targets,
                                       instruction_set isa) const {
  using detail::lanes_of_rows, detail::panel_columns;
  const float* const own = weights + panel * panel_columns * lanes_of_rows;
  if (shift_.empty() || share == 0) {
    std::copy_n(own, panel_columns * lanes_of_rows, targets);
    return;
  }
  std::fill_n(targets, panel_columns * lanes_of_rows, 0.0F);
  detail::subtract_products(targets, &shift_[panel * width_ * panel_columns], weights, width_, isa);
  detail::shift_from(own, static_cast<float>(share), panel_columns * lanes_of_rows, targets);
}

}  // namespace ecq
