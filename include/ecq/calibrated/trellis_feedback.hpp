#pragma once
/// \file
/// Error feedback for codes on a trellis. Needs Eigen 3.3 (target ecq::calibrated).

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "ecq/base/backend.hpp"
#include "ecq/base/config.hpp"
#include "ecq/base/lanes.hpp"
#include "ecq/base/result.hpp"
#include "ecq/calibrated/error_feedback.hpp"
#include "ecq/calibrated/input_factor.hpp"
#include "ecq/calibrated/panel_product.hpp"
#include "ecq/calibrated/survivor_paths.hpp"
#include "ecq/calibrated/trellis_order.hpp"
#include "ecq/entropy/trellis.hpp"
#include "ecq/format/weights_view.hpp"
#include "ecq/quantize/finite.hpp"
#include "ecq/quantize/trellis_lanes.hpp"
#include "ecq/quantize/trellis_search.hpp"

namespace ecq::detail {

/// A quantiser of one matrix to codes of Int8 on a trellis, one step for all of it.
struct trellis_feedback {
  /// The cost of a bit, in squares of the step. Without feedback, more is better (trellis_rate_weight); here the next
  /// layers suffer from it.
  static constexpr float rate_weight = 0.1F;
  /// How much of step_by_rms::damping there is to be. Paths avoid weights that need many bits, and most of what a path
  /// gains is lost to damping that is meant to avoid them.
  static constexpr double damping_share = 0.1;

  const input_factor* input = nullptr;  ///< of the matrix's inputs in trellis_order, which it outlives; not null
  std::uint64_t first = 0;              ///< where the first weight is in its stream, as in trellis_order
  trellis walk{};                       ///< lanes begin in state 0, and end in it for what follows in the stream
  index_bits bits{};                    ///< of an index by its magnitude
  float step = 1;                       ///< above 0
  double correction = 0.75;             ///< as that of error_feedback

  /// Writes rows * columns codes, row-major; weight = code * step. Errors: those of error_feedback::quantize. Needs
  /// memory for 128 rows a thread, 12 bytes a weight.
  result<void> quantize(const cpu& backend, const weights_view& weights, std::span<std::uint8_t> codes) const;
};

/// Up to lanes_of_rows rows of a matrix on their way to codes. Arrays are by the places of trellis_order, side by side.
class trellis_rows {
 public:
  trellis_rows(const trellis_feedback& how, const weights_view& weights, const trellis_order& order,
               std::span<std::uint8_t> codes, instruction_set isa)
      : how_(how), source_(weights), order_(order), codes_(codes), isa_(isa), paths_(rule_of(how), isa) {
    double all = 0;
    for (std::size_t column = 0; column < weights.columns(); ++column) {
      all += static_cast<double>(how.input->importance(column));
    }
    per_importance_ = static_cast<float>(static_cast<double>(weights.columns()) / all);
  }

  /// Lanes begin in state 0, and end in it unless a period does there.
  result<void> quantize(std::size_t first_row, std::size_t rows) {
    ECQ_CHECK(load(first_row, rows));
    for (std::size_t set = 0; set < order_.sets(); ++set) {
      begin_ = set * order_.columns_of_set();
      end_ = begin_ + order_.columns_of_set();
      set_targets();
      loaded_.clear();
      for (std::size_t lane = set; lane < lane_count; lane += order_.sets()) {
        ECQ_CHECK(quantize_lane(lane));
      }
    }
    return {};
  }

 private:
  static constexpr std::size_t not_loaded = (std::numeric_limits<std::size_t>::max)();

  /// Some places of a row: a part of places_.
  struct run_of_row {
    std::size_t row, first, count;
  };

  static path_rule rule_of(const trellis_feedback& how) {
    path_rule rule{how.walk, how.step, how.bits};
    for (float& cost : rule.index_costs) cost *= trellis_feedback::rate_weight;
    return rule;
  }

  static std::size_t at(std::size_t place, std::size_t row) noexcept { return place * lanes_of_rows + row; }

