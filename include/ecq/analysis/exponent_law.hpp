#pragma once
/// \file
/// Theory of exponent concentration in ECF8 (arXiv:2510.02676, section 2): the distribution and the cost of the
/// exponents E = floor(log2 |w|) of weights that follow a symmetric alpha-stable law, 0 < alpha <= 2 (2: Gaussian, 1:
/// Cauchy). Comes with estimators of alpha, and with our findings from checking the paper's statements.

#include <cmath>
#include <cstdlib>

#include "ecq/analysis/exponent_counts.hpp"
#include "ecq/base/config.hpp"

namespace ecq {

/// Two-sided geometric law (discrete Laplace) of exponents in theorem 2.1 of ECF8,
/// P(E = k) = (1 - q) / (1 + q) * q^|k - centre| with q = 2^-alpha.
///
/// It has the right tail of a stable law for large weights, P(|w| > x) ~ x^-alpha, but decays as fast below: there
/// P(|w| < x) ~ x for every alpha, because the density at 0 is finite. So the exponents of Gaussian weights have 2.5 to
/// 2.6 bits of entropy and not the 1.80 of this law at alpha = 2, and the alpha fitted to them is about 1.2.
struct two_sided_geometric {
  double alpha = 2;  ///< above 0; infinite for exponents that are all the same
  int centre = 0;

  double ratio() const noexcept { return std::exp2(-alpha); }

  double probability(int exponent) const noexcept {
    const double q = ratio();
    const int distance = std::abs(exponent - centre);
    return (1 - q) / (1 + q) * (distance == 0 ? 1.0 : std::exp2(-alpha * distance));
  }

  /// Returns E|k - centre| = 2 q / (1 - q^2).
  double mean_distance() const noexcept { return 2 * ratio() / (1 - ratio() * ratio()); }

  /// Returns -log2 P(centre) + alpha * mean_distance(), in bits. (The expression in the proof of theorem 2.1 has the
  /// binary entropy of P(centre) in place of the logarithm, which gives 2.04 bits instead of 1.80 at alpha = 2.)
  double entropy() const noexcept {
    const double q = ratio();
    return std::log2((1 + q) / (1 - q)) + (q > 0 ? alpha * mean_distance() : 0.0);
  }
};

/// Lower and upper bound of an entropy, in bits.
struct entropy_bounds {
  double lower = 0;
  double upper = 0;
};

/// Returns the bounds of theorem 2.1, alpha / (1 + 2^-alpha) <= H(E) <= alpha / (1 - 2^-alpha), as printed. The entropy
/// of two_sided_geometric is within them only for 1.48 <= alpha <= 2.11: with heavier tails it exceeds the upper bound
/// (at alpha = 1 it is 2.92 bits, the bound is 2), with lighter ones it falls below the lower.
inline entropy_bounds stated_entropy_bounds(double alpha) noexcept {
  const double q = std::exp2(-alpha);
  return {alpha / (1 + q), alpha / (1 - q)};
}

/// Returns the bits of the shortest floating-point format that the theory allows (ECF8, section 2.3): the stated upper
/// bound of the exponent's entropy, a sign, and a mantissa of `mantissa_bits`. For Gaussian weights and one bit of
/// mantissa, this is 2 / (1 - 1/4) + 1 + 1 = 14/3, the "FP4.67" of the paper.
inline double shortest_float_bits(double alpha = 2, double mantissa_bits = 1) noexcept {
  return stated_entropy_bounds(alpha).upper + 1 + mantissa_bits;
}

/// Fits the two-sided geometric law by maximum likelihood, in closed form: the centre is the median of the exponents,
/// and q = d / (1 + sqrt(1 + d^2)), where d is their mean distance from the centre (Inusah and Kozubowski, A discrete
/// analogue of the Laplace distribution, J. Statistical Planning and Inference 136, 2006). Leaves out zeros and weights
/// that are not finite. The entropy of the exponents is at most that of the law, and coding them by the law costs the
/// law's entropy. alpha is NaN if there are no exponents.
two_sided_geometric fit_two_sided_geometric(const exponent_counts& counts) noexcept;

/// Estimates alpha of the symmetric stable law, 0 < alpha <= 2, from the variance of the exponents: for such a law
/// Var(ln |w|) = pi^2 / 6 * (1 / alpha^2 + 1 / 2), whatever its scale (Ma and Nikias, IEEE Trans. Signal Processing 43,
/// 1995; Nikias and Shao, section 5.7), and rounding log2 |w| down to an integer adds 1/12 (Sheppard). Returns 2 for
/// variances below that of Gaussian weights, and NaN if there are no exponents. Leaves out zeros and weights that are
/// not finite.
double fit_stable_alpha(const exponent_counts& counts) noexcept;

}  // namespace ecq

#if ECQ_HEADER_ONLY
#include "ecq/analysis/exponent_law-inl.hpp"
#endif
