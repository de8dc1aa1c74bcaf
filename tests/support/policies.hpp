#pragma once
/// \file
/// Lists of all policies, by concept: those of the library and those of a user. To test a new policy against the laws
/// of its concept, add it here. lbfgs, which needs Eigen, is in laws/lbfgs_laws_test.cpp.

#include <gtest/gtest.h>

#include <string>

#include "ecq/entropy/huffman/huffman.hpp"
#include "ecq/entropy/huffman_gaps/huffman_gaps.hpp"
#include "ecq/entropy/rans/rans.hpp"
#include "ecq/entropy/rans/rans_direct.hpp"
#include "ecq/entropy/raw.hpp"
#include "ecq/entropy/tans/tans.hpp"
#include "ecq/format/affine_uint.hpp"
#include "ecq/format/bf16.hpp"
#include "ecq/format/fp16.hpp"
#include "ecq/format/fp32.hpp"
#include "ecq/format/fp8_e4m3.hpp"
#include "ecq/format/fp8_e5m2.hpp"
#include "ecq/format/int8.hpp"
#include "ecq/quantize/absmax_search.hpp"
#include "ecq/quantize/entquant.hpp"
#include "ecq/quantize/entrollm.hpp"
#include "ecq/quantize/granularity.hpp"
#include "ecq/quantize/hqq.hpp"
#include "ecq/quantize/nf4.hpp"
#include "ecq/quantize/rtn.hpp"
#include "ecq/quantize/scaled_quantizer.hpp"
#include "support/user_policies.hpp"

namespace ecq_test {

using all_formats =
    testing::Types<ecq::fp8_e4m3, ecq::fp8_e5m2, ecq::int8, ecq::uint8, ecq::uint4, ecq::bf16, ecq::fp16, ecq::fp32>;

using all_granularities = testing::Types<ecq::per_tensor, ecq::per_channel, ecq::per_group, per_two_rows, per_weight>;

using all_coders = testing::Types<ecq::raw, ecq::rans, ecq::rans_direct, ecq::tans, ecq::huffman, ecq::huffman_gaps>;

using all_baselines = testing::Types<ecq::rtn, ecq::nf4, ecq::hqq>;

using all_quantizers =
    testing::Types<ecq::absmax, ecq::scaled_quantizer<ecq::absmax_search, ecq::per_tensor>,
                   ecq::scaled_quantizer<ecq::absmax_search, ecq::per_group>, ecq::scaled_quantizer<ecq::row_root<>>,
                   ecq::scaled_quantizer<ecq::row_root<>, ecq::per_tensor>,
                   ecq::scaled_quantizer<ecq::row_root<ecq::squared_error>, ecq::per_group>, ecq::entquant,
                   ecq::basic_entquant<ecq::row_root<ecq::squared_error>, ecq::per_group>,
                   ecq::scaled_quantizer<ecq::row_root<cubic_error, doubled_norm>, per_two_rows>,
                   ecq::scaled_quantizer<ecq::row_root<no_error>>,
                   ecq::scaled_quantizer<ecq::absmax_search, per_weight>, ecq::basic_entquant<widened_absmax>,
                   ecq::entrollm>;

/// Third argument of TYPED_TEST_SUITE: names tests by the policy's number, followed by its name if it has one.
struct policy_names {
  template <class Policy>
  static std::string GetName(int index) {
    const std::string number = std::to_string(index);
    if constexpr (requires { Policy::name; }) return number + "_" + std::string(Policy::name);
    return number;
  }
};

/// Calls `visit.template operator()<Policy>()` for every policy of a list.
template <class... Policies, class Visitor>
void for_each_policy(testing::Types<Policies...>, Visitor&& visit) {
  (visit.template operator()<Policies>(), ...);
}

}  // namespace ecq_test
