#include "ecq/quantize/dequantize_warp.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <span>
#include <vector>

#include "ecq/compressor.hpp"
#include "ecq/cuda/warp_block.hpp"
#include "ecq/decompress.hpp"
#include "ecq/entropy/step_warp.hpp"
#include "ecq/quantize/entrollm.hpp"
#include "support/host_warp.hpp"
#include "support/trellis_path.hpp"
#include "support/weights.hpp"
#include "support/word_ring.hpp"

namespace {

using ecq::errc;

struct shape {
  std::size_t rows;
  std::size_t columns;
};

/// Decodes all chunks of a block by the body that a device runs, into matrices whose rows are `padding` elements apart;
/// `finite` as in warp_weights.
template <class Output>
errc decode_by_warp(const ecq::packed_block& block, std::vector<std::vector<Output>>& out, std::size_t padding,
                    bool finite = false) {
  const auto stream = ecq::encoded_stream::parse(block.stream);
  EXPECT_TRUE(stream);
  auto places = ecq::dense_places(block.matrices);
  if (padding != 0) {
    std::uint64_t end = padding;
    for (std::size_t i = 0; i < places.size(); ++i) {
      places[i] = {end, block.matrices[i].layout.columns + padding};
      end += block.matrices[i].layout.rows * places[i].row_stride;
    }
  }
  const auto elements = ecq::elements_at(block.matrices, places);
  const auto planned = ecq::warp_block::of(block.matrices, places);
  EXPECT_TRUE(elements && planned);
  std::vector<Output> buffer(*elements);
  const ecq::warp_weights weights = {
      planned->matrices.data(), static_cast<std::uint32_t>(planned->matrices.size()), planned->values.data(),
      planned->scales.data(),   reinterpret_cast<std::byte*>(buffer.data()),          finite};
  errc verdict = errc::ok;
  for (std::uint64_t index = 0; index < stream->chunk_count(); ++index) {
    const ecq::chunk_bytes chunk = stream->chunk(index);
    std::vector<std::uint32_t> image;
    ecq::warp_table table;
    EXPECT_TRUE(ecq::with_coder(stream->coder(), [&]<class Coder>(Coder) -> ecq::result<void> {
      if constexpr (ecq::has_warp_table<Coder>) {
        table = ecq::append_warp_table(stream->table<Coder>(stream->record(index).table), stream->map(), image);
      }
      return {};
    }));
    ecq::warp_weight_sink<ecq::host_warp, Output> sink(weights, index << stream->chunk_bits(),
                                                       stream->raw_bits(index).data(), stream->map().bits,
                                                       stream->trellis().value_or(ecq::trellis{0, 0}));
    const errc decoded = ecq::decode_chunk_by_warp<ecq::host_warp>(
        table, image.data(),
        ecq::warp_chunk{chunk.states, chunk.words, chunk.word_count, chunk.symbols, ecq_test::word_ring()}, sink);
    if (decoded != errc::ok || sink.met_non_finite()) verdict = errc::corrupt;
  }
  for (std::size_t i = 0; i < places.size(); ++i) {
    const ecq::group_layout& layout = block.matrices[i].layout;
    auto& rows = out.emplace_back(layout.rows * (layout.columns + padding));
    const auto from = buffer.begin() + static_cast<std::ptrdiff_t>(places[i].offset);
    std::copy_n(from, layout.rows * (layout.columns + padding) - (layout.rows == 0 ? 0 : padding), rows.begin());
  }
  return verdict;
}

template <class Output>
std::vector<std::uint32_t> bits_of(std::span<const Output> weights) {
  std::vector<std::uint32_t> bits;
  for (const Output weight : weights) bits.push_back(std::bit_cast<std::uint32_t>(static_cast<float>(weight)));
  return bits;
}

template <class Output, class Compressor>
void expect_the_weights_of_the_host(const Compressor& compressor, const std::vector<shape>& shapes,
                                    std::size_t padding) {
  std::vector<std::vector<float>> weights;
  std::vector<ecq::named_weights> named;
  for (const shape& extent : shapes) {
    weights.push_back(ecq_test::gaussian(extent.rows, extent.columns, static_cast<unsigned>(weights.size() + 1), 0.1F));
  }
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    named.push_back(
        {std::to_string(i), ecq::matrix_view<const float>(weights[i].data(), shapes[i].rows, shapes[i].columns)});
  }
  const auto block = compressor.compress(ecq::cpu{}, named);
  ASSERT_TRUE(block) << block.error().to_string();
  std::vector<std::vector<Output>> by_warp;
  std::vector<std::vector<Output>> unseen;
  ASSERT_EQ((decode_by_warp(*block, by_warp, padding)), errc::ok);
  ASSERT_EQ((decode_by_warp(*block, unseen, padding, true)), errc::ok);
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    ASSERT_EQ(bits_of<Output>(by_warp[i]), bits_of<Output>(unseen[i])) << "matrix " << i;
    std::vector<Output> expected(shapes[i].rows * (shapes[i].columns + padding));
    ASSERT_TRUE(ecq::decompress(ecq::cpu{}, *block, i,
                                ecq::matrix_view<Output>(expected.data(), shapes[i].rows, shapes[i].columns,
                                                         static_cast<std::ptrdiff_t>(shapes[i].columns + padding), 1)));
    ASSERT_EQ(bits_of<Output>(by_warp[i]), bits_of<Output>(expected)) << "matrix " << i;
  }
}

