#include "ecq/quantize/entquant.hpp"
#include "ecq/quantize/target_bits-inl.hpp"

namespace ecq {

ECQ_INSTANCES_OF_ENTQUANT(template, fp8_e4m3)
ECQ_INSTANCES_OF_ENTQUANT(template, fp8_e5m2)
ECQ_INSTANCES_OF_ENTQUANT(template, int8)

}  // namespace ecq
