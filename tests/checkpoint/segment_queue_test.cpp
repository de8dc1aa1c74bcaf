// Tensors of many streams, decoded side by side: the file does not depend on the number of weights decoded at a time.

#include "ecq/checkpoint/segment_queue.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

#include "ecq/checkpoint/decompress_checkpoint.hpp"
#include "ecq/compressor.hpp"
#include "ecq/container/writer.hpp"
#include "ecq/entropy/huffman/huffman.hpp"
#include "ecq/quantize/entrollm.hpp"
#include "support/files.hpp"
#include "support/weights.hpp"

namespace {

using ecq::cpu;
using ecq::dtype;
using ecq::errc;

/// Writes blocks "0", "1", ... of one matrix each, with the given numbers of rows and 40 columns; the last matrix has
/// no columns.
void write_container(const std::filesystem::path& path, const std::vector<std::size_t>& rows) {
  ecq::container_plan plan;
  std::vector<ecq::packed_block> blocks;
  for (std::size_t index = 0; index < rows.size(); ++index) {
    const std::size_t columns = index + 1 == rows.size() ? 0 : 40;
    const auto weights = ecq_test::gaussian(rows[index], columns, index + 1);
    auto packed = ecq::compressor<ecq::uint8, ecq::huffman, ecq::entrollm>{.stream = {.chunk_bits = 10}}.compress(
        ecq::matrix_view<const float>(weights.data(), rows[index], columns));
    ASSERT_TRUE(packed) << packed.error().to_string();
    ecq::packed_matrix& matrix = packed->matrices[0];
    matrix.name = "matrix " + std::to_string(index);
    plan.blocks.push_back({std::to_string(index), {{matrix.name, matrix.shape, false, true}}});
    blocks.push_back(std::move(*packed));
  }
  auto writer = ecq::container_writer::create(path, plan);
  ASSERT_TRUE(writer) << writer.error().to_string();
  for (std::size_t index = 0; index < blocks.size(); ++index) {
    ASSERT_TRUE(writer->write_block(std::to_string(index), blocks[index]));
  }
  ASSERT_TRUE(writer->commit());
}

class SegmentQueue : public testing::Test {
 protected:
  void SetUp() override { write_container(packed, {3, 1, 200, 30, 1, 75, 5}); }

  /// Decodes the container by a queue that takes `piece_weights` weights at a time; matrices take `types` in turn.
  ecq::result<void> decode(std::size_t piece_weights, cpu backend, const std::vector<dtype>& types) {
    ECQ_TRY(container, ecq::container_reader::open(packed));
    std::vector<ecq::tensor_declaration> tensors;
    const auto type_of = [&](std::size_t index) { return types[index % types.size()]; };
    for (std::size_t index = 0; index < container.blocks().size(); ++index) {
      const auto& matrix = container.blocks()[index].matrices[0];
      tensors.push_back({matrix.name, ecq::safetensors_name(type_of(index)), matrix.shape});
    }
    ECQ_TRY(writer, ecq::safetensors_writer::create(restored, tensors, {}));
    ecq::detail::segment_queue queue(backend, writer, piece_weights);
    for (std::size_t index = 0; index < container.blocks().size(); ++index) {
      ECQ_TRY(block, ecq::detail::open_block::open(container, index));
      ECQ_CHECK(queue.add(block, 0, type_of(index)));
    }
    ECQ_CHECK(queue.flush());
    return writer.commit();
  }

