#pragma once
/// \file
/// Encoding of elements in device memory into a stream in device memory, byte for byte as encode_stream and
/// encode_exponents do with the coders rans and rans_direct.

#include <cuda_runtime.h>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>

#include "ecq/base/result.hpp"
#include "ecq/cuda/backend.cuh"
#include "ecq/cuda/encode_kernel.cuh"
#include "ecq/cuda/launch.cuh"
#include "ecq/cuda/verdict.cuh"
#include "ecq/entropy/rans/rans.hpp"
#include "ecq/entropy/rans/rans_direct.hpp"
#include "ecq/stream/chunked_elements.hpp"
#include "ecq/stream/stream_goal.hpp"

namespace ecq {

/// Coders with which devices encode. Streams of rans_direct are larger by up to some 0.01 bit per element, but devices
/// encode and decode them faster.
template <class Coder>
concept device_encoded = std::same_as<Coder, rans> || std::same_as<Coder, rans_direct>;

/// Options of a stream that a device encodes.
struct device_stream_options {
  unsigned chunk_bits = 0;               ///< as in stream_options
  stream_goal goal = stream_goal::size;  ///< as in stream_options, but not cpu
};

namespace detail {

/// Sizes of an encoding, which do not depend on the values of elements, and places of the parts of the workspace.
struct encode_sizes {
  std::uint64_t size = 0;  ///< number of elements
  std::uint64_t chunks = 0;
  unsigned chunk_bits = 0;
  std::size_t element_bytes = 1;
  unsigned never_coded_bits = 0;

  static constexpr std::uint64_t aligned(std::uint64_t bytes) { return (bytes + 255) / 256 * 256; }

  static constexpr std::uint64_t counts_at() { return 0; }
  static constexpr std::uint64_t plan_at() { return aligned(256 * sizeof(std::uint64_t)); }
  static constexpr std::uint64_t slots_at() { return plan_at() + aligned(sizeof(encode_plan)); }
  static constexpr std::uint64_t word_counts_at() {
    return slots_at() + aligned(alias_slot_count * sizeof(std::uint16_t));
  }
  std::uint64_t words_at() const { return word_counts_at() + aligned(sizeof(std::uint32_t) * chunks); }
  std::uint64_t workspace_bytes() const { return words_at() + (2 * size + 7) / 8 * 8; }
  std::uint64_t capacity() const { return stream_header::raw_stream_bytes(size, chunk_bits, element_bytes); }

  /// Computes the sizes for `bytes` bytes of elements, without reading them.
  static result<encode_sizes> of(std::optional<dtype> format, std::uint64_t bytes,
                                 const device_stream_options& options) {
    if (format && !is_floating_point(*format)) {
      return stream_error(errc::invalid_argument, "weights of ", to_string(*format), " have no exponents");
    }
    const std::span<const std::byte> unseen(static_cast<const std::byte*>(nullptr), static_cast<std::size_t>(bytes));
    if (options.goal == stream_goal::cpu) {
      return stream_error(errc::unsupported, "devices encode only single symbols, so not for the goal cpu");
    }
    ECQ_TRY(chunked, cut_into_chunks(unseen, format, {.chunk_bits = options.chunk_bits, .goal = options.goal}));
    encode_sizes sizes;
    sizes.size = chunked.size();
    sizes.chunks = chunked.chunks();
    sizes.chunk_bits = chunked.chunk_bits;
    sizes.element_bytes = chunked.element_bytes;
    sizes.never_coded_bits = chunked.never_coded_bits();
    return sizes;
  }
};

/// Launches steps 1 to 3 of stream/encode_group.hpp: the work on chunks before their words have a place.
template <element_split Split>
result<void> launch_encode(const cuda& gpu, const encode_job& job) {
  ECQ_TRY(multiprocessors, device_attribute(cudaDevAttrMultiProcessorCount));
  ECQ_TRY(shared_bytes, device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin));
  // Enough blocks to keep the memory busy, and to have fewer than 2^32 elements per block.
  const std::uint64_t vectors = job.size * job.element_bytes / 16;
  const std::uint64_t blocks =
      (std::max)((std::min)(vectors / (4 * count_threads) + 1, 8 * multiprocessors), (job.size >> 31) + 1);
  ECQ_CHECK(launch(gpu, "launching a histogram", &count_kernel<Split>,
                   {static_cast<std::size_t>(blocks), count_threads}, job));
  ECQ_CHECK(launch(gpu, "launching the planning of a stream", &plan_kernel<plan_threads>,
                   {1, plan_threads, sizeof(plan_memory)}, job));
  const auto encoders = static_cast<std::size_t>((std::min)(job.chunks, multiprocessors));
  if (!job.direct && shared_bytes >= encode_shared_bytes<true>) {
    return launch(gpu, "launching an encoder", &encode_kernel<Split, true>,
                  {encoders, encode_threads, encode_shared_bytes<true>}, job);
  }
  return launch(gpu, "launching an encoder", &encode_kernel<Split, false>,
                {encoders, encode_threads, encode_shared_bytes<false>}, job);
}

}  // namespace detail

/// Returns the number of bytes of device memory that encode_elements needs besides the stream: two per element and some
/// 140 KiB. Errors: those of encode_elements.
inline result<std::uint64_t> encode_workspace_bytes(std::optional<dtype> format, std::uint64_t bytes,
                                                    const device_stream_options& options = {}) {
  ECQ_TRY(sizes, detail::encode_sizes::of(format, bytes, options));
  return sizes.workspace_bytes();
}

