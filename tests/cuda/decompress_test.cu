#include "ecq/cuda/decompress.cuh"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "cuda/device_memory.cuh"
#include "ecq/entropy/rans/rans_direct.hpp"
#include "ecq/quantize/granularity.hpp"
#include "support/codes.hpp"
#include "support/trellis_path.hpp"

namespace {

class DecompressOnDevice : public ecq_test::device_test {};

struct extent {
  std::size_t rows;
  std::size_t columns;
};

/// Makes quantised weights as any quantiser may leave them: int8 codes, scales of either sign, zeros among the codes.
template <class Coder = ecq::rans>
ecq::packed_block made_block(const std::vector<extent>& extents, bool pairs = false,
                             std::optional<unsigned> narrow = {}, std::optional<ecq::trellis> walk = {}) {
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
    for (std::size_t group = 0; group < matrix.layout.count(); ++group) {
      matrix.scales.push_back(ecq::bf16((static_cast<float>(random.next() % 1000) - 300.5F) * 0x1p-10F));
    }
  }
  std::vector<std::uint8_t> codes = random.bell(symbols, 9);
  for (std::uint8_t& code : codes) code = static_cast<std::uint8_t>(code - 128);
  if (walk) codes = ecq_test::random_path(*walk, symbols, 3).codes;
  auto stream = ecq::encode_stream<Coder>(
      ecq::cpu{}, codes,
      {.chunk_bits = walk ? 11U : 10U, .pairs = pairs && !narrow, .narrow_pairs = narrow, .trellis = walk});
  EXPECT_TRUE(stream);
  block.stream = std::move(*stream);
  return block;
}

ecq::coder_id coder_of_stream(const ecq::packed_block& block) {
  return ecq::encoded_stream::parse(block.stream)->coder();
}

/// Returns places of matrices whose rows are `padding` elements further apart than they are long.
std::vector<ecq::matrix_place> padded_places(const ecq::packed_block& block, std::size_t padding) {
  std::vector<ecq::matrix_place> places;
  std::uint64_t end = padding;
  for (const ecq::packed_matrix& matrix : block.matrices) {
    places.push_back({end, matrix.layout.columns + padding});
    end += matrix.layout.rows * places.back().row_stride;
  }
  return places;
}

/// Returns the host's weights at `places`; the memory around them holds 0x5A.
template <class Output>
std::vector<std::byte> weights_of_the_host(const ecq::packed_block& block, std::span<const ecq::matrix_place> places,
                                           std::uint64_t elements) {
  std::vector<std::byte> bytes(elements * sizeof(Output), std::byte{0x5A});
  std::vector<Output> expected(elements);
  std::memcpy(expected.data(), bytes.data(), bytes.size());
  for (std::size_t i = 0; i < places.size(); ++i) {
    const ecq::group_layout& layout = block.matrices[i].layout;
    const ecq::matrix_view<Output> view(expected.data() + places[i].offset, layout.rows, layout.columns,
                                        static_cast<std::ptrdiff_t>(places[i].row_stride), 1);
    EXPECT_TRUE(ecq::decompress(ecq::cpu{}, block, i, view));
  }
  std::memcpy(bytes.data(), expected.data(), bytes.size());
  return bytes;
}

template <class Output, class Coders = ecq::every_coder>
void expect_the_weights_of_the_host(const ecq::packed_block& block, std::size_t padding, Coders accepted = {}) {
  auto image = padding == 0 ? ecq::device_block_image::of(block)
                            : ecq::device_block_image::of(block, padded_places(block, padding));
  ASSERT_TRUE(image) << image.error().to_string();
  const ecq_test::device_memory memory(image->bytes());
  const ecq_test::device_memory flag(8);
  const ecq::cuda gpu;
  const ecq::device_verdict verdict(flag.data());
  const auto on_device = image->upload(gpu, memory.data());
  ASSERT_TRUE(on_device);
  const ecq_test::device_memory out(on_device->template bytes<Output>());
  ASSERT_TRUE(verdict.clear(gpu));
  ASSERT_TRUE(ecq::decompress<Output>(gpu, *on_device, {out.data(), out.size()}, verdict, accepted));
  ASSERT_TRUE(verdict.wait(gpu));
  ASSERT_EQ(out.read(), weights_of_the_host<Output>(block, image->places(), on_device->elements));
}

