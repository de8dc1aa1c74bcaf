// error_feedback: the values of Format are not evenly spaced
#include <ecq/calibrated/error_feedback.hpp>
#include <ecq/format/fp8_e4m3.hpp>

int main() { return ecq::error_feedback{}.quantize<ecq::fp8_e4m3>({}, {}, {}, {}) ? 1 : 0; }
