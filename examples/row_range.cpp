// Compresses two matrices jointly, then decodes some rows of the second as BF16 without decoding the rest.

#include <array>
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
  constexpr std::size_t columns = 1024;
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0.0F, 0.02F);
  std::vector<float> gate(512 * columns), up(512 * columns);
  for (float& weight : gate) weight = normal(random);
  for (float& weight : up) weight = normal(random);

  const std::array<ecq::named_weights, 2> matrices{{{"gate", ecq::matrix_view<const float>(gate.data(), 512, columns)},
                                                    {"up", ecq::matrix_view<const float>(up.data(), 512, columns)}}};
  const ecq::compressor<> codec{{.target_bits = 4.0}};  // FP8 E4M3, rANS, EntQuant
  auto packed = codec.compress(ecq::cpu{.threads = 2}, matrices);
  if (!packed) return report(packed.error());

  auto block = ecq::block_decoder::open(*packed);  // parses and checks once
  if (!block) return report(block.error());
  std::vector<ecq::bf16> rows(16 * columns);  // rows 96 to 111 of matrix 1
  auto done = block->decode(ecq::cpu{}, 1, 96, ecq::matrix_view(rows.data(), 16, columns));
  if (!done) return report(done.error());

  const ecq::matrix_view<const float> original(up.data() + 96 * columns, 16, columns);
  const ecq::matrix_view<const ecq::bf16> decoded(rows.data(), 16, columns);
  auto error = ecq::measure_error(ecq::cpu{}, original, decoded);
  if (!error) return report(error.error());
  std::printf("rows 96 to 111 of '%s': relative L1 %.3f\n", block->matrices()[1].name.c_str(), error->relative_l1());
  return error->relative_l1() < 0.1 ? 0 : 1;
}