template <class Output, class Coder = ecq::rans>
void expect_the_weights_of_the_host(const std::vector<extent>& extents, std::size_t padding, bool pairs = false) {
  expect_the_weights_of_the_host<Output>(made_block<Coder>(extents, pairs), padding);
}

TEST_F(DecompressOnDevice, GivesTheWeightsOfTheHost) {
  for (const std::size_t padding : {0U, 4U, 3U}) {
    expect_the_weights_of_the_host<ecq::bf16>({{64, 64}, {3, 5}, {1, 1}, {40, 36}, {7, 128}, {2, 1000}}, padding);
    expect_the_weights_of_the_host<float>({{1, 3000}, {3000, 1}, {20, 64}}, padding);
  }
}

TEST_F(DecompressOnDevice, GivesTheWeightsOfNarrowPairs) {
  for (const unsigned raw_bits : {0U, 2U, 5U}) {
    const auto block = made_block<ecq::tans>({{64, 64}, {3, 5}, {1, 1}, {40, 36}, {7, 128}}, true, raw_bits);
    for (const std::size_t padding : {0U, 3U}) {
      expect_the_weights_of_the_host<ecq::bf16>(block, padding);
      expect_the_weights_of_the_host<float>(block, padding);
    }
  }
}

template <class Coder>
void expect_the_weights_of_a_trellis(const ecq::trellis& walk) {
  const std::vector<extent> extents = {{64, 64}, {3, 5}, {1, 1}, {40, 36}, {7, 128}};
  const std::optional<unsigned> pairings[] = {{}, 0U, 2U};
  for (const auto& narrow : pairings) {
    const auto block = made_block<Coder>(extents, narrow.has_value(), narrow, walk);
    ASSERT_TRUE(ecq::encoded_stream::parse(block.stream)->trellis());
    for (const std::size_t padding : {0U, 3U}) {
      expect_the_weights_of_the_host<ecq::bf16>(block, padding);
      expect_the_weights_of_the_host<ecq::fp16>(block, padding);
      expect_the_weights_of_the_host<float>(block, padding);
    }
  }
}

TEST_F(DecompressOnDevice, GivesTheWeightsOfCodesOnATrellis) {
  expect_the_weights_of_a_trellis<ecq::rans>({3, 10});
  expect_the_weights_of_a_trellis<ecq::tans>({2, 11});
  expect_the_weights_of_a_trellis<ecq::huffman>({4, 10});
  expect_the_weights_of_a_trellis<ecq::raw>({5, 10});
}

TEST_F(DecompressOnDevice, GivesTheWeightsOfATableOfValues) {
  ecq::packed_block block = made_block({{64, 64}, {3, 5}});
  for (ecq::packed_matrix& matrix : block.matrices) {
    matrix.format = ecq::dtype::table;
    for (int code = 0; code < 256; ++code) matrix.values.push_back(static_cast<float>((code * 37) % 256) * 0x1.8p-5F);
  }
  expect_the_weights_of_the_host<ecq::bf16>(block, 0);
  expect_the_weights_of_the_host<float>(block, 3);
}

