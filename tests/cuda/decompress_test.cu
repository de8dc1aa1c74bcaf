#include "ecq/cuda/decompress.cuh"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cuda/device_memory.cuh"
#include "ecq/quantize/granularity.hpp"
#include "support/codes.hpp"

namespace {

class decompress_on_device : public ecq_test::device_test {};

struct extent {
  std::size_t rows;
  std::size_t columns;
};

template <class Output>
void expect_the_weights_of_the_host(const std::vector<extent>& extents, std::size_t padding) {
  // Quantised weights as any quantiser may leave them: int8 codes, scales of either sign, zeros among the codes.
  ecq::packed_block block;
  std::uint64_t symbols = 0;
  ecq_test::code_source random(7);
  for (const extent& one : extents) {
    ecq::packed_matrix& matrix = block.matrices.emplace_back();
    matrix.name = std::to_string(block.matrices.size());
    matrix.shape = {one.rows, one.columns};
    matrix.format = ecq::dtype::int8;
    matrix.layout = ecq::per_channel{}.layout(one.rows, one.columns);
    matrix.first_symbol = symbols;
    symbols += one.rows * one.columns;
    for (std::size_t row = 0; row < one.rows; ++row) {
      matrix.scales.push_back(ecq::bf16((static_cast<float>(random.next() % 1000) - 300.5F) * 0x1p-10F));
    }
  }
  std::vector<std::uint8_t> codes = random.bell(symbols, 9);
  for (std::uint8_t& code : codes) code = static_cast<std::uint8_t>(code - 128);
  auto stream = ecq::encode_stream<ecq::rans>(ecq::cpu{}, codes, {.chunk_bits = 10});
  ASSERT_TRUE(stream);
  block.stream = std::move(*stream);

  std::vector<std::unique_ptr<ecq_test::device_memory>> places;
  std::vector<ecq::device_target> targets;
  for (const extent& one : extents) {
    const std::size_t stride = one.columns + padding;
    places.push_back(std::make_unique<ecq_test::device_memory>(one.rows * stride * sizeof(Output)));
    targets.push_back({places.back()->data(), stride});
  }
  auto image = ecq::device_block_image::of(block, targets);
  ASSERT_TRUE(image) << image.error().to_string();
  const ecq_test::device_memory memory(image->bytes());
  const ecq_test::device_memory flag(8);
  const ecq::cuda gpu;
  const ecq::device_verdict verdict(flag.data());
  const auto on_device = image->template upload<Output>(gpu, memory.data());
  ASSERT_TRUE(on_device);
  ASSERT_TRUE(verdict.clear(gpu));
  ASSERT_TRUE(ecq::decompress<Output>(gpu, *on_device, verdict));
  ASSERT_TRUE(verdict.wait(gpu));
  for (std::size_t i = 0; i < extents.size(); ++i) {
    const std::size_t stride = extents[i].columns + padding;
    const auto bytes = places[i]->read();
    std::vector<Output> got(extents[i].rows * stride);
    std::memcpy(got.data(), bytes.data(), bytes.size());
    std::vector<Output> expected = got;  // what lies between rows stays as it was
    ASSERT_TRUE(ecq::decompress(ecq::cpu{}, block, i,
                                ecq::matrix_view<Output>(expected.data(), extents[i].rows, extents[i].columns,
                                                         static_cast<std::ptrdiff_t>(stride), 1)));
    ASSERT_EQ(std::memcmp(got.data(), expected.data(), bytes.size()), 0) << "matrix " << i;
  }
}

TEST_F(decompress_on_device, gives_the_weights_of_the_host) {
  for (const std::size_t padding : {0U, 4U, 3U}) {
    expect_the_weights_of_the_host<ecq::bf16>({{64, 64}, {3, 5}, {1, 1}, {40, 36}, {7, 128}, {2, 1000}}, padding);
    expect_the_weights_of_the_host<float>({{1, 3000}, {3000, 1}, {20, 64}}, padding);
  }
}

}  // namespace
