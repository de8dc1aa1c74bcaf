// Size of a file in excess of the entropy of its codes.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ecq/checkpoint/compress_checkpoint.hpp"
#include "ecq/io/safetensors_writer.hpp"
#include "support/codes.hpp"
#include "support/files.hpp"

namespace {

/// Writes 4 matrices of 4096 x 4096 bell-shaped weights (sums of four uniform numbers); every two are a block of a
/// large model.
void write_large_model(const std::filesystem::path& path) {
  constexpr std::size_t width = 4096;
  std::vector<ecq::tensor_declaration> tensors;
  for (const char* name : {"layers.0.q", "layers.0.k", "layers.1.q", "layers.1.k"}) {
    tensors.push_back({name, "BF16", std::vector<std::uint64_t>{width, width}});
  }
  auto writer = ecq::safetensors_writer::create(path, tensors);
  ASSERT_TRUE(writer) << writer.error().to_string();
  ecq_test::code_source random(64);
  std::vector<ecq::bf16> row(width);
  for (const auto& tensor : tensors) {
    ASSERT_TRUE(writer->begin(tensor.name));
    for (std::size_t i = 0; i < width; ++i) {
      for (ecq::bf16& weight : row) {
        const std::uint64_t bits = random.next();
        const auto sum =
            static_cast<int>((bits & 0xffffU) + ((bits >> 16) & 0xffffU) + ((bits >> 32) & 0xffffU) + (bits >> 48));
        weight = ecq::bf16(static_cast<float>(sum - 2 * 0xffff) * 0x1p-20F);
      }
      ASSERT_TRUE(writer->append(std::as_bytes(std::span(row))));
    }
    ASSERT_TRUE(writer->end());
  }
  ASSERT_TRUE(writer->commit());
}

/// Checks the figure that the format was designed for: streams, tables, states, indexes, scales, checksums, names and
/// JSON of 64 Mi weights take at most 0.03 bits per weight.
TEST(OverheadFigures, WholeFileOf64MiWeightsIsEntropyAndThreeHundredthsOfABit) {
  const ecq_test::temporary_folder folder;
  write_large_model(folder / "model.safetensors");
  for (const double bits : {2.1, 3.0, 4.0}) {
    const auto report = ecq::compress_checkpoint(ecq::cpu{.threads = 0}, folder / "model.safetensors",
                                                 folder / "packed", {.method = ecq::entquant{.target_bits = bits}});
    ASSERT_TRUE(report) << report.error().to_string();
    EXPECT_EQ(report->weights, std::uint64_t{1} << 26);
    EXPECT_NEAR(report->bits_per_weight, bits, 0.02);
    const double file_bits = 8.0 * static_cast<double>(report->file_bytes) / static_cast<double>(report->weights);
    EXPECT_LE(file_bits, report->entropy + 0.03);
    RecordProperty("bits_" + std::to_string(bits).substr(0, 3), std::to_string(file_bits - report->entropy));
  }
}

}  // namespace
