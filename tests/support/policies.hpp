#pragma once
/// \file
/// Every shipped policy, by concept. A new policy is tested against the laws of its concept by being listed here.

#include <gtest/gtest.h>

#include <string>

#include "ecq/format/affine_uint.hpp"
#include "ecq/format/bf16.hpp"
#include "ecq/format/fp16.hpp"
#include "ecq/format/fp32.hpp"
#include "ecq/format/fp8_e4m3.hpp"
#include "ecq/format/fp8_e5m2.hpp"
#include "ecq/format/int8.hpp"
#include "ecq/quantize/hqq.hpp"
#include "ecq/quantize/nf4.hpp"
#include "ecq/quantize/rtn.hpp"

namespace ecq_test {

using all_formats =
    testing::Types<ecq::fp8_e4m3, ecq::fp8_e5m2, ecq::int8, ecq::uint8, ecq::uint4, ecq::bf16, ecq::fp16, ecq::fp32>;

using all_baselines = testing::Types<ecq::rtn, ecq::nf4, ecq::hqq>;

/// Third argument of TYPED_TEST_SUITE: tests carry the policy's own name.
struct policy_names {
  template <class Policy>
  static std::string GetName(int) {
    return std::string(Policy::name);
  }
};

/// Calls `visit.template operator()<Policy>()` for every policy of a list.
template <class... Policies, class Visitor>
void for_each_policy(testing::Types<Policies...>, Visitor&& visit) {
  (visit.template operator()<Policies>(), ...);
}

}  // namespace ecq_test
