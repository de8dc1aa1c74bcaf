// Compresses BF16 weights without loss, then decodes all of them, and a range.

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <ecq/ecq.hpp>
#include <random>
#include <span>
#include <vector>

int report(const ecq::error& error) {
  std::fprintf(stderr, "%s\n", error.to_string().c_str());
  return 1;
}

int main() {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0.0F, 0.02F);
  std::vector<ecq::bf16> weights(std::size_t{1} << 18);
  for (ecq::bf16& weight : weights) weight = ecq::bf16(normal(random));

  const ecq::lossless<ecq::bf16> codec;
  auto packed = codec.compress(ecq::cpu{}, weights);  // a matrix, or anything contiguous
  if (!packed) return report(packed.error());

  std::vector<ecq::bf16> restored(weights.size());
  auto done = codec.decompress(ecq::cpu{}, *packed, restored);
  if (!done) return report(done.error());

  std::vector<ecq::bf16> part(1000);  // weights 70,000 to 70,999
  done = codec.decompress_elements(ecq::cpu{}, *packed, 70'000, std::span(part));
  if (!done) return report(done.error());

  const auto same = [](ecq::bf16 left, ecq::bf16 right) { return left.bits == right.bits; };
  const bool equal = std::equal(weights.begin(), weights.end(), restored.begin(), restored.end(), same) &&
                     std::equal(part.begin(), part.end(), weights.begin() + 70'000, same);
  std::printf("%.2f bits per weight instead of 16, %s\n", packed->bits_per_weight(),
              equal ? "the same bits" : "DIFFERENT");
  return equal && packed->bits_per_weight() < 11.5 ? 0 : 1;
}