// Rows so long that many groups in a row need only their codes.
TEST_F(DecompressOnDevice, GivesTheWeightsOfLongRows) {
  const auto expect_weights_by = [&]<class Coder>() {
    ecq::packed_block block = made_block<Coder>({{5, 3000}, {1, 7}, {3, 4096}});
    for (const std::size_t padding : {0U, 4U, 3U}) {
      expect_the_weights_of_the_host<ecq::bf16>(block, padding);
      expect_the_weights_of_the_host<float>(block, padding);
    }
    for (ecq::packed_matrix& matrix : block.matrices) {
      matrix.format = ecq::dtype::uint8;
      matrix.zero = -1.7F;
    }
    expect_the_weights_of_the_host<ecq::bf16>(block, 0);
    expect_the_weights_of_the_host<ecq::fp16>(block, 4);
  };
  expect_weights_by.operator()<ecq::rans>();
  expect_weights_by.operator()<ecq::rans_direct>();
  expect_weights_by.operator()<ecq::tans>();
  expect_weights_by.operator()<ecq::huffman>();
  expect_weights_by.operator()<ecq::raw>();
}

// Such codes are looked for only where tables list them.
TEST_F(DecompressOnDevice, TakesCodesThatAreNoNumbersForDamage) {
  constexpr std::size_t none = 9000;
  const auto expect_damage = [&]<class Coder>(std::size_t at) {
    ecq::packed_block block = made_block<Coder>({{3, 3000}});
    block.matrices[0].format = ecq::dtype::fp8_e4m3;
    auto codes = ecq_test::code_source(1).bell(none, 2);
    for (std::uint8_t& code : codes) code = static_cast<std::uint8_t>(code - 80);
    if (at < none) codes[at] = 0x7F;
    block.stream = *ecq::encode_stream<Coder>(ecq::cpu{}, codes, {.chunk_bits = 10});
    const auto image = ecq::device_block_image::of(block);
    ASSERT_TRUE(image);
    const ecq_test::device_memory memory(image->bytes());
    const ecq_test::device_memory flag(8);
    const ecq::cuda gpu;
    const ecq::device_verdict verdict(flag.data());
    const auto on_device = image->upload(gpu, memory.data());
    ASSERT_TRUE(on_device);
    EXPECT_EQ(on_device->finite, at == none && coder_of_stream(block) != ecq::coder_id::raw);
    const ecq_test::device_memory out(on_device->template bytes<ecq::bf16>());
    ASSERT_TRUE(verdict.clear(gpu));
    ASSERT_TRUE(ecq::decompress<ecq::bf16>(gpu, *on_device, {out.data(), out.size()}, verdict));
    const auto outcome = verdict.wait(gpu);
    EXPECT_EQ(outcome ? ecq::errc::ok : outcome.error().code(), at == none ? ecq::errc::ok : ecq::errc::corrupt) << at;
  };
  for (const std::size_t at : {std::size_t{0}, std::size_t{1500}, std::size_t{8999}, none}) {
    expect_damage.operator()<ecq::rans>(at);
    expect_damage.operator()<ecq::tans>(at);
    expect_damage.operator()<ecq::huffman>(at);
    expect_damage.operator()<ecq::raw>(at);
  }
}

// Weights beyond the range of the output become its largest number on a device, too.
TEST_F(DecompressOnDevice, GivesFiniteWeightsWhereTheOutputEnds) {
  constexpr float most = std::numeric_limits<float>::max();
  ecq::packed_block block = made_block({{64, 64}, {3, 5}, {7, 128}});
  for (ecq::packed_matrix& matrix : block.matrices) {
    matrix.format = ecq::dtype::table;
    for (int code = 0; code < 64; ++code) matrix.values.insert(matrix.values.end(), {most, -0x1.FFp127F, 65520.0F, 1});
    for (ecq::bf16& scale : matrix.scales) scale = ecq::bf16(scale < 0.0F ? -1.0F : 1.0F);
  }
  for (const std::size_t padding : {0U, 3U}) {
    expect_the_weights_of_the_host<ecq::fp16>(block, padding);
    expect_the_weights_of_the_host<ecq::bf16>(block, padding);
    expect_the_weights_of_the_host<float>(block, padding);
  }
  std::vector<ecq::fp16> weights(64 * 64);
  ASSERT_TRUE(ecq::decompress(ecq::cpu{}, block, 0, ecq::matrix_view(weights.data(), 64, 64)));
  for (const ecq::fp16 weight : weights) ASSERT_TRUE(ecq::fp16::is_finite(weight.bits));
  block.matrices[1].scales[2] = ecq::bf16(2.0F);
  EXPECT_EQ(ecq::device_block_image::of(block).error().code(), ecq::errc::corrupt);
}

