#pragma once
/// \file
/// Error feedback on 8-bit integers. Only one file includes its implementation, whose factors and trellis take longest
/// of all to compile.

#include <memory>

namespace ecq {
class calibration_pass;
class compression_method;
}  // namespace ecq

namespace llama {

/// Returns an ecq::calibrated_method that learns from `pass`, at `target_bits` a weight over the whole model.
/// `correction` is that of ecq::error_feedback. `states` is the number of states of the trellis on which codes lie: 4,
/// 8, 16 or 32, or 0 for none.
std::shared_ptr<const ecq::compression_method> int8_feedback(std::shared_ptr<ecq::calibration_pass> pass,
                                                             double target_bits, double correction = 0.75,
                                                             unsigned states = 0);

}  // namespace llama
