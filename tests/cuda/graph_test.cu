// Work that a CUDA graph holds: each launch has the effect of the captured calls, on the data that are then in the same
// memory.

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "cuda/device_matrix.cuh"
#include "cuda/device_memory.cuh"
#include "ecq/cuda/compress.cuh"
#include "ecq/cuda/decode.cuh"
#include "ecq/cuda/decompress.cuh"
#include "ecq/cuda/encode.cuh"
#include "ecq/cuda/quantize.cuh"
#include "ecq/entropy/rans/rans_direct.hpp"
#include "ecq/stream/encoded_stream.hpp"
#include "support/codes.hpp"
#include "support/weights.hpp"

namespace {

using bytes = std::vector<std::byte>;
using ecq::bf16;
using ecq_test::copy_to_device;
using ecq_test::device_memory;

class Graph : public ecq_test::device_test {
 protected:
  using work = std::function<ecq::result<void>(const ecq::cuda&, const ecq::device_verdict&)>;

  void SetUp() override {
    device_test::SetUp();
    if (IsSkipped()) return;
    ASSERT_EQ(cudaStreamCreate(&gpu_.stream), cudaSuccess);
  }
  void TearDown() override {
    device_test::TearDown();
    if (gpu_.stream == nullptr) return;
    EXPECT_EQ(cudaStreamDestroy(gpu_.stream), cudaSuccess);
  }

