// A user's first program, built from outside the project.

#include <cstdio>
#include <ecq/format/fp8_e4m3.hpp>
#include <ecq/matrix_view.hpp>
#include <ecq/version.hpp>
#include <vector>

int main() {
  std::vector<float> weights{0.25F, -1.0F, 3.5F, 1000.0F, 0.0F, -448.0F};
  const ecq::matrix_view<float> matrix(weights.data(), 2, 3);
  for (std::size_t row = 0; row < matrix.rows(); ++row) {
    for (std::size_t column = 0; column < matrix.columns(); ++column) {
      matrix(row, column) = ecq::fp8_e4m3(matrix(row, column));
    }
  }
  std::printf("ecq %s: the largest FP8 E4M3 value is %g\n", ECQ_VERSION_STRING, static_cast<double>(matrix(1, 0)));
  return weights == std::vector<float>{0.25F, -1.0F, 3.5F, 448.0F, 0.0F, -448.0F} ? 0 : 1;
}