  /// The position in the stream.
  std::uint64_t position(std::size_t place, std::size_t row) const noexcept {
    return how_.first + std::uint64_t{first_row_ + row} * source_.columns() + order_.columns()[place];
  }

  /// What an error at place j adds to the target of place k > j, negated.
  float feedback(std::size_t j, std::size_t k) const noexcept {
    return how_.input->feedback_of_panel(k / panel_columns)[j * panel_columns + k % panel_columns];
  }

  result<void> load(std::size_t first_row, std::size_t rows) {
    first_row_ = first_row;
    rows_ = rows;
    const std::size_t panels = (source_.columns() + panel_columns - 1) / panel_columns;
    weights_.assign(panels * panel_columns * lanes_of_rows, 0.0F);
    errors_.resize(weights_.size());
    targets_.resize(weights_.size());
    fed_.assign(panels, not_loaded);
    std::vector<float> values(source_.columns());
    for (std::size_t row = 0; row < rows; ++row) {
      source_.load(first_row + row, 0, values);
      ECQ_CHECK(check_finite(values, first_row + row));
      for (std::size_t place = 0; place < values.size(); ++place) {
        weights_[at(place, row)] = values[order_.columns()[place]];
      }
    }
    return {};
  }

  /// Brings the targets of the set up to what is known of the places before.
  void set_targets() {
    for (std::size_t panel = begin_ / panel_columns; panel * panel_columns < end_; ++panel) {
      float* const targets = &targets_[at(panel * panel_columns, 0)];
      if (fed_[panel] == not_loaded) {
        how_.input->load_targets(panel, how_.correction, weights_.data(), targets, isa_);
        fed_[panel] = 0;
      }
      if (fed_[panel] == begin_) continue;
      const float* const feedback = how_.input->feedback_of_panel(panel).data() + fed_[panel] * panel_columns;
      subtract_products(targets, feedback, &errors_[at(fed_[panel], 0)], begin_ - fed_[panel], isa_);
      fed_[panel] = begin_;
    }
  }

  result<void> quantize_lane(std::size_t lane) {
    using last = survivor_paths::last;
    const std::uint64_t period = std::uint64_t{1} << how_.walk.period_bits;
    runs_.clear();
    places_.clear();
    paths_.begin();
    for (std::size_t row = 0; row < rows_; ++row) {
      own_.clear();
      for (std::size_t place = begin_; place < end_; ++place) {
        if (trellis::lane(position(place, row)) == lane) own_.push_back(place);
      }
      load_feedback();
      for (std::size_t first = 0; first < own_.size();) {
        if (position(own_[first], row) % period == lane * rounds_per_group) {  // back to state 0
          ECQ_CHECK(close(last::any));
          paths_.begin();
        }
        std::size_t end = first + 1;
        while (end < own_.size() && position(own_[end], row) % period != lane * rounds_per_group) ++end;
        extend(row, first, end - first);
        first = end;
      }
    }
    const std::uint64_t end = how_.first + std::uint64_t{first_row_ + rows_} * source_.columns();
    return close(end % period == 0 ? last::any : last::zero);
  }

  /// Feedback among the places of a row, which are mostly those of the row before.
  void load_feedback() {
    if (own_ == loaded_) return;
    loaded_ = own_;
    feedback_.assign(own_.size() * own_.size(), 0.0F);
    importance_.clear();
    for (std::size_t j = 0; j < own_.size(); ++j) {
      importance_.push_back(how_.input->importance(own_[j]) * per_importance_);
      for (std::size_t k = j + 1; k < own_.size(); ++k) feedback_[j * own_.size() + k] = feedback(own_[j], own_[k]);
    }
  }

  /// Extends the paths by some of a row's places.
  void extend(std::size_t row, std::size_t first, std::size_t count) {
    runs_.push_back({row, places_.size(), count});
    some_weights_.clear();
    some_targets_.clear();
    for (const std::size_t place : std::span(own_).subspan(first, count)) {
      places_.push_back(place);
      some_weights_.push_back(weights_[at(place, row)]);
      some_targets_.push_back(targets_[at(place, row)]);
    }
    paths_.add({count, some_weights_.data(), some_targets_.data(), &importance_[first],
                &feedback_[first * own_.size() + first], own_.size()});
  }