  ecq_test::temporary_folder folder;
  std::filesystem::path packed = folder / "packed.safetensors";
  std::filesystem::path restored = folder / "restored.safetensors";
};

TEST_F(SegmentQueue, GivesTheSameFileWhateverItTakesAtATime) {
  const std::vector<std::vector<dtype>> all_types = {{dtype::fp32}, {dtype::bf16}, {dtype::fp32, dtype::fp16}};
  for (const auto& types : all_types) {
    std::string expected;
    for (const std::size_t piece : {1U, 40U, 1000U, 4100U, 1U << 22}) {
      for (const unsigned threads : {1U, 3U}) {
        const auto done = decode(piece, cpu{.threads = threads}, types);
        ASSERT_TRUE(done) << done.error().to_string();
        if (expected.empty()) expected = ecq_test::read_file(restored);
        EXPECT_EQ(ecq_test::read_file(restored), expected) << piece;
      }
    }
  }
  ASSERT_TRUE(decode(4100, cpu{}, {dtype::bf16}));
  const std::string queued = ecq_test::read_file(restored);
  ASSERT_TRUE(ecq::decompress_checkpoint(cpu{}, packed, restored, {.type = dtype::bf16}));
  EXPECT_EQ(ecq_test::read_file(restored), queued);
}

TEST_F(SegmentQueue, NamesTheFirstMatrixThatIsDamaged) {
  std::string bytes = ecq_test::read_file(packed);
  const auto file = ecq::safetensors_file::open(packed);
  ASSERT_TRUE(file);
  for (const char* stream : {"2.ecq_stream", "5.ecq_stream"}) {
    const auto& entry = *file->find(stream);
    // Words of the last chunk: the bytes before the last 128, which decoders may read but do not use.
    const std::size_t end = file->header_bytes().size() + static_cast<std::size_t>(entry.begin + entry.size_bytes());
    for (std::size_t at = end - 260; at < end - 192; ++at) bytes[at] = static_cast<char>(bytes[at] ^ 0x11);
  }
  ecq_test::write_file(packed, bytes);
  for (const unsigned threads : {1U, 2U, 5U}) {
    const auto done = decode(1U << 22, cpu{.threads = threads}, {dtype::fp32});
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code(), errc::checksum_mismatch);
    EXPECT_NE(done.error().message().find("'matrix 2'"), std::string::npos) << done.error().message();
  }
}

TEST(BlockDecoderSegments, AreCheckedBeforeAnythingIsDecoded) {
  const auto weights = ecq_test::gaussian(20, 30);
  const auto packed = ecq::compressor<ecq::uint8, ecq::huffman, ecq::entrollm>{}.compress(
      ecq::matrix_view<const float>(weights.data(), 20, 30));
  ASSERT_TRUE(packed);
  const auto decoder = ecq::block_decoder::open(*packed);
  ASSERT_TRUE(decoder);
  using segment = ecq::block_decoder::segment<float>;
  std::vector<float> out(20 * 30, -7), whole(20 * 30);
  ASSERT_TRUE(decoder->decode(cpu{}, 0, 0, ecq::matrix_view<float>(whole.data(), 20, 30)));
  const auto rows = [&](std::size_t first, std::size_t count) {
    return segment{&*decoder, 0, first, ecq::matrix_view<float>(out.data() + 30 * first, count, 30)};
  };
  const std::vector<segment> parts = {rows(13, 7), rows(0, 5), rows(5, 0), rows(5, 8)};
  ASSERT_TRUE(ecq::block_decoder::decode<float>(cpu{.threads = 2}, parts));
  EXPECT_EQ(out, whole);
  EXPECT_TRUE(ecq::block_decoder::decode<float>(cpu{}, std::span<const segment>()));
  std::fill(out.begin(), out.end(), -7.0F);
  std::vector<segment> bad = {rows(0, 5), rows(5, 8)};
  bad[1].first_row = 15;
  EXPECT_EQ(ecq::block_decoder::decode<float>(cpu{}, bad).error().code(), errc::invalid_argument);
  bad[1] = {&*decoder, 1, 0, rows(0, 1).out};
  EXPECT_EQ(ecq::block_decoder::decode<float>(cpu{}, bad).error().code(), errc::not_found);
  EXPECT_EQ(out, std::vector<float>(20 * 30, -7));
}

}  // namespace
