// A user's first program, built from outside the project.

#include <cmath>
#include <cstdio>
#include <ecq/ecq.hpp>
#include <vector>

int main() {
  constexpr std::size_t rows = 64;
  constexpr std::size_t columns = 512;
  std::vector<float> data;
  for (std::size_t i = 0; i < rows * columns; ++i) {
    data.push_back(std::sin(static_cast<float>(i * i % 10007)) * 0.02F);
  }

  ecq::matrix_view<const float> weights(data.data(), rows, columns);
  using codec = ecq::compressor<ecq::fp8_e4m3, ecq::rans, ecq::entquant>;
  auto packed = codec{{.target_bits = 4.0}}.compress(weights);
  if (!packed) {
    std::fprintf(stderr, "%s\n", packed.error().to_string().c_str());
    return 1;
  }

  std::vector<float> out(data.size());
  auto done = ecq::decompress(ecq::cpu{.threads = 2}, *packed, ecq::matrix_view(out.data(), rows, columns));
  if (!done) {
    std::fprintf(stderr, "%s\n", done.error().to_string().c_str());
    return 1;
  }

  double error = 0;
  double magnitude = 0;
  for (std::size_t i = 0; i < data.size(); ++i) {
    error += std::abs(static_cast<double>(data[i]) - static_cast<double>(out[i]));
    magnitude += std::abs(static_cast<double>(data[i]));
  }
  const double bits = 8.0 * static_cast<double>(packed->stream.size()) / static_cast<double>(data.size());
  std::printf("ecq %s: %.2f bits per weight, relative L1 %.3f\n", ECQ_VERSION_STRING, bits, error / magnitude);
  return bits < 4.5 && error / magnitude < 0.12 ? 0 : 1;
}
