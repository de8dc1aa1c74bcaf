// Uses the component `lbfgs`.

#include <cmath>
#include <ecq/ecq.hpp>
#include <ecq/quantize/lbfgs.hpp>
#include <vector>

int main() {
  std::vector<float> data;
  for (int i = 0; i < 2048; ++i) data.push_back(std::sin(static_cast<float>(i)));
  ecq::matrix_view<const float> weights(data.data(), 4, 512);
  const auto layout = ecq::per_channel{}.layout(4, 512);
  std::vector<float> scales(layout.count());
  const auto found = ecq::lbfgs<>{.lambda = 4.0}.search<ecq::fp8_e4m3>(ecq::cpu{}, weights, layout, scales);
  return found && scales[0] > 0 ? 0 : 1;
}
