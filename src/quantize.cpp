#include "ecq/quantize/baseline-inl.hpp"
#include "ecq/quantize/entquant.hpp"
#include "ecq/quantize/finite-inl.hpp"
#include "ecq/quantize/hqq-inl.hpp"
#include "ecq/quantize/model_sample-inl.hpp"
#include "ecq/quantize/nf4-inl.hpp"
#include "ecq/quantize/padded_row-inl.hpp"
#include "ecq/quantize/rtn-inl.hpp"
#include "ecq/quantize/target_bits-inl.hpp"

namespace ecq {

ECQ_INSTANCES_OF_ENTQUANT(template, fp8_e4m3)
ECQ_INSTANCES_OF_ENTQUANT(template, fp8_e5m2)
ECQ_INSTANCES_OF_ENTQUANT(template, int8)

}  // namespace ecq