TEST_F(DecompressOnDevice, PutsExactWeightsInPlace) {
  for (const bool pairs : {false, true}) {
    ecq::packed_block block = made_block({{64, 64}, {3, 5}, {40, 36}}, pairs);
    block.matrices[1].exact = {{0, 7.0F}, {4, -70000.0F}, {5, 0.0F}, {14, 3.3e38F}};
    for (std::uint64_t at = 0; at < 40 * 36; at += 7) block.matrices[2].exact.push_back({at, static_cast<float>(at)});
    for (const std::size_t padding : {0U, 3U}) {
      expect_the_weights_of_the_host<ecq::fp16>(block, padding);
      expect_the_weights_of_the_host<ecq::bf16>(block, padding);
      expect_the_weights_of_the_host<float>(block, padding);
    }
  }
}

TEST_F(DecompressOnDevice, GivesTheWeightsOfGapArrays) {
  using coder = ecq::huffman_gaps;
  for (const std::size_t padding : {0U, 3U}) {
    expect_the_weights_of_the_host<ecq::bf16, coder>({{64, 64}, {3, 5}, {1, 1}, {40, 36}, {7, 128}}, padding);
    expect_the_weights_of_the_host<float, coder>({{3, 3000}, {20, 64}}, padding);
  }
}

TEST_F(DecompressOnDevice, GivesTheWeightsOfCodesInPairs) {
  for (const std::size_t padding : {0U, 3U}) {
    expect_the_weights_of_the_host<ecq::bf16>({{64, 64}, {3, 5}, {1, 1}, {40, 36}, {7, 128}}, padding, true);
  }
}

/// Uploads `image`, whose whole block the host decodes to `expected`, and decodes rows of each matrix alone.
template <class Output>
void expect_rows_alone(const auto& image, const ecq::packed_block& block, const std::vector<std::byte>& expected) {
  const ecq_test::device_memory memory(image.bytes());
  const ecq_test::device_memory flag(8);
  const ecq::cuda gpu;
  const ecq::device_verdict verdict(flag.data());
  const auto on_device = image.upload(gpu, memory.data());
  ASSERT_TRUE(on_device);
  ASSERT_TRUE(verdict.clear(gpu));
  for (std::size_t i = 0; i < block.matrices.size(); ++i) {
    const std::size_t all = block.matrices[i].layout.rows;
    for (const auto& [first, rows] :
         {std::pair(std::size_t{0}, all), std::pair(std::size_t{0}, std::size_t{1}), std::pair(all - 1, std::size_t{1}),
          std::pair(all / 3, all - all / 3), std::pair(all / 2, all / 4), std::pair(all, std::size_t{0})}) {
      const ecq_test::device_memory description(image.rows_bytes);
      const auto part = image.upload_rows(gpu, *on_device, i, first, rows, description.data());
      ASSERT_TRUE(part) << part.error().to_string();
      const ecq_test::device_memory out(part->template bytes<Output>());
      const auto done = ecq::decompress<Output>(gpu, *part, {out.data(), out.size()}, verdict);
      ASSERT_TRUE(done) << done.error().to_string();
      ASSERT_TRUE(verdict.wait(gpu));
      const auto& [offset, stride] = image.places()[i];
      const auto begin = expected.begin() + static_cast<std::ptrdiff_t>((offset + first * stride) * sizeof(Output));
      ASSERT_EQ(out.read(), std::vector<std::byte>(begin, begin + static_cast<std::ptrdiff_t>(out.size())))
          << "rows " << first << " + " << rows << " of matrix " << i;
    }
  }
}