  /// Takes the codes of the best path, whose errors then count in what is left of the set.
  ECQ_EXACT_FLOAT result<void> close(survivor_paths::last where) {
    ECQ_EXACT_FLOAT_BODY
    if (runs_.empty()) return {};
    const std::int8_t* const found = paths_.finish(where);
    if (found == nullptr) {
      return error(errc::non_finite, "feedback to rows ", first_row_, " to ", first_row_ + rows_ - 1,
                   " leads beyond FP32");
    }
    for (const run_of_row& run : runs_) {
      const std::span places = std::span(places_).subspan(run.first, run.count);
      for (std::size_t j = 0; j < places.size(); ++j) {
        const std::int8_t code = found[run.first + j];
        codes_[static_cast<std::size_t>(position(places[j], run.row) - how_.first)] = static_cast<std::uint8_t>(code);
        errors_[at(places[j], run.row)] = static_cast<float>(code) * how_.step - weights_[at(places[j], run.row)];
      }
      if (order_.sets() == lane_count && places.back() + 1 == end_) continue;  // nothing is left of it
      for (const std::size_t place : places) {
        const float error = errors_[at(place, run.row)];
        for (std::size_t later = place + 1; later < end_; ++later) {
          targets_[at(later, run.row)] -= feedback(place, later) * error;
        }
      }
    }
    runs_.clear();
    places_.clear();
    return {};
  }

  const trellis_feedback& how_;
  const weights_view& source_;
  const trellis_order& order_;
  std::span<std::uint8_t> codes_;
  instruction_set isa_;
  survivor_paths paths_;
  float per_importance_ = 1;                  ///< 1 / the mean importance
  std::size_t first_row_ = 0, rows_ = 0;      ///< of the matrix
  std::size_t begin_ = 0, end_ = 0;           ///< places of the set
  std::vector<float> weights_, errors_;       ///< errors: weights that are coded - weights
  std::vector<float> targets_;                ///< what weights should become
  std::vector<std::size_t> fed_;              ///< how many places have given feedback to a panel
  std::vector<std::size_t> own_, loaded_;     ///< places of the lane in a row
  std::vector<float> feedback_, importance_;  ///< of places `loaded_`
  std::vector<float> some_weights_, some_targets_;
  std::vector<run_of_row> runs_;  ///< of the lane's path
  std::vector<std::size_t> places_;
};

inline result<void> trellis_feedback::quantize(const cpu& backend, const weights_view& weights,
                                               std::span<std::uint8_t> codes) const {
  const std::size_t columns = weights.columns();
  if (codes.size() != weights.size()) {
    return error(errc::invalid_argument, "room for ", codes.size(), " codes of ", weights.rows(), " x ", columns,
                 " weights");
  }
  if (!(correction >= 0) || !(correction <= 1)) {
    return error(errc::invalid_argument, "a correction of ", correction, ", not 0 to 1");
  }
  if (weights.empty()) return {};
  if (input->width() != columns) {
    return error(errc::invalid_argument, "inputs of ", input->width(), " columns for ", weights.rows(), " x ", columns,
                 " weights");
  }
  const auto isa = chosen_instruction_set(backend.isa);
  const trellis_order order(columns, first);
  // Groups of rows are quantised apart: lanes end each of them in state 0, for a few weights at most.
  const std::size_t groups = (weights.rows() + lanes_of_rows - 1) / lanes_of_rows;
  return parallel_for(backend, groups, [&](std::size_t group) {
    const std::size_t first_row = group * lanes_of_rows;
    return trellis_rows(*this, weights, order, codes, isa)
        .quantize(first_row, (std::min)(lanes_of_rows, weights.rows() - first_row));
  });
}

}  // namespace ecq::detail
