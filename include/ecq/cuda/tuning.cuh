#pragma once
/// \file
/// How work is divided on a device: figures for each compute capability, and what follows from them at a launch.

#include <cuda_runtime.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "ecq/base/result.hpp"
#include "ecq/cuda/backend.cuh"

namespace ecq {

namespace detail {

/// Launch parameters of decoders on devices of a compute capability (10 * major + minor), and on newer ones up to the
/// next row.
struct tuning_row {
  unsigned capability;
  unsigned warps;  ///< of a block
  unsigned turns;  ///< blocks stay, and load tables only once, if there are this many chunks per resident warp
};

/// Nothing here was measured. The reasons for the figures, so far the same for all rows:
///
///  - `warps`: 8 warps of up to 64 registers are a quarter of the 65,536 of a multiprocessor. The largest table takes
///    16 KiB and values 1 KiB of shared memory; 4 blocks take 68 of the 164 KiB of 8.0, the 228 of 9.0 and 10.0, and
///    the 100 of 12.0, which holds no more than 5. Blocks of 4 warps would need twice that for as many warps.
///  - `turns`: 8 chunks of 2^13 bytes share a table of a quarter of their size, which comes from the L2 cache. With 4
///    turns that is 6 % of what they write; with fewer turns, the last one, in which some warps are idle, would lose
///    more than that.
inline constexpr tuning_row tuning_rows[] = {{80, 8, 4}, {90, 8, 4}, {100, 8, 4}, {120, 8, 4}};

/// The most warps of a block in any row; kernels are compiled for this number.
inline constexpr unsigned most_warps = [] {
  unsigned most = 0;
  for (const tuning_row& row : tuning_rows) most = (std::max)(most, row.warps);
  return most;
}();

/// The row for a compute capability, which must be at least that of the first row.
constexpr const tuning_row& tuning_of(unsigned capability) noexcept {
  const tuning_row* found = tuning_rows;
  for (const tuning_row& row : tuning_rows) {
    if (row.capability <= capability) found = &row;
  }
  return *found;
}

/// How chunks are dealt to blocks of tuning_row::warps warps.
struct chunk_deal {
  std::uint64_t blocks;
  unsigned warps;  ///< of a block that take chunks; all warps load tables
};

/// How to deal `chunks` chunks on a device of `multiprocessors` multiprocessors, each of which holds `resident` blocks
/// at once. Few chunks go to as many multiprocessors as there are, many chunks to blocks that stay.
constexpr chunk_deal deal_of(const tuning_row& row, unsigned multiprocessors, unsigned resident,
                             std::uint64_t chunks) noexcept {
  const std::uint64_t share = chunks / (std::max)(multiprocessors, 1U);
  const auto warps = static_cast<unsigned>(std::clamp<std::uint64_t>(share, 1, row.warps));
  const std::uint64_t blocks = chunks / warps + (chunks % warps != 0 ? 1 : 0);
  const std::uint64_t staying = std::uint64_t{multiprocessors} * resident;
  constexpr std::uint64_t most_blocks = 0x7FFFFFFF;  // of a grid
  return {(std::min)(staying != 0 && blocks / staying >= row.turns ? staying : blocks, most_blocks), warps};
}

/// The current device.
struct device_traits {
  int number = 0;
  unsigned capability = 0;
  unsigned multiprocessors = 0;
};

/// The traits of the current device. Errors: unsupported without a device, and for a device for which there are no
/// kernels.
inline result<device_traits> current_device() {
  device_traits device;
  ECQ_CHECK(check_cuda(cudaGetDevice(&device.number), "asking for the device"));
  // Capability and number of multiprocessors, 16 bits each, once they are known. Several threads may ask at the same
  // time; they get the same answer.
  static std::atomic<std::uint32_t> known[64] = {};
  std::atomic<std::uint32_t>* const slot = device.number < 64 ? &known[device.number] : nullptr;
  std::uint32_t both = slot != nullptr ? slot->load(std::memory_order_relaxed) : 0;
  if (both == 0) {
    int major = 0;
    int minor = 0;
    int multiprocessors = 0;
    const auto ask = [&](int& value, cudaDeviceAttr attribute) {
      return check_cuda(cudaDeviceGetAttribute(&value, attribute, device.number), "asking what the device is");
    };
    ECQ_CHECK(ask(major, cudaDevAttrComputeCapabilityMajor));
    ECQ_CHECK(ask(minor, cudaDevAttrComputeCapabilityMinor));
    ECQ_CHECK(ask(multiprocessors, cudaDevAttrMultiProcessorCount));
    both = (static_cast<std::uint32_t>(10 * major + minor) << 16) | static_cast<std::uint32_t>(multiprocessors);
    if (slot != nullptr) slot->store(both, std::memory_order_relaxed);
  }
  device.capability = both >> 16;
  device.multiprocessors = both & 0xFFFFU;
  if (device.capability >= tuning_rows[0].capability) return device;
  return error(errc::unsupported, "device ", device.number, " has compute capability ", device.capability / 10, ".",
               device.capability % 10, ", decoders need 8.0");
}

/// Returns errc::invalid_argument unless device `number`, on which `what` lies, is the current device.
inline result<void> check_device(const device_traits& current, int number, const char* what) {
  if (current.number == number) return {};
  return error(errc::invalid_argument, what, " lies on device ", number, ", the current one is device ",
               current.number);
}

}  // namespace detail

}  // namespace ecq
