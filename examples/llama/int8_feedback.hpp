#pragma once
/// \file
/// Error feedback on 8-bit integers, compiled once: its factors and its trellis take longest of all.

#include <memory>

namespace ecq {
class calibration_pass;
class compression_method;
}  // namespace ecq

namespace llama {

/// ecq::calibrated_method by what `pass` sees, at `target_bits` a weight over the whole model. `correction` is that of
/// ecq::error_feedback; codes lie on a trellis of `states` states, 4, 8, 16 or 32, or on none (0).
std::shared_ptr<const ecq::compression_method> int8_feedback(std::shared_ptr<ecq::calibration_pass> pass,
                                                             double target_bits, double correction = 0.75,
                                                             unsigned states = 0);

}  // namespace llama
