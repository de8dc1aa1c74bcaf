#include "../../examples/generate/synthetic_checkpoint.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace {

/// Returns the FNV-1a hash of the codes of all tensors.
std::uint64_t hash_of(const ecq_examples::preset& model, std::uint64_t seed) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const auto& tensor : ecq_examples::tensors(model)) {
    std::vector<ecq::bf16> weights(static_cast<std::size_t>(tensor.size()));
    ecq_examples::fill(tensor, seed, 0, weights);
    for (const ecq::bf16 weight : weights) hash = (hash ^ weight.bits) * 0x100000001b3U;
  }
  return hash;
}

TEST(SyntheticCheckpoint, SameBytesOnEveryMachine) {
  ecq_examples::preset model = *ecq_examples::find_preset("tiny");
  model.layers = 4;
  EXPECT_EQ(hash_of(model, 1), 15117665317075122184U);
  EXPECT_EQ(hash_of(model, 2), 11329926601155380467U);
}

}  // namespace
