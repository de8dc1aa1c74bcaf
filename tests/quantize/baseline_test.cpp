#include "ecq/quantize/baseline.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

#include "ecq/analysis/weight_error.hpp"
#include "ecq/quantize/hqq.hpp"
#include "ecq/quantize/nf4.hpp"
#include "ecq/quantize/rtn.hpp"
#include "support/weights.hpp"

namespace {

using ecq::cpu;
using ecq::hqq;
using ecq::matrix_view;
using ecq::nf4;
using ecq::rtn;

matrix_view<const float> view(const std::vector<float>& weights, std::size_t rows) {
  return {weights.data(), rows, weights.size() / rows};
}

/// Figures of methods on Gaussian weights, 1024 x 1024, standard deviation 0.02.
class BaselineFigures : public testing::Test {
 protected:
  template <class Method>
  static void expect(const Method& method, double bits, double sqnr_db) {
    static const std::vector<float> weights = ecq_test::gaussian(1024, 1024);
    const auto rounded = method.apply(cpu{.threads = 2}, view(weights, 1024));
    ASSERT_TRUE(rounded);
    EXPECT_NEAR(rounded->bits_per_weight, bits, 0.0005);
    const auto measured = ecq::measure_error(cpu{.threads = 2}, view(weights, 1024), view(rounded->weights, 1024));
    EXPECT_NEAR(measured->sqnr_db(), sqnr_db, 0.2) << Method::name;
    RecordProperty("sqnr_db", std::to_string(measured->sqnr_db()));
  }
};

TEST_F(BaselineFigures, Rtn4) { expect(rtn{.bits = 4}, 4 + 16.0 / 1024, 16.9); }
TEST_F(BaselineFigures, Rtn3) { expect(rtn{.bits = 3}, 3 + 16.0 / 1024, 9.5); }
TEST_F(BaselineFigures, Rtn2) { expect(rtn{.bits = 2}, 2 + 16.0 / 1024, 1.2); }
TEST_F(BaselineFigures, Nf4) { expect(nf4{}, 4.5, 20.7); }
TEST_F(BaselineFigures, Nf4DoubleQuantization) { expect(nf4{.double_quantization = true}, 4.127, 20.7); }
TEST_F(BaselineFigures, Hqq4) { expect(hqq{.bits = 4}, 4.5, 21.2); }
TEST_F(BaselineFigures, Hqq3) { expect(hqq{.bits = 3}, 3.5, 14.7); }
TEST_F(BaselineFigures, Hqq2) { expect(hqq{.bits = 2}, 2.5, 7.3); }

}  // namespace
