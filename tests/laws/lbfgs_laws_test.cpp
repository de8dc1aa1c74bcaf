// Tests the scale search of EntQuant's authors by the laws of every quantiser, which are in quantizer_laws_test.cpp.

#include "ecq/quantize/entquant.hpp"
#include "ecq/quantize/lbfgs.hpp"
#include "laws/quantizer_laws.hpp"

namespace ecq_test {
namespace {

using quantizers = testing::Types<ecq::scaled_quantizer<ecq::lbfgs<>>,
                                  ecq::scaled_quantizer<ecq::lbfgs<ecq::squared_error>, ecq::per_group>,
                                  ecq::scaled_quantizer<ecq::lbfgs<>, ecq::per_tensor>>;

static_assert(ecq::lambda_search<ecq::lbfgs<>>);

INSTANTIATE_TEST_SUITE_P(Lbfgs, QuantizerLaws, testing::ValuesIn(lawful_quantizers<quantizers>()), name_of_quantizer);

}  // namespace
}  // namespace ecq_test
