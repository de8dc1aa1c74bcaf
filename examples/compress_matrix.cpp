// Compresses a matrix to 3 bits per weight and decodes it again.

#include <cstddef>
#include <cstdio>
#include <ecq/ecq.hpp>
#include <random>
#include <vector>

int report(const ecq::error& error) {
  std::fprintf(stderr, "%s\n", error.to_string().c_str());
  return 1;
}

int main() {
  constexpr std::size_t rows = 256, columns = 1024;
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0.0F, 0.02F);
  std::vector<float> data(rows * columns), out(rows * columns);
  for (float& weight : data) weight = normal(random);

  ecq::matrix_view<const float> weights(data.data(), rows, columns);  // or bf16, fp16; any strides; Eigen, std::span
  using codec = ecq::compressor<ecq::fp8_e4m3, ecq::rans, ecq::entquant>;

  auto packed = codec{{.target_bits = 3.0}}.compress(weights);
  if (!packed) return report(packed.error());  // names what is wrong, and where
  auto done = ecq::decompress(ecq::cpu{.threads = 4}, *packed, ecq::matrix_view(out.data(), rows, columns));
  if (!done) return report(done.error());

  auto error = ecq::measure_error(ecq::cpu{}, weights, ecq::matrix_view<const float>(out.data(), rows, columns));
  if (!error) return report(error.error());
  std::printf("%.2f bits per weight, relative L1 %.3f\n", packed->bits_per_weight(), error->relative_l1());
  return packed->bits_per_weight() < 3.02 && error->relative_l1() < 0.2 ? 0 : 1;
}
