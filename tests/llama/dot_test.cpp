// Sums of products: every instruction set and every tile gives the bits of the definition.

#include "../../examples/llama/dot.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "../../examples/llama/product.hpp"
#include "../../examples/llama/thread_pool.hpp"
#include "ecq/base/instruction_set.hpp"
#include "support/weights.hpp"

namespace {

std::vector<ecq::bf16> narrowed(const std::vector<float>& values) { return {values.begin(), values.end()}; }

TEST(LlamaDot, IsTheSumInAnyOrder) {
  for (const std::size_t size : {0U, 1U, 15U, 16U, 17U, 100U}) {
    const auto weights = ecq_test::gaussian(1, size, 1, 1.0F);
    const auto values = ecq_test::gaussian(1, size, 2, 1.0F);
    double sum = 0;
    for (std::size_t at = 0; at < size; ++at) sum += static_cast<double>(weights[at]) * static_cast<double>(values[at]);
    EXPECT_NEAR(static_cast<double>(llama::dot(weights.data(), values.data(), size)), sum, 1e-5) << size;
    EXPECT_EQ(llama::dot(narrowed(weights).data(), values.data(), size),
              llama::dot(weights.data(), values.data(), size));
  }
}

TEST(LlamaDot, ValuesAreThoseOfTheFormat) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto weight = ecq::bf16::from_bits(static_cast<std::uint16_t>(bits));
    if (std::isnan(float(weight))) continue;
    ASSERT_EQ(std::bit_cast<std::uint32_t>(llama::value_of(weight)), std::bit_cast<std::uint32_t>(float(weight)));
  }
}

TEST(LlamaDot, ProductsAreDotProductsInEveryTile) {
  llama::thread_pool pool(3);
  const std::size_t large = 700;  // enough for more than one thread
  for (const std::size_t columns : {std::size_t{1}, std::size_t{31}, std::size_t{48}, large}) {
    for (const std::size_t rows : {std::size_t{1}, std::size_t{5}, std::size_t{19}, large}) {
      const auto weights = narrowed(ecq_test::gaussian(rows, columns, 3, 1.0F));
      for (const std::size_t tokens : {1U, 2U, 5U}) {
        const auto in = ecq_test::gaussian(tokens, columns, 4, 1.0F);
        std::vector<float> out(tokens * rows);
        llama::multiply(pool, {weights.data(), rows, columns}, {in.data(), tokens, columns},
                        {out.data(), tokens, rows});
        for (std::size_t at = 0; at < out.size(); ++at) {
          ASSERT_EQ(out[at], llama::dot(&weights[at % rows * columns], &in[at / rows * columns], columns))
              << tokens << " x " << columns << " x " << rows;
        }
      }
    }
  }
}

}  // namespace
