#include "ecq/methods/name_outlier.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "support/weights.hpp"

namespace {

using ecq::errc;
using ecq::error;
using ecq::named_weights;

std::string named(const std::vector<float>& first, const std::vector<float>& second,
                  errc code = errc::unreachable_target) {
  const named_weights matrices[] = {{"first", ecq::matrix_view<const float>(first.data(), 8, 16)},
                                    {"", ecq::matrix_view<const float>(second.data(), 8, 16)}};
  const named_weights* const all[] = {&matrices[0], &matrices[1]};
  return ecq::detail::name_outlier(ecq::cpu{}, all, error(code, "missed")).message();
}

TEST(NameOutlier, NamesTheWeightThatStandsOutMost) {
  auto plain = ecq_test::gaussian(8, 16, 1, 1.0F);
  EXPECT_EQ(named(plain, plain), "missed");
  auto one = plain;
  one[3 * 16 + 5] = -0x1p40F;
  const auto text = named(plain, one);
  EXPECT_EQ(text.rfind("missed; in matrix 1, the weight at row 3, column 5 is about 2^40 times", 0), 0U) << text;
  auto more = plain;
  more[0] = 0x1p60F;
  EXPECT_NE(named(more, one).find("in tensor 'first', the weight at row 0, column 0"), std::string::npos);
  EXPECT_EQ(named(one, one, errc::limit_exceeded), "missed") << "another error";
  const std::vector<float> zeros(8 * 16);
  EXPECT_EQ(named(zeros, zeros), "missed");
  auto alone = zeros;
  alone[127] = std::numeric_limits<float>::denorm_min();
  EXPECT_EQ(named(zeros, alone), "missed") << "the mean of others counts as no less than the least number";
}

TEST(NameOutlier, NamesWeightsThatAreTooLarge) {
  const auto plain = ecq_test::gaussian(8, 16, 1, 1.0F);
  auto large = plain;
  for (float& weight : large) weight = weight < 0.0F ? -0x1p120F : 0x1p120F;
  EXPECT_EQ(named(plain, large), "missed; weights of matrix 1 reach 2^120, which needs scales near the limit of FP32");
}

}  // namespace