template <class Output>
void expect_rows_alone(const ecq::packed_block& block, std::size_t padding) {
  const auto image = padding == 0 ? ecq::device_block_image::of(block)
                                  : ecq::device_block_image::of(block, padded_places(block, padding));
  ASSERT_TRUE(image) << image.error().to_string();
  const auto elements = *ecq::elements_at(block.matrices, image->places());
  expect_rows_alone<Output>(*image, block, weights_of_the_host<Output>(block, image->places(), elements));
}

TEST_F(DecompressOnDevice, DecodesRowsAlone) {
  const std::vector<extent> extents = {{12, 64}, {3, 5}, {1, 1}, {5, 300}, {6, 128}, {1, 3000}};
  const auto expect_rows_by = [&]<class Coder>(bool pairs) {
    for (const std::size_t padding : {0U, 3U, 4U}) {
      expect_rows_alone<ecq::bf16>(made_block<Coder>(extents, pairs), padding);
    }
  };
  expect_rows_by.operator()<ecq::rans>(false);
  expect_rows_by.operator()<ecq::rans>(true);
  expect_rows_by.operator()<ecq::huffman_gaps>(false);
  expect_rows_alone<float>(made_block<ecq::tans>(extents, true, 2U), 0);
  expect_rows_alone<ecq::fp16>(made_block(extents, false, {}, ecq::trellis{3, 10}), 3);
}

TEST_F(DecompressOnDevice, DecodesRowsThatShareScalesAlone) {
  for (const auto& [rows, columns] : {std::pair(2U, 64U), std::pair(5U, 4U), std::pair(3U, 10U), std::pair(99U, 99U)}) {
    ecq::packed_block block = made_block({{12, 64}, {7, 30}, {11, 128}});
    for (ecq::packed_matrix& matrix : block.matrices) {
      matrix.layout.rows_per_group = rows;
      matrix.layout.columns_per_group = columns;
      matrix.scales.clear();
      while (matrix.scales.size() < matrix.layout.count()) {
        matrix.scales.push_back(ecq::bf16(static_cast<float>(matrix.scales.size() + 1)));
      }
      for (std::uint64_t at = 0; at < matrix.layout.rows * matrix.layout.columns; at += 23) {
        matrix.exact.push_back({at, -static_cast<float>(at)});
      }
    }
    for (const std::size_t padding : {0U, 3U}) {
      expect_rows_alone<ecq::bf16>(block, padding);
      expect_rows_alone<float>(block, padding);
    }
  }
}

TEST_F(DecompressOnDevice, DecodesRowsOfAStreamOnTheDeviceAlone) {
  const ecq::packed_block block = made_block<ecq::tans>({{12, 64}, {3, 5}, {5, 300}});
  const ecq_test::device_memory stream(block.stream.size() + ecq::stream_tail_bytes);
  ASSERT_EQ(cudaMemcpy(stream.data(), block.stream.data(), block.stream.size(), cudaMemcpyHostToDevice), cudaSuccess);
  const auto image = ecq::resident_block::open({}, block.matrices, {stream.data(), block.stream.size()});
  ASSERT_TRUE(image) << image.error().to_string();
  const auto elements = *ecq::elements_at(block.matrices, image->places());
  expect_rows_alone<ecq::bf16>(*image, block, weights_of_the_host<ecq::bf16>(block, image->places(), elements));
}

