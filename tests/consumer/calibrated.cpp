// Uses the component `calibrated`.

#include <cmath>
#include <cstdint>
#include <ecq/calibrated/error_feedback.hpp>
#include <ecq/calibrated/input_factor.hpp>
#include <ecq/calibrated/input_moments.hpp>
#include <utility>
#include <vector>

int main() {
  std::vector<float> data;
  for (int i = 0; i < 2048; ++i) data.push_back(std::sin(static_cast<float>(i)));
  auto sums = ecq::moment_sums::create(16);
  if (!sums || !sums->add({}, ecq::matrix_view<const float>(data.data(), 128, 16))) return 1;
  const auto moments = std::move(*sums).finish({});
  if (!moments) return 1;
  const auto input = ecq::input_factor::make({}, *moments);
  if (!input) return 1;
  std::vector<std::uint8_t> codes(data.size());
  std::vector<ecq::bf16> scales(1);
  const ecq::error_feedback feedback{.input = &*input, .scale = 0.1F};
  const ecq::matrix_view<const float> weights(data.data(), 128, 16);
  return feedback.quantize<ecq::int8>({}, weights, codes, scales) ? 0 : 1;
}
