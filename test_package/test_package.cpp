// Compresses a matrix and decodes it. The one coder is named, so that no others are compiled.

#include <cstddef>
#include <cstdio>
#include <ecq/block_decoder.hpp>
#include <ecq/compressor.hpp>
#include <ecq/version.hpp>
#include <vector>

int main() {
  constexpr std::size_t rows = 32, columns = 512;
  std::vector<float> data, out(rows * columns);
  for (int i = 0; i < static_cast<int>(out.size()); ++i) data.push_back(static_cast<float>(i * 7919 % 2003 - 1001));

  const ecq::matrix_view<const float> weights(data.data(), rows, columns);
  auto packed = ecq::compressor<>{{.target_bits = 4.0}}.compress(weights);
  if (!packed) return 1;
  auto done = ecq::decompress(ecq::cpu{}, *packed, ecq::matrix_view(out.data(), rows, columns), ecq::coders<ecq::rans>);
  if (!done) return 1;

  std::printf("ecq %s: %.2f bits per weight\n", ECQ_VERSION_STRING, packed->bits_per_weight());
  return packed->bits_per_weight() < 4.02 ? 0 : 1;
}