// Chunks of other rows are not decoded, so that damage in them is not found.
TEST_F(DecompressOnDevice, DecodesNoOtherChunksThanThoseOfRows) {
  ecq::packed_block block = made_block({{3, 3000}});
  block.matrices[0].format = ecq::dtype::fp8_e4m3;
  std::vector<std::uint8_t> codes(9000, 0x38);
  codes[7000] = 0x7F;  // not a number
  block.stream = *ecq::encode_stream<ecq::rans>(ecq::cpu{}, codes, {.chunk_bits = 10});
  const auto image = ecq::device_block_image::of(block);
  ASSERT_TRUE(image);
  const ecq_test::device_memory memory(image->bytes());
  const ecq_test::device_memory description(image->rows_bytes);
  const ecq_test::device_memory flag(8);
  const ecq_test::device_memory out(6000 * sizeof(float));
  const ecq::device_verdict verdict(flag.data());
  const auto whole = image->upload({}, memory.data());
  ASSERT_TRUE(whole);
  for (const std::uint64_t first : {0U, 1U}) {
    const auto rows = image->upload_rows({}, *whole, 0, first, 2, description.data());
    ASSERT_TRUE(rows);
    ASSERT_TRUE(verdict.clear({}));
    ASSERT_TRUE(ecq::decompress<float>({}, *rows, {out.data(), out.size()}, verdict));
    EXPECT_EQ(verdict.wait({}).has_value(), first == 0) << first;
  }
}

TEST_F(DecompressOnDevice, NamesRowsThatThereAreNot) {
  const ecq::packed_block block = made_block({{12, 64}, {3, 5}});
  const ecq::packed_block other = made_block({{12, 64}});
  const auto image = ecq::device_block_image::of(block);
  const auto other_image = ecq::device_block_image::of(other);
  ASSERT_TRUE(image && other_image);
  const ecq_test::device_memory memory(image->bytes());
  const ecq_test::device_memory description(image->rows_bytes + 4);
  const auto whole = image->upload({}, memory.data());
  ASSERT_TRUE(whole);
  const auto refusal = [&](const ecq::device_block_image& of, const ecq::device_block& from, std::size_t index,
                           std::uint64_t first, std::uint64_t rows, std::size_t shift = 0) {
    const auto got = of.upload_rows({}, from, index, first, rows, description.data() + shift);
    return got ? "none" : got.error().to_string();
  };
  EXPECT_EQ(refusal(*image, *whole, 2, 0, 1), "invalid argument: matrix 2 does not exist in a block of 2");
  EXPECT_EQ(refusal(*image, *whole, 1, 2, 2), "invalid argument: rows 2 + 2 exceed matrix 1, which has 3");
  EXPECT_EQ(refusal(*image, *whole, 1, 3, ~std::uint64_t{0}),
            "invalid argument: rows 3 + 18446744073709551615 exceed matrix 1, which has 3");
  EXPECT_NE(refusal(*image, *whole, 1, 1, 2, 4), "none");
  EXPECT_FALSE(image->upload_rows({}, *whole, 1, 1, 2, nullptr));
  const auto part = image->upload_rows({}, *whole, 0, 1, 2, description.data());
  ASSERT_TRUE(part);
  EXPECT_EQ(refusal(*image, *part, 0, 0, 1), "invalid argument: the device block does not belong to this image");
  EXPECT_EQ(refusal(*other_image, *whole, 0, 0, 1), "invalid argument: the device block does not belong to this image");
}

TEST_F(DecompressOnDevice, DecodesTheCodersThatAreNamed) {
  expect_the_weights_of_the_host<ecq::bf16>(made_block({{64, 64}, {3, 5}}), 0, ecq::coders<ecq::rans>);
  const auto refused = [&]<class Coder>() {
    const ecq::packed_block block = made_block<Coder>({{64, 64}});  // outlives the copy that upload() begins
    const auto image = ecq::device_block_image::of(block);
    const ecq_test::device_memory memory(image->bytes());
    const ecq_test::device_memory flag(8);
    const ecq::cuda gpu;
    const auto on_device = image->upload(gpu, memory.data());
    const ecq_test::device_memory out(on_device->template bytes<ecq::bf16>());
    return ecq::decompress<ecq::bf16>(gpu, *on_device, {out.data(), out.size()}, ecq::device_verdict(flag.data()),
                                      ecq::coders<ecq::rans>);
  };
  const auto tans = refused.operator()<ecq::tans>();
  ASSERT_FALSE(tans);
  EXPECT_EQ(tans.error().to_string(), "unsupported: stream: coder tans has no kernels in this program");
  const auto gaps = refused.operator()<ecq::huffman_gaps>();
  ASSERT_FALSE(gaps);
  EXPECT_EQ(gaps.error().code(), ecq::errc::unsupported);
}

