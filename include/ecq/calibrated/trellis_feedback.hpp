#pragma once
/// \file
/// Error feedback for codes on a trellis. Needs Eigen 3.3 (target ecq::calibrated).

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <utility>
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

/// Quantiser of one matrix to codes of Int8 on a trellis, with one step.
struct trellis_feedback {
  /// Cost of a bit, in squares of the step. Without feedback, a higher cost is better (trellis_rate_weight); here the
  /// next layers suffer from it.
  static constexpr float rate_weight = 0.1F;
  /// Share of step_by_rms::damping to use. Paths themselves avoid weights that need many bits, and damping that is
  /// meant to avoid such weights costs most of the gain of a path.
  static constexpr double damping_share = 0.1;

  const input_factor* input = nullptr;  ///< factor of inputs in trellis_order, which outlives this; not null
  std::uint64_t first = 0;              ///< position of the first weight in its stream, as in trellis_order
  trellis walk{};                       ///< lanes begin in state 0, and end in it for what follows in the stream
  index_bits bits{};                    ///< bits of each index
  float step = 1;                       ///< above 0
  double correction = 0.75;             ///< like error_feedback::correction

  /// Writes rows * columns codes, row-major; weight = code * step. Errors: those of error_feedback::quantize. Needs
  /// memory for 128 rows per thread, 12 bytes per weight.
  result<void> quantize(const cpu& backend, const weights_view& weights, std::span<std::uint8_t> codes) const;
};

