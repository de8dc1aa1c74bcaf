#pragma once
/// \file
/// What calibrated_method asks of an engine, apart from what it does with it, which takes long to compile.

#include <string>
#include <vector>

#include "ecq/base/matrix_view.hpp"
#include "ecq/base/result.hpp"

namespace ecq {

struct input_moments;

/// An engine's forward pass over texts, through the original model and through the one that is quantised so far. It
/// stops wherever matrices need to know their input.
class calibration_pass {
 public:
  calibration_pass() = default;
  calibration_pass(const calibration_pass&) = delete;
  calibration_pass& operator=(const calibration_pass&) = delete;
  virtual ~calibration_pass() = default;

  /// Goes back to where the texts begin; no matrix is quantised any more.
  virtual result<void> restart() = 0;

  /// Goes on to the next input, in the order of computation, and returns the names of the matrices that are multiplied
  /// with it; none behind the last one. Of the matrices named before, the quantised model has what replace() was given.
  virtual result<std::vector<std::string>> next() = 0;

  /// The moments of that input.
  virtual result<input_moments> moments() = 0;

  /// Has the quantised model multiply with `weights` from now on, in the place of a matrix that next() has just named.
  /// They are gone after the call.
  virtual result<void> replace(const std::string& name, matrix_view<const float> weights) = 0;
};

}  // namespace ecq