// Double buffering: blocks on one queue and on several, each decoded to the buffer given in the call.
TEST_F(DecompressOnDevice, FillsTheBufferThatEachCallNames) {
  const ecq::packed_block block = made_block({{64, 64}, {32, 96}});
  const auto image = ecq::device_block_image::of(block);
  ASSERT_TRUE(image);
  const ecq_test::device_memory memory(image->bytes());
  const ecq_test::device_memory flags(16);
  const auto on_device = image->upload({}, memory.data());
  ASSERT_TRUE(on_device);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  const ecq_test::device_memory even(on_device->bytes<ecq::bf16>());
  const ecq_test::device_memory odd(on_device->bytes<ecq::bf16>());
  ecq::cuda queues[2];
  for (int turn = 0; turn < 2; ++turn) {
    ASSERT_EQ(cudaStreamCreate(&queues[turn].stream), cudaSuccess);
    ASSERT_TRUE(ecq::device_verdict(flags.data() + 8 * turn).clear(queues[turn]));
  }
  for (int turn = 0; turn < 4; ++turn) {
    const ecq_test::device_memory& out = turn % 2 == 0 ? even : odd;
    ASSERT_TRUE(ecq::decompress<ecq::bf16>(queues[turn % 2], *on_device, {out.data(), out.size()},
                                           ecq::device_verdict(flags.data() + 8 * (turn % 2))));
  }
  for (int turn = 0; turn < 2; ++turn) {
    EXPECT_TRUE(ecq::device_verdict(flags.data() + 8 * turn).wait(queues[turn]));
    EXPECT_EQ(cudaStreamDestroy(queues[turn].stream), cudaSuccess);
  }
  const auto expected = weights_of_the_host<ecq::bf16>(block, image->places(), on_device->elements);
  EXPECT_EQ(even.read(), expected);
  EXPECT_EQ(odd.read(), expected);
}

// Lossless weights come back bit for bit, in one launch, whatever their values.
TEST_F(DecompressOnDevice, GivesBackLosslessWeights) {
  ecq::packed_block block;
  const auto bits = ecq_test::code_source(3).bell(2 * 3000, 30);
  std::vector<std::byte> elements(bits.size());
  std::memcpy(elements.data(), bits.data(), bits.size());
  for (const auto& [rows, columns, first] : {std::tuple(40U, 50U, 0U), std::tuple(10U, 100U, 2000U)}) {
    ecq::packed_matrix& matrix = block.matrices.emplace_back();
    matrix.shape = {rows, columns};
    matrix.format = ecq::dtype::bf16;
    matrix.layout = ecq::without_groups(rows, columns);
    matrix.first_symbol = first;
  }
  auto stream = ecq::encode_exponents<ecq::rans>(ecq::cpu{}, ecq::dtype::bf16, elements, {.chunk_bits = 10});
  ASSERT_TRUE(stream);
  block.stream = std::move(*stream);
  const std::vector<ecq::matrix_place> behind = {{8, 50}, {2008, 100}};
  for (const std::size_t shift : {0U, 8U}) {
    const auto image = shift == 0 ? ecq::device_block_image::of(block) : ecq::device_block_image::of(block, behind);
    ASSERT_TRUE(image) << image.error().to_string();
    const ecq_test::device_memory memory(image->bytes());
    const ecq_test::device_memory flag(8);
    const ecq::device_verdict verdict(flag.data());
    const auto on_device = image->upload({}, memory.data());
    ASSERT_TRUE(on_device);
    const ecq_test::device_memory out(on_device->bytes<ecq::bf16>());
    ASSERT_TRUE(verdict.clear({}));
    ASSERT_TRUE(ecq::decompress<ecq::bf16>({}, *on_device, {out.data(), out.size()}, verdict));
    ASSERT_TRUE(verdict.wait({}));
    std::vector<std::byte> expected(2 * shift, std::byte{0x5A});
    expected.insert(expected.end(), elements.begin(), elements.end());
    ASSERT_EQ(out.read(), expected);
    expect_rows_alone<ecq::bf16>(*image, block, expected);
    const auto other = ecq::decompress<ecq::fp16>({}, *on_device, {out.data(), out.size()}, verdict);
    ASSERT_FALSE(other);
    EXPECT_EQ(other.error().code(), ecq::errc::unsupported);
  }
  const std::vector<ecq::matrix_place> apart = {{0, 50}, {2048, 100}};
  const auto refused = ecq::device_block_image::of(block, apart);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ecq::errc::unsupported);
}

