#pragma once
/// \file
/// Interface that calibrated_method needs of an engine, apart from calibrated_method itself, which takes long to
/// compile.

#include <string>
#include <vector>

#include "ecq/base/matrix_view.hpp"
#include "ecq/base/result.hpp"

namespace ecq {

struct input_moments;

/// An engine's forward pass over texts, through the original model and through the model quantised so far. It stops
/// wherever the input of matrices is needed.
class calibration_pass {
 public:
  calibration_pass() = default;
  calibration_pass(const calibration_pass&) = delete;
  calibration_pass& operator=(const calibration_pass&) = delete;
  virtual ~calibration_pass() = default;

  /// Goes back to the beginning of the texts, with no matrix quantised any more.
  virtual result<void> restart() = 0;

  /// Goes on to the next input, in the order of computation, and returns the names of the matrices that are multiplied
  /// with it, or none after the last input. For the matrices named before, the quantised model has the weights that
  /// replace() was given.
  virtual result<std::vector<std::string>> next() = 0;

  /// Returns the moments of the input that next() has reached.
  virtual result<input_moments> moments() = 0;

  /// Makes the quantised model multiply with `weights` from now on, instead of a matrix that next() has just named.
  /// `weights` are valid during the call only.
  virtual result<void> replace(const std::string& name, matrix_view<const float> weights) = 0;
};

}  // namespace ecq