TEST(DequantizeWarp, GivesTheWeightsOfTheHost) {
  const std::vector<std::vector<shape>> blocks = {
      {{64, 64}},
      {{3, 5}, {1, 1}, {40, 36}, {7, 128}, {2, 1000}},
      {{1, 3000}, {3000, 1}, {20, 64}},
  };
  for (const auto& shapes : blocks) {
    for (const std::size_t padding : {0U, 4U, 3U}) {
      const ecq::compressor<ecq::fp8_e4m3, ecq::rans, ecq::entquant> fp8{{.lambda = 14.0}, {.chunk_bits = 10}};
      expect_the_weights_of_the_host<ecq::bf16>(fp8, shapes, padding);
      const ecq::compressor<ecq::int8, ecq::rans, ecq::scaled_quantizer<ecq::absmax_search, ecq::per_group>> grouped{
          {.granularity = {.size = 12}}, {.chunk_bits = 10}};
      expect_the_weights_of_the_host<float>(grouped, shapes, padding);
      const ecq::compressor<ecq::uint4, ecq::huffman, ecq::entrollm> affine{{}, {.chunk_bits = 10}};
      expect_the_weights_of_the_host<ecq::fp16>(affine, shapes, padding);
    }
  }
}

// The codes on the trellis become weights, not their indices.
TEST(DequantizeWarp, GivesTheWeightsOfCodesOnATrellis) {
  for (unsigned state_bits = ecq::trellis::min_state_bits; state_bits <= ecq::trellis::max_state_bits; ++state_bits) {
    for (const std::size_t columns : {64U, 63U}) {
      const ecq::trellis walk{state_bits, 10};
      ecq::packed_block block;
      ecq::packed_matrix& matrix = block.matrices.emplace_back();
      matrix.format = ecq::dtype::int8;
      matrix.shape = {45, columns};
      matrix.layout = ecq::per_channel{}.layout(45, columns);
      matrix.scales.resize(matrix.layout.count(), ecq::bf16(0.5F));
      const auto codes = ecq_test::random_path(walk, 45 * columns, 3).codes;
      block.stream = *ecq::encode_stream<ecq::rans>(ecq::cpu{}, codes, {.chunk_bits = 11, .trellis = walk});
      std::vector<std::vector<float>> out;
      ASSERT_EQ((decode_by_warp(block, out, 0)), errc::ok);
      for (std::size_t i = 0; i < codes.size(); ++i) {
        ASSERT_EQ(out[0][i], static_cast<float>(static_cast<std::int8_t>(codes[i])) * 0.5F) << state_bits << ' ' << i;
      }
    }
  }
}

// A code that is no number counts as damage wherever it is written: alone, or in a whole group.
TEST(DequantizeWarp, MeetsCodesThatAreNoNumbers) {
  for (const std::size_t columns : {64U, 63U}) {
    for (const std::size_t at : {0U, 200U, 1279U}) {
      ecq::packed_block block;
      ecq::packed_matrix& matrix = block.matrices.emplace_back();
      matrix.shape = {1280 / columns, columns};
      matrix.layout = ecq::per_channel{}.layout(1280 / columns, columns);
      matrix.scales.resize(matrix.layout.count(), ecq::bf16(1.0F));
      std::vector<std::uint8_t> codes(matrix.layout.rows * columns, 0x38);
      const auto encoded = [&] { return *ecq::encode_stream<ecq::rans>(ecq::cpu{}, codes, {.chunk_bits = 10}); };
      block.stream = encoded();
      std::vector<std::vector<float>> out;
      EXPECT_EQ((decode_by_warp(block, out, 0)), errc::ok);
      codes[at % codes.size()] = 0x7F;
      block.stream = encoded();
      EXPECT_EQ((decode_by_warp(block, out, 0)), errc::corrupt) << columns << ", " << at;
    }
  }
}

// A row of nearly 2^32 columns ends, and the scale with it. Of all its weights, only those around the end exist.
TEST(DequantizeWarp, EndsTheLongestRowsWhereTheyEnd) {
  constexpr std::uint64_t columns = (std::uint64_t{1} << 32) - 4;
  constexpr std::uint64_t begin = columns + 4 - 1024;
  ecq::packed_matrix matrix;
  matrix.format = ecq::dtype::int8;
  matrix.layout = ecq::per_channel{}.layout(2, columns);
  matrix.scales = {ecq::bf16(1.0F), ecq::bf16(2.0F)};
  const auto planned = ecq::warp_block::of({&matrix, 1}, ecq::dense_places({&matrix, 1}));
  ASSERT_TRUE(planned);
  alignas(16) float out[2048] = {};
  const std::uintptr_t to = reinterpret_cast<std::uintptr_t>(out) - begin * sizeof(float);
  const ecq::warp_weights weights = {planned->matrices.data(), 1, planned->values.data(), planned->scales.data(),
                                     reinterpret_cast<std::byte*>(to)};  // NOLINT(performance-no-int-to-ptr)
  ecq::warp_weight_sink<ecq::host_warp, float> sink(weights, begin, nullptr, 0);
  for (std::uint32_t group = 0; group < 16; ++group) sink(ecq::host_warp::lanes(0x01010101U), group, 128);
  for (std::uint64_t i = 0; i < 2048; ++i) ASSERT_EQ(out[i], begin + i < columns ? 1.0F : 2.0F) << i;
}

}  // namespace