TEST_F(DecompressOnDevice, NamesBuffersThatAreTooSmallOrNotAligned) {
  const ecq::packed_block block = made_block({{64, 64}});
  const auto image = ecq::device_block_image::of(block);
  ASSERT_TRUE(image);
  const ecq_test::device_memory memory(image->bytes());
  const ecq_test::device_memory out(image->bytes() + 64 * 64 * 4);
  const auto on_device = image->upload({}, memory.data());
  ASSERT_TRUE(on_device);
  const ecq::device_verdict verdict(out.data());
  const std::size_t needed = on_device->bytes<float>();
  for (const auto& [shift, size] : {std::pair(0, needed - 1), std::pair(4, needed)}) {
    const auto got = ecq::decompress<float>({}, *on_device, {out.data() + shift, size}, verdict);
    ASSERT_FALSE(got);
    EXPECT_EQ(got.error().code(), ecq::errc::invalid_argument);
  }
  const auto shifted = image->upload({}, memory.data() + 64);
  ASSERT_FALSE(shifted);
  EXPECT_EQ(shifted.error().code(), ecq::errc::invalid_argument);
}

// cudaMalloc() gives no address for an empty buffer.
TEST_F(DecompressOnDevice, TakesBlocksWithoutWeights) {
  for (const std::vector<extent>& extents : {std::vector<extent>{}, {{0, 64}}, {{3, 0}, {0, 0}}}) {
    const ecq::packed_block block = made_block(extents);
    const auto image = ecq::device_block_image::of(block);
    ASSERT_TRUE(image) << image.error().to_string();
    const ecq_test::device_memory memory(image->bytes());
    const ecq_test::device_memory flag(8);
    const auto on_device = image->upload({}, memory.data());
    ASSERT_TRUE(on_device);
    const ecq::device_verdict verdict(flag.data());
    ASSERT_TRUE(verdict.clear({}));
    ASSERT_EQ(on_device->bytes<float>(), 0U);
    const auto got = ecq::decompress<float>({}, *on_device, {}, verdict);
    EXPECT_TRUE(got) << got.error().to_string();
    EXPECT_TRUE(verdict.wait({}));
    for (std::size_t i = 0; i < extents.size(); ++i) {
      const auto rows = image->upload_rows({}, *on_device, i, 0, extents[i].rows, nullptr);
      ASSERT_TRUE(rows) << rows.error().to_string();
      EXPECT_EQ(rows->bytes<float>(), 0U);
      EXPECT_TRUE(ecq::decompress<float>({}, *rows, {}, verdict));
    }
  }
}

}  // namespace