/// Returns the size in bytes of the largest possible stream of `bytes` bytes of elements: the stream that stores them
/// raw.
inline result<std::uint64_t> encoded_capacity(std::optional<dtype> format, std::uint64_t bytes,
                                              const device_stream_options& options = {}) {
  ECQ_TRY(sizes, detail::encode_sizes::of(format, bytes, options));
  return sizes.capacity();
}

/// Encodes elements into a stream of `Coder` with one table, on gpu.stream. With a `format`, elements are weights, and
/// the stream is byte for byte that of encode_exponents<Coder>; without one, elements are bytes, and the stream is that
/// of encode_stream<Coder>. All memory is device memory: `elements`, aligned to 16 bytes; `workspace` of
/// encode_workspace_bytes(), aligned to 256; `out`, aligned to 64, any part of which may be written. `*device_size`,
/// aligned to 8, becomes the size of the stream, or 0 if `out` has no room for it; `verdict` then reports the number of
/// bytes needed. encoded_capacity() bytes are always enough. Errors: invalid_argument (format, sizes, options,
/// alignment), limit_exceeded for more than 2^43 elements, unsupported, device_error.
template <device_encoded Coder = rans>
result<void> encode_elements(const cuda& gpu, std::optional<dtype> format, std::span<const std::byte> elements,
                             const device_stream_options& options, std::span<std::byte> workspace,
                             std::span<std::byte> out, std::uint64_t* device_size, const device_verdict& verdict) {
  ECQ_TRY(sizes, detail::encode_sizes::of(format, elements.size(), options));
  if (workspace.size() < sizes.workspace_bytes()) {
    return error(errc::invalid_argument, "workspace has ", workspace.size(), " bytes, not ", sizes.workspace_bytes());
  }
  const auto misaligned = [](const void* memory, std::size_t alignment) {
    return reinterpret_cast<std::uintptr_t>(memory) % alignment != 0;
  };
  if (misaligned(elements.data(), 16) || misaligned(workspace.data(), 256) || misaligned(out.data(), 64)) {
    return error(errc::invalid_argument,
                 "memory for encoding is not aligned: elements to 16 bytes, workspace to 256, stream to 64");
  }
  ECQ_CHECK(detail::check_aligned(device_size, 8, "memory for the size"));
  ECQ_CHECK(detail::check_aligned(verdict.memory(), 8, "the verdict"));
  std::byte* const memory = workspace.data();
  const encode_job job = {
      .elements = elements.data(),
      .size = sizes.size,
      .chunks = sizes.chunks,
      .out = out.data(),
      .out_bytes = out.size(),
      .stream_bytes = device_size,
      .counts = reinterpret_cast<std::uint64_t*>(memory + sizes.counts_at()),
      .plan = reinterpret_cast<encode_plan*>(memory + sizes.plan_at()),
      .slots = reinterpret_cast<std::uint16_t*>(memory + sizes.slots_at()),
      .word_counts = reinterpret_cast<std::uint32_t*>(memory + sizes.word_counts_at()),
      .words = memory + sizes.words_at(),
      .chunk_bits = sizes.chunk_bits,
      .format = format ? static_cast<std::uint8_t>(*format) : std::uint8_t{0},
      .element_bytes = static_cast<std::uint8_t>(sizes.element_bytes),
      .never_coded_bits = static_cast<std::uint8_t>(sizes.never_coded_bits),
      .most_raw_bits = static_cast<std::uint8_t>(most_raw_bits(options.goal, Coder::id)),
      .direct = std::is_same_v<Coder, rans_direct>,
  };
  constexpr unsigned placed_together = detail::place_threads / lane_count;
  const auto placing = static_cast<std::size_t>(
      (std::min)((sizes.chunks + placed_together - 1) / placed_together, std::uint64_t{1} << 30));
  if (sizes.size != 0) {
    ECQ_CHECK(detail::check_cuda(cudaMemsetAsync(job.counts, 0, 256 * sizeof(std::uint64_t), gpu.stream),
                                 "clearing a histogram"));
    ECQ_CHECK(visit_split(format, [&]<class Split>() { return detail::launch_encode<Split>(gpu, job); }));
  }
  ECQ_CHECK(detail::launch(gpu, "launching the layout of a stream", &layout_kernel<detail::layout_threads>,
                           {1, detail::layout_threads}, job, verdict.memory()));
  ECQ_CHECK(visit_split(format, [&]<class Split>() {
    return detail::launch(gpu, "launching the placement of words", &place_kernel<Split>,
                          {placing, detail::place_threads}, job);
  }));
  return detail::launch(gpu, "launching the completion of a stream", &finish_kernel<lane_count>, {1, lane_count}, job);
}

}  // namespace ecq

/// \def ECQ_INSTANCE_OF_DEVICE_ENCODING
/// The instances of encode_elements in ecq::compiled_cuda: one for each coder.
#define ECQ_INSTANCE_OF_DEVICE_ENCODING(TEMPLATE, CODER)                                                          \
  TEMPLATE ecq::result<void> ecq::encode_elements<CODER>(                                                         \
      const ecq::cuda&, std::optional<ecq::dtype>, std::span<const std::byte>, const ecq::device_stream_options&, \
      std::span<std::byte>, std::span<std::byte>, std::uint64_t*, const ecq::device_verdict&)

#if defined(ECQ_COMPILED_CUDA)
ECQ_INSTANCE_OF_DEVICE_ENCODING(extern template, ecq::rans);
ECQ_INSTANCE_OF_DEVICE_ENCODING(extern template, ecq::rans_direct);
#endif
