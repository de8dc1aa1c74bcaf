// The only file that compiles error feedback on 8-bit integers.

#include "int8_feedback.hpp"

#include <bit>
#include <utility>

#include "ecq/calibrated/calibrated_method.hpp"
#include "ecq/format/int8.hpp"

namespace llama {

std::shared_ptr<const ecq::compression_method> int8_feedback(std::shared_ptr<ecq::calibration_pass> pass,
                                                             double target_bits, double correction, unsigned states) {
  ecq::calibration how{.pass = std::move(pass), .target_bits = target_bits, .correction = correction};
  if (states != 0) how.state_bits = static_cast<unsigned>(std::countr_zero(states));
  return std::make_shared<const ecq::calibrated_method<ecq::int8>>(std::move(how));
}

}  // namespace llama