  /// Captures `enqueue`, and expects a launch of the graph to leave the same in `out` as the call, for either input.
  void expect_replayed(const device_memory& out, const work& enqueue, const std::function<void(int)>& put_input) {
    const device_memory flag(8);
    const ecq::device_verdict verdict(flag.data());
    const auto call = [&]() -> ecq::result<void> {
      ECQ_CHECK(verdict.clear(gpu_));
      return enqueue(gpu_, verdict);
    };
    ASSERT_EQ(cudaStreamBeginCapture(gpu_.stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    const auto captured = call();
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(gpu_.stream, &graph), cudaSuccess);
    ASSERT_TRUE(captured) << captured.error().to_string();
    cudaGraphExec_t ready = nullptr;
    ASSERT_EQ(cudaGraphInstantiate(&ready, graph, 0), cudaSuccess);
    EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
    bytes replayed[2];
    for (int input = 0; input < 2; ++input) {
      put_input(input);
      clear(out);
      EXPECT_EQ(cudaGraphLaunch(ready, gpu_.stream), cudaSuccess);
      const auto told = verdict.wait(gpu_);
      EXPECT_TRUE(told) << told.error().to_string();
      replayed[input] = out.read();
      clear(out);
      EXPECT_TRUE(call());
      EXPECT_TRUE(verdict.wait(gpu_));
      EXPECT_TRUE(replayed[input] == out.read()) << input;
    }
    EXPECT_FALSE(replayed[0] == replayed[1]);
    EXPECT_EQ(cudaGraphExecDestroy(ready), cudaSuccess);
  }

  /// Expects `call`, which waits, to fail while the stream is captured, and the device to be usable afterwards.
  template <class Call>
  void expect_refused(Call&& call) {
    ASSERT_EQ(cudaStreamBeginCapture(gpu_.stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    EXPECT_FALSE(call());
    cudaGraph_t graph = nullptr;
    EXPECT_NE(cudaStreamEndCapture(gpu_.stream, &graph), cudaSuccess);
    static_cast<void>(cudaGetLastError());
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  }

  static void clear(const device_memory& out) {
    ASSERT_EQ(cudaMemset(out.data(), 0x5A, out.size()), cudaSuccess);
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  }

  ecq::cuda gpu_;
};

constexpr std::size_t count = 9003;

/// Returns BF16 weights whose exponents are the same for either input, so that their streams have the same layout.
bytes elements_of(int input) {
  const auto codes = ecq_test::code_source(3).bell(count, 9);
  bytes made(2 * count);
  for (std::size_t i = 0; i < count; ++i) {
    const bf16 weight((static_cast<float>(codes[i]) - 127.5F) * 0.01F);
    const auto bits = static_cast<std::uint16_t>(weight.bits ^ (input == 0 ? 0U : 0x807FU));
    std::memcpy(made.data() + 2 * i, &bits, 2);
  }
  return made;
}

template <class Coder>
bytes stream_of(int input) {
  auto made = ecq::encode_exponents<Coder>(ecq::cpu{}, ecq::dtype::bf16, elements_of(input), {.chunk_bits = 10});
  EXPECT_TRUE(made);
  return std::move(*made);
}

class GraphOfDecoding : public Graph {
 protected:
  template <class Coder>
  void expect_elements() {
    const bytes blobs[] = {stream_of<Coder>(0), stream_of<Coder>(1)};
    const auto image = ecq::device_image::of(*ecq::encoded_stream::parse(blobs[0]));
    ASSERT_TRUE(image);
    const device_memory memory(image->bytes());
    const auto stream = image->upload(gpu_, memory.data());
    ASSERT_TRUE(stream);
    const device_memory out(2 * count);
    expect_replayed(
        out,
        [&](const ecq::cuda& gpu, const ecq::device_verdict& verdict) {
          return ecq::decode_elements(gpu, *stream, 0, {out.data(), out.size()}, verdict);
        },
        [&](int input) { copy_to_device(memory, blobs[input]); });
  }
};

TEST_F(GraphOfDecoding, HoldsDecodersOfElements) {
  expect_elements<ecq::rans>();
  expect_elements<ecq::tans>();
  expect_elements<ecq::huffman_gaps>();
}

std::vector<bf16> weights_of(int input, std::size_t rows, std::size_t columns) {
  const auto wide = ecq_test::gaussian(rows, columns, static_cast<std::uint64_t>(input) + 1);
  return {wide.begin(), wide.end()};
}

/// Returns a block; those of the two inputs differ only in scales and in an exact weight.
ecq::packed_block block_of(int input) {
  const auto weights = weights_of(0, 24, 512);
  const ecq::compressor<ecq::fp8_e4m3, ecq::rans, ecq::entquant> codec{{.lambda = 14.5}, {.chunk_bits = 10}};
  auto made = codec.compress(ecq::cpu{}, ecq::matrix_view<const bf16>(weights.data(), 24, 512));
  EXPECT_TRUE(made);
  ecq::packed_matrix& matrix = made->matrices[0];
  for (bf16& scale : matrix.scales) scale = bf16(static_cast<float>(scale) * static_cast<float>(1 + input));
  matrix.exact.push_back({777, 5.0F + static_cast<float>(input)});
  return std::move(*made);
}

TEST_F(GraphOfDecoding, HoldsTheDecompressionOfABlock) {
  const ecq::packed_block blocks[] = {block_of(0), block_of(1)};
  const auto image = ecq::device_block_image::of(blocks[0]);
  const auto other = ecq::device_block_image::of(blocks[1]);
  ASSERT_TRUE(image && other);
  ASSERT_EQ(image->bytes(), other->bytes());
  const device_memory memory(image->bytes());
  const auto block = image->upload(gpu_, memory.data());
  ASSERT_TRUE(block);
  const device_memory out(block->bytes<bf16>());
  expect_replayed(
      out,
      [&](const ecq::cuda& gpu, const ecq::device_verdict& verdict) {
        return ecq::decompress<bf16>(gpu, *block, {out.data(), out.size()}, verdict);
      },
      [&](int input) { ASSERT_TRUE((input == 0 ? image : other)->upload(gpu_, memory.data())); });
}

class GraphOfEncoding : public Graph {
 protected:
  template <class Coder>
  void expect_stream(std::optional<ecq::dtype> format) {
    const bytes inputs[] = {elements_of(0), elements_of(1)};
    const auto needed = ecq::encode_workspace_bytes(format, 2 * count, {.chunk_bits = 10});
    const auto capacity = ecq::encoded_capacity(format, 2 * count, {.chunk_bits = 10});
    ASSERT_TRUE(needed && capacity);
    const device_memory in(2 * count);
    const device_memory workspace(static_cast<std::size_t>(*needed));
    const auto size_at = static_cast<std::size_t>((*capacity + 7) / 8 * 8);
    const device_memory out(size_at + 8);
    expect_replayed(
        out,
        [&](const ecq::cuda& gpu, const ecq::device_verdict& verdict) {
          return ecq::encode_elements<Coder>(gpu, format, {in.data(), in.size()}, {.chunk_bits = 10},
                                             {workspace.data(), workspace.size()}, {out.data(), size_at},
                                             reinterpret_cast<std::uint64_t*>(out.data() + size_at), verdict);
        },
        [&](int input) { copy_to_device(in, inputs[input]); });
  }
};

TEST_F(GraphOfEncoding, HoldsTheEncodingOfElements) {
  expect_stream<ecq::rans>(std::nullopt);
  expect_stream<ecq::rans>(ecq::dtype::bf16);
  expect_stream<ecq::rans_direct>(std::nullopt);
}

using GraphOfQuantization = Graph;

/// A matrix whose rows take a warp each, and one whose rows take a block each.
struct matrices_on_device {
  static constexpr std::size_t rows[] = {12, 2};
  static constexpr std::size_t columns[] = {300, 4200};
  static constexpr std::size_t sizes[] = {rows[0] * columns[0], rows[1] * columns[1]};

  device_memory first{2 * sizes[0]};
  device_memory second{2 * sizes[1]};
  std::vector<ecq::device_weights> all = {{first.data(), ecq::dtype::bf16, rows[0], columns[0], columns[0]},
                                          {second.data(), ecq::dtype::bf16, rows[1], columns[1], columns[1]}};

  void put(int input) const {
    copy_to_device(first, weights_of(input, rows[0], columns[0]));
    copy_to_device(second, weights_of(input + 2, rows[1], columns[1]));
  }
};

TEST_F(GraphOfQuantization, HoldsTheSearchForLambdaAndQuantization) {
  const matrices_on_device matrices;
  const auto& [one, other] = matrices.sizes;
  const std::size_t scales_at = (one + other + 255) / 256 * 256;
  const device_memory out(scales_at + 256 + sizeof(double));
  auto* const codes = reinterpret_cast<std::uint8_t*>(out.data());
  auto* const scales = reinterpret_cast<bf16*>(out.data() + scales_at);
  auto* const lambda = reinterpret_cast<double*>(out.data() + scales_at + 256);
  const std::vector<ecq::device_quantization> tasks = {{matrices.all[0], codes, scales},
                                                       {matrices.all[1], codes + one, scales + matrices.rows[0]}};
  const device_memory searching(ecq::lambda_workspace_bytes(matrices.all));
  const device_memory quantizing(ecq::quantize_workspace_bytes(tasks));
  const auto put_input = [&](int input) { matrices.put(input); };
  expect_replayed(
      out,
      [&](const ecq::cuda& gpu, const ecq::device_verdict& verdict) -> ecq::result<void> {
        ECQ_CHECK(ecq::lambda_for_bits<ecq::int8>(gpu, matrices.all, 3.0, 0.0, lambda, searching.data(), verdict));
        return ecq::quantize<ecq::int8>(gpu, tasks, lambda, quantizing.data(), verdict);
      },
      put_input);
  expect_replayed(
      out,
      [&](const ecq::cuda& gpu, const ecq::device_verdict& verdict) {
        return ecq::quantize<ecq::fp8_e4m3>(gpu, tasks, 14.5, quantizing.data(), verdict);
      },
      put_input);
}

TEST_F(GraphOfQuantization, HoldsTheCompressionOfMatrices) {
  const matrices_on_device matrices;
  const ecq::compressor<ecq::fp8_e4m3, ecq::rans, ecq::entquant> codec{{.target_bits = 3.0}};
  const auto room = ecq::compression_bytes(codec, matrices.all);
  ASSERT_TRUE(room);
  const device_memory block(static_cast<std::size_t>(room->block));
  const device_memory workspace(static_cast<std::size_t>(room->workspace));
  expect_replayed(
      block,
      [&](const ecq::cuda& gpu, const ecq::device_verdict& verdict) -> ecq::result<void> {
        ECQ_TRY(packed, ecq::compress(gpu, codec, matrices.all, {block.data(), block.size()},
                                      {workspace.data(), workspace.size()}, verdict));
        static_cast<void>(packed);
        return {};
      },
      [&](int input) { matrices.put(input); });
}

TEST_F(GraphOfQuantization, HoldsNothingThatWaits) {
  const matrices_on_device matrices;
  const ecq::compressor<ecq::fp8_e4m3, ecq::rans, ecq::entquant> codec{{.lambda = 14.5}};
  const auto room = ecq::compression_bytes(codec, matrices.all);
  ASSERT_TRUE(room);
  const device_memory block(static_cast<std::size_t>(room->block));
  const device_memory workspace(static_cast<std::size_t>(room->workspace));
  const device_memory flag(8);
  const ecq::device_verdict verdict(flag.data());
  matrices.put(0);
  ASSERT_TRUE(verdict.clear(gpu_));
  const auto packed = ecq::compress(gpu_, codec, matrices.all, {block.data(), block.size()},
                                    {workspace.data(), workspace.size()}, verdict);
  ASSERT_TRUE(packed);
  expect_refused([&] { return verdict.wait(gpu_).has_value(); });
  expect_refused([&] { return packed->fetch(gpu_, verdict).has_value(); });
  expect_refused([&] { return packed->open(gpu_, verdict).has_value(); });
  expect_refused([&] { return ecq::resident_stream::open(gpu_, packed->stream).has_value(); });
  if (ecq_test::emulated) {  // some devices copy from any memory of the host, whenever the graph is launched
    const auto opened = packed->open(gpu_, verdict);
    ASSERT_TRUE(opened);
    const device_memory tables(opened->bytes());
    expect_refused([&] { return opened->upload(gpu_, tables.data()).has_value(); });
  }
  EXPECT_TRUE(packed->fetch(gpu_, verdict));
}

}  // namespace
