// Finds the peaks of the channels of down projections, and the weights where two of them meet.

#include "super_weights.hpp"

#include <cmath>
#include <limits>
#include <numeric>
#include <tuple>
#include <utility>

#include "ecq/base/matrix_view.hpp"
#include "forward.hpp"
#include "generation.hpp"
#include "kv_cache.hpp"
#include "layer_source.hpp"
#include "linear_layer.hpp"
#include "model.hpp"
#include "thread_pool.hpp"

namespace llama {

namespace {

/// Number of the largest input channels, and of the largest output channels, that are paired with each other.
constexpr std::size_t channels_paired = 25;

/// Raises `peaks`, one for each column, to the magnitudes in `values`. NaN counts as infinite.
void raise_peaks(ecq::matrix_view<const float> values, std::vector<float>& peaks) {
  peaks.resize(values.columns());
  for (std::size_t token = 0; token < values.rows(); ++token) {
    for (std::size_t at = 0; at < peaks.size(); ++at) {
      const float magnitude = std::fabs(values(token, at));
      peaks[at] = (std::max)(peaks[at], std::isnan(magnitude) ? std::numeric_limits<float>::infinity() : magnitude);
    }
  }
}

/// Returns the channels of the largest peaks, in descending order, the first of equal ones first.
std::vector<std::size_t> largest_channels(const std::vector<float>& peaks) {
  std::vector<std::size_t> channels(peaks.size());
  std::iota(channels.begin(), channels.end(), std::size_t{0});
  const std::size_t count = (std::min)(channels_paired, channels.size());
  std::partial_sort(channels.begin(), channels.begin() + static_cast<std::ptrdiff_t>(count), channels.end(),
                    [&](std::size_t left, std::size_t right) {
                      return std::pair(-peaks[left], left) < std::pair(-peaks[right], right);
                    });
  channels.resize(count);
  return channels;
}

/// Orders weights by descending strength. Many share a channel that limits them all; these are ordered by their other
/// channel.
bool stronger(const super_weight& left, const super_weight& right) noexcept {
  const auto key = [](const super_weight& one) {
    return std::tuple(-one.strength(), -(std::max)(one.input, one.output), one.layer, one.expert, one.row, one.column);
  };
  return key(left) < key(right);
}

/// Sets each weight to an element of the product with an input that is 1 in its column. Thus coded weights need not be
/// decoded.
ecq::result<void> read_weights(const model& from, thread_pool& pool, std::span<super_weight> weights) {
  std::vector<float> in(from.config().intermediate), out(from.config().hidden);
  for (std::size_t layer = 0; layer < from.config().layers; ++layer) {
    ECQ_TRY(matrices, from.layers().layer(layer));
    for (super_weight& one : weights) {
      if (one.layer != layer) continue;
      const linear_layer& down = *matrices[matrix_index(projection::down, one.expert)];
      in[one.column] = 1;
      ECQ_CHECK(down.multiply(pool, {in.data(), 1, in.size()}, {out.data(), 1, out.size()}));
      in[one.column] = 0;
      one.weight = out[one.row];
    }
  }
  return {};
}

}  // namespace

ecq::result<super_weights> find_super_weights(const model& from, thread_pool& pool,
                                              std::span<const std::uint32_t> tokens, const super_weight_options& how) {
  if (!(how.threshold >= 0)) {
    return ecq::error(ecq::errc::invalid_argument, "threshold is ", how.threshold, ", not 0 or more");
  }
  if (tokens.empty()) return ecq::error(ecq::errc::invalid_argument, "no tokens");
  struct peaks {
    std::vector<float> in, out;
  };
  const std::size_t experts = (std::max)(from.config().mixture.experts, std::size_t{1});
  std::vector<peaks> all(from.config().layers * experts);
  forward_pass pass(from, pool);
  pass.observe_down(
      [&](std::size_t layer, std::size_t expert, ecq::matrix_view<const float> in, ecq::matrix_view<const float> out) {
        raise_peaks(in, all[layer * experts + expert].in);
        raise_peaks(out, all[layer * experts + expert].out);
      });
  kv_cache cache(from.config());
  for (auto rest = tokens; !rest.empty();) {
    const auto now = rest.first((std::min)(rest.size(), detail::tokens_per_pass));
    ECQ_CHECK(pass.run(now, cache));
    rest = rest.subspan(now.size());
  }
  super_weights seen;
  for (std::size_t network = 0; network < all.size(); ++network) {
    const std::size_t layer = network / experts, expert = network % experts;
    const auto& [in, out] = all[network];
    const auto finite = [](float peak) { return std::isfinite(peak); };
    if (!std::ranges::all_of(in, finite) || !std::ranges::all_of(out, finite)) {
      return ecq::error(ecq::errc::non_finite, "tensor '",
                        tensor_name(from.config().mixture, layer, matrix_index(projection::down, expert)),
                        "': an activation is NaN or infinite");
    }
    const std::vector<std::size_t> columns = largest_channels(in);
    for (const std::size_t row : largest_channels(out)) {
      for (const std::size_t column : columns) {
        const super_weight one{layer, expert, row, column, 0, in[column], out[row]};
        (static_cast<double>(one.strength()) > how.threshold ? seen.found : seen.others).push_back(one);
      }
    }
    std::ranges::sort(seen.others, stronger);
    seen.others.resize((std::min)(seen.others.size(), how.others));  // layers may have many experts
  }
  std::ranges::sort(seen.found, stronger);
  ECQ_CHECK(read_weights(from, pool, seen.found));
  ECQ_CHECK(read_weights(from, pool, seen.others));
  return seen;
}

}  // namespace llama