/// Up to lanes_of_rows rows of a matrix that are being quantised. Arrays have the places of trellis_order, with rows
/// side by side.
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

  /// Quantises some rows. Lanes begin in state 0, and end in it unless a period ends with the rows.
  result<void> quantize(std::size_t first_row, std::size_t rows) {
    ECQ_CHECK(load(first_row, rows));
    for (std::size_t set = 0; set < order_.sets(); ++set) {
      begin_ = order_.place(set, 0);
      end_ = order_.place(set, order_.classes());
      set_targets();
      if (order_.classes() == 1 && order_.has_classes()) {
        ECQ_CHECK(quantize_lane(set));
      } else if (order_.has_classes() && order_.columns_of_set() >= least_path) {
        ECQ_CHECK(quantize_in_turns(set));
      } else {
        for (std::size_t lane = set; lane < lane_count; lane += order_.sets()) ECQ_CHECK(quantize_lane(lane));
      }
    }
    return {};
  }

 private:
  /// Least number of columns of a set whose lanes take turns. It is the length of a path, and short paths lose more by
  /// their ends than long ones do by what they do not know.
  static constexpr std::size_t least_path = 48;
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

  /// Returns the position of a weight in the stream.
  std::uint64_t position(std::size_t place, std::size_t row) const noexcept {
    return how_.first + std::uint64_t{first_row_ + row} * source_.columns() + order_.columns()[place];
  }

  /// Returns the factor by which an error at place j counts in the target of place k > j, negated.
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

  /// Updates the targets of the set by the errors at the places before it.
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

  /// Quantises a lane by a path through all rows. Where other lanes have columns of its set, the path knows nothing of
  /// the lanes that come later.
  result<void> quantize_lane(std::size_t lane) {
    begin_path(0);
    neighbours own;
    std::vector<std::size_t> places;
    for (std::size_t row = 0; row < rows_; ++row) {
      places.clear();
      for (std::size_t place = begin_; place < end_; ++place) {
        if (trellis::lane(position(place, row)) == lane) places.push_back(place);
      }
      if (places != own.places) own = neighbours_of(places);
      ECQ_CHECK(extend(lane, row, own));
    }
    std::uint8_t state = 0;
    return close(ends_period() ? survivor_paths::last::any : survivor_paths::last::zero, state);
  }

  /// Quantises a set by paths from its highest class to its lowest, each a row below the one before.
  result<void> quantize_in_turns(std::size_t set) {
    using last = survivor_paths::last;
    const std::size_t classes = order_.classes();
    std::vector<neighbours> of_class;
    for (std::size_t index = 0; index < classes; ++index) {
      std::vector<std::size_t> places(order_.place(set, index + 1) - order_.place(set, index));
      std::iota(places.begin(), places.end(), order_.place(set, index));
      of_class.push_back(neighbours_of(std::move(places)));
    }
    lane_states states{};
    for (std::size_t bottom = 0; bottom + 1 < rows_ + classes; ++bottom) {  // the row of the lowest class
      const std::size_t top = bottom + 1 < classes ? 0 : bottom + 1 - classes;
      const std::size_t end = (std::min)(bottom + 1, rows_);
      const std::size_t lane = order_.lane(set, bottom - top, how_.first, first_row_ + top);
      begin_path(states[lane]);
      for (std::size_t row = top; row < end; ++row) ECQ_CHECK(extend(lane, row, of_class[bottom - row]));
      // The rest of a lane may be too short to lead back to state 0.
      std::size_t left = 0;
      for (std::size_t row = bottom + 1; row < rows_ && row <= bottom + classes; ++row) {
        left += of_class[bottom + classes - row].places.size();
      }
      const bool home = left < trellis::max_state_bits && !ends_period();
      ECQ_CHECK(close(home ? last::zero : last::any, states[lane]));
    }
    return {};
  }

  bool ends_period() const noexcept {
    return (how_.first + std::uint64_t{first_row_ + rows_} * source_.columns()) % period() == 0;
  }

  std::uint64_t period() const noexcept { return std::uint64_t{1} << how_.walk.period_bits; }

  /// Places of a lane in a row, in ascending order, with their feedback and importance.
  struct neighbours {
    std::vector<std::size_t> places;
    std::vector<float> feedback;  ///< of place number j to k > j, at j * places + k
    std::vector<float> importance;
  };

  neighbours neighbours_of(std::vector<std::size_t> places) const {
    neighbours made{std::move(places), {}, {}};
    const std::size_t count = made.places.size();
    made.feedback.assign(count * count, 0.0F);
    for (std::size_t j = 0; j < count; ++j) {
      made.importance.push_back(how_.input->importance(made.places[j]) * per_importance_);
      for (std::size_t k = j + 1; k < count; ++k) {
        made.feedback[j * count + k] = feedback(made.places[j], made.places[k]);
      }
    }
    return made;
  }

  void begin_path(unsigned state) {
    runs_.clear();
    places_.clear();
    paths_.begin(state);
  }

  /// Extends the paths by a lane's places in a row. A period that begins among them begins new paths.
  result<void> extend(std::size_t lane, std::size_t row, const neighbours& own) {
    const auto begins_period = [&](std::size_t place) {
      return position(place, row) % period() == lane * rounds_per_group;
    };
    const std::size_t count = own.places.size();
    for (std::size_t first = 0, end = 0; first < count; first = end) {
      if (begins_period(own.places[first])) {
        std::uint8_t state = 0;
        ECQ_CHECK(close(survivor_paths::last::any, state));
        begin_path(0);
      }
      end = first + 1;
      while (end < count && !begins_period(own.places[end])) ++end;
      runs_.push_back({row, places_.size(), end - first});
      some_weights_.clear();
      some_targets_.clear();
      for (const std::size_t place : std::span(own.places).subspan(first, end - first)) {
        places_.push_back(place);
        some_weights_.push_back(weights_[at(place, row)]);
        some_targets_.push_back(targets_[at(place, row)]);
      }
      paths_.add({end - first, some_weights_.data(), some_targets_.data(), &own.importance[first],
                  &own.feedback[first * count + first], count});
    }
    return {};
  }

  /// Takes the codes of the best path, which leads to `state`. Their errors then count in the rest of the set.
  ECQ_EXACT_FLOAT result<void> close(survivor_paths::last where, std::uint8_t& state) {
    ECQ_EXACT_FLOAT_BODY
    if (runs_.empty()) return {};
    const auto found = paths_.finish(where);
    if (!found) {
      return error(errc::non_finite, "feedback to rows ", first_row_, " to ", first_row_ + rows_ - 1,
                   " overflows FP32");
    }
    state = static_cast<std::uint8_t>(found->last_state);
    for (const run_of_row& run : runs_) {
      const std::span places = std::span(places_).subspan(run.first, run.count);
      for (std::size_t j = 0; j < places.size(); ++j) {
        const std::int8_t code = found->codes[run.first + j];
        codes_[static_cast<std::size_t>(position(places[j], run.row) - how_.first)] = static_cast<std::uint8_t>(code);
        errors_[at(places[j], run.row)] = static_cast<float>(code) * how_.step - weights_[at(places[j], run.row)];
      }
      if (places.front() + places.size() != end_) feed_back(run.row, places);
    }
    runs_.clear();
    places_.clear();
    return {};
  }

  /// Subtracts the feedback of some places of a row, in ascending order, from the targets of the places behind them in
  /// the set.
  ECQ_EXACT_FLOAT void feed_back(std::size_t row, std::span<const std::size_t> places) {
    ECQ_EXACT_FLOAT_BODY
    for (std::size_t panel = places.front() / panel_columns; panel * panel_columns < end_; ++panel) {
      const std::size_t first = panel * panel_columns;
      const float* const feedback = how_.input->feedback_of_panel(panel).data();
      std::array<float, panel_columns> sums{};
      for (const std::size_t place : places) {
        if (place + 1 >= first + panel_columns) break;
        const float error = errors_[at(place, row)];
        const float* const factors = feedback + place * panel_columns;
        if (place < first) {
          for (std::size_t k = 0; k < panel_columns; ++k) sums[k] += factors[k] * error;
        } else {
          for (std::size_t k = place + 1 - first; k < panel_columns; ++k) sums[k] += factors[k] * error;
        }
      }
      const std::size_t count = (std::min)(panel_columns, end_ - first);
      for (std::size_t k = 0; k < count; ++k) targets_[at(first + k, row)] -= sums[k];
    }
  }

  const trellis_feedback& how_;
  const weights_view& source_;
  const trellis_order& order_;
  std::span<std::uint8_t> codes_;
  instruction_set isa_;
  survivor_paths paths_;
  float per_importance_ = 1;              ///< 1 / the mean importance
  std::size_t first_row_ = 0, rows_ = 0;  ///< of the matrix
  std::size_t begin_ = 0, end_ = 0;       ///< places of the set
  std::vector<float> weights_, errors_;   ///< errors: weights that are coded - weights
  std::vector<float> targets_;            ///< values that weights should become
  std::vector<std::size_t> fed_;          ///< number of places that have given feedback to each panel
  std::vector<float> some_weights_, some_targets_;
  std::vector<run_of_row> runs_;  ///< of the lane's path
  std::vector<std::size_t> places_;
};

