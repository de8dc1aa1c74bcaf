#pragma once
/// \file
/// Kernels for the steps of stream/encode_group.hpp.

#include <cstddef>
#include <cstdint>

#include "ecq/cuda/chunk_decoder.cuh"
#include "ecq/cuda/device_group.cuh"
#include "ecq/cuda/device_warp.cuh"
#include "ecq/cuda/launch.cuh"
#include "ecq/cuda/verdict.cuh"
#include "ecq/stream/encode_group.hpp"

namespace ecq {

namespace detail {

/// Threads per block in each step; for encode_kernel, the largest number.
inline constexpr unsigned count_threads = 256;
inline constexpr unsigned plan_threads = rans_splits * lane_count;
inline constexpr unsigned encode_threads = 1024;
inline constexpr unsigned layout_threads = 1024;
inline constexpr unsigned place_threads = 128;
// Blocks of place_kernel that a multiprocessor shall hold; with one more, the compiler spills.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1200
inline constexpr unsigned place_blocks = 4;
#else
inline constexpr unsigned place_blocks = 6;
#endif

/// Shared memory of plan_kernel.
struct plan_memory {
  rans_split_work works[rans_splits];
  alias_work aliases;
};
static_assert(sizeof(plan_memory) <= least_shared_bytes);

/// Bytes of shared memory of encode_kernel.
template <bool SharedSlots>
inline constexpr std::size_t encode_shared_bytes =
    256 * sizeof(rans_encode_entry) + (SharedSlots ? alias_slot_count * sizeof(std::uint16_t) : 0);

}  // namespace detail

/// Step 1: counts symbols. Each warp has counters of its own in shared memory.
template <element_split Split>
__global__ void __launch_bounds__(detail::count_threads) count_kernel(encode_job job) {
  constexpr unsigned warps = detail::count_threads / lane_count;
  __shared__ std::uint32_t counters[warps * 256];
  for (std::uint32_t i = threadIdx.x; i < warps * 256; i += detail::count_threads) counters[i] = 0;
  __syncthreads();
  const device_threads group;
  count_elements<Split>(group, job, blockIdx.x, gridDim.x, counters + threadIdx.x / lane_count * 256);
  __syncthreads();
  collect_counts(group, counters, warps, job);
}

/// Step 2: chooses the raw bits and the tables, with one block of plan_threads threads; dynamic shared memory:
/// plan_memory. Each warp weighs one split.
template <unsigned Threads>
__global__ void __launch_bounds__(Threads) plan_kernel(encode_job job) {
  auto& shared = *detail::dynamic_shared<detail::plan_memory>();
  const std::uint32_t warp = threadIdx.x / lane_count;
  if (warp <= job.most_raw_bits) {
    weigh_rans_split(device_lanes<lane_count>(), job.counts, warp, job.direct, shared.works[warp]);
  }
  __syncthreads();
  choose_encoding(device_threads(), shared.works, shared.aliases, job);
}

/// Step 3: encodes chunks, one warp per chunk, with any number of blocks of whole warps; dynamic shared memory:
/// encode_shared_bytes. With SharedSlots, the slots of an alias table, if there is one, are copied there as well;
/// otherwise they stay where they are.
template <element_split Split, bool SharedSlots>
__global__ void __launch_bounds__(detail::encode_threads, 1) encode_kernel(encode_job job) {
  auto* const entries = detail::dynamic_shared<rans_encode_entry>();
  const rans_group_plan& plan = job.plan->coder;
  warp_encode_table table = {device_warp::kept(entries), job.slots, plan.division.addend()};
  const auto copy = [](void* to, const void* from, std::size_t bytes) {
    detail::copy_to_shared(static_cast<std::uint32_t*>(to), static_cast<const std::uint32_t*>(from),
                           static_cast<std::uint32_t>(bytes / 4));
  };
  copy(entries, plan.entries, sizeof plan.entries);
  if constexpr (SharedSlots) {
    table.slots = device_warp::kept(reinterpret_cast<const std::uint16_t*>(entries + 256));
    if (plan.shape.mapping == slot_mapping::alias && plan.count > 1) {
      copy(entries + 256, job.slots, alias_slot_count * sizeof(std::uint16_t));
    }
  }
  __syncthreads();
  // Neighbouring chunks go to different blocks, so that few chunks still keep all multiprocessors busy.
  const std::uint32_t warp = device_warp::uniform(threadIdx.x / lane_count);
  const std::uint64_t warps = std::uint64_t{gridDim.x} * (blockDim.x / lane_count);
  for (std::uint64_t chunk = blockIdx.x + std::uint64_t{gridDim.x} * warp; chunk < job.chunks; chunk += warps) {
    encode_chunk<device_warp, Split>(table, job, chunk);
  }
}

/// Step 4: lays out the stream, with one block of layout_threads threads. If the stream does not fit, `verdict` reports
/// the bytes that it needs.
template <unsigned Threads>
__global__ void __launch_bounds__(Threads, 1) layout_kernel(encode_job job, unsigned long long* verdict) {
  __shared__ std::uint64_t sums[lane_count];
  device_threads group;
  group.sums = sums;
  const std::uint64_t needed = lay_out_stream(group, job);
  if (threadIdx.x == 0 && needed > job.out_bytes) detail::report_failure(verdict, errc::limit_exceeded, needed);
}

/// Step 5: moves the words of chunks to their place, one warp per chunk, with any number of blocks of place_threads
/// threads.
template <element_split Split>
__global__ void __launch_bounds__(detail::place_threads, detail::place_blocks) place_kernel(encode_job job) {
  const std::uint64_t warps = std::uint64_t{gridDim.x} * (detail::place_threads / lane_count);
  std::uint64_t chunk = (std::uint64_t{blockIdx.x} * detail::place_threads + threadIdx.x) / lane_count;
  for (; chunk < job.chunks; chunk += warps) place_chunk<Split>(device_lanes<lane_count>(), job, chunk);
}

/// Step 6: finishes the stream, with one block of one warp.
template <unsigned Threads>
__global__ void __launch_bounds__(Threads) finish_kernel(encode_job job) {
  finish_stream(device_lanes<Threads>(), job);
}

}  // namespace ecq