inline result<void> trellis_feedback::quantize(const cpu& backend, const weights_view& weights,
                                               std::span<std::uint8_t> codes) const {
  const std::size_t columns = weights.columns();
  if (codes.size() != weights.size()) {
    return error(errc::invalid_argument, "output has room for ", codes.size(), " codes, not for those of ",
                 weights.rows(), " x ", columns, " weights");
  }
  if (!(correction >= 0) || !(correction <= 1)) {
    return error(errc::invalid_argument, "correction is ", correction, ", not from 0 to 1");
  }
  if (weights.empty()) return {};
  if (input->width() != columns) {
    return error(errc::invalid_argument, "inputs have ", input->width(), " columns, but weights are ", weights.rows(),
                 " x ", columns);
  }
  const auto isa = chosen_instruction_set(backend.isa);
  const trellis_order order(columns, first);
  // Groups of rows are quantised independently. Lanes end each group in state 0, which affects a few weights at most.
  const std::size_t groups = (weights.rows() + lanes_of_rows - 1) / lanes_of_rows;
  return parallel_for(backend, groups, [&](std::size_t group) {
    const std::size_t first_row = group * lanes_of_rows;
    return trellis_rows(*this, weights, order, codes, isa)
        .quantize(first_row, (std::min)(lanes_of_rows, weights.rows() - first_row));
  });
}

}  // namespace ecq::detail
