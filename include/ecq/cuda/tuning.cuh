#pragma once
/// \file
/// Division of work on a device: figures for each compute capability, and the shapes of launches that follow from them.

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
  unsigned warps;         ///< per block
  std::uint64_t symbols;  ///< number that a block should decode with the tables that it loads
};

/// Launch parameters for all compute capabilities, measured on an H200 (9.0) alone:
///
///  - `warps`: blocks of 4 warps, which load tables twice as often, take 1 to 4 % longer for many chunks.
///  - `symbols`: the number that 8 warps decode with one chunk each of 2^13 symbols. For such chunks, blocks that stay,
///    and load tables once, take 7 % longer, since the last chunks keep few of a multiprocessor's warps busy.
inline constexpr tuning_row tuning_rows[] = {{80, 8, 1 << 16}, {90, 8, 1 << 16}, {100, 8, 1 << 16}, {120, 8, 1 << 16}};

/// Largest number of warps per block in any row; kernels are compiled for this number.
inline constexpr unsigned most_warps = [] {
  unsigned most = 0;
  for (const tuning_row& row : tuning_rows) most = (std::max)(most, row.warps);
  return most;
}();

/// Returns the row for a compute capability, which must be at least that of the first row.
constexpr const tuning_row& tuning_of(unsigned capability) noexcept {
  const tuning_row* found = tuning_rows;
  for (const tuning_row& row : tuning_rows) {
    if (row.capability <= capability) found = &row;
  }
  return *found;
}

/// Distribution of chunks over blocks of tuning_row::warps warps.
struct chunk_deal {
  std::uint64_t blocks;
  unsigned warps;  ///< warps of a block that decode chunks; all warps load tables
};

/// Deals `chunks` chunks of 2^chunk_bits symbols to the blocks of a device of `multiprocessors` multiprocessors, each
/// of which holds `resident` blocks at once. Few chunks are dealt so that the multiprocessor with the most chunks has
/// as few as possible. Blocks of small chunks decode several, one after another, provided that the device stays full of
/// blocks.
constexpr chunk_deal deal_of(const tuning_row& row, unsigned multiprocessors, unsigned resident, std::uint64_t chunks,
                             unsigned chunk_bits) noexcept {
  const auto shares = [](std::uint64_t all, std::uint64_t of) { return all / of + (all % of != 0 ? 1 : 0); };
  const std::uint64_t processors = (std::max)(multiprocessors, 1U);
  const std::uint64_t staying = processors * (std::max)(resident, 1U);
  chunk_deal deal = {shares(chunks, row.warps), row.warps};
  if (deal.blocks <= staying) {
    std::uint64_t fewest = ~std::uint64_t{0};
    for (unsigned warps = row.warps; warps != 0; --warps) {
      const std::uint64_t blocks = shares(chunks, warps);
      const std::uint64_t fullest = shares(blocks, processors) * warps;
      if (blocks > staying || fullest >= fewest) continue;
      fewest = fullest;
      deal = {blocks, warps};
    }
  }
  const std::uint64_t rounds = shares(row.symbols, std::uint64_t{deal.warps} << chunk_bits);
  constexpr std::uint64_t most_blocks = 0x7FFFFFFF;  // the limit of a grid
  deal.blocks = (std::min)({deal.blocks, (std::max)(staying, shares(deal.blocks, rounds)), most_blocks});
  return deal;
}

/// Properties of the current device.
struct device_traits {
  int number = 0;
  unsigned capability = 0;
  unsigned multiprocessors = 0;
};

/// Returns the properties of the current device. Errors: unsupported if there is no device, or no kernels for it.
inline result<device_traits> current_device() {
  device_traits device;
  ECQ_CHECK(check_cuda(cudaGetDevice(&device.number), "querying the current device"));
  // Capability and number of multiprocessors, 16 bits each; 0 until they are known. Several threads may ask at the same
  // time; they get the same answer.
  static std::atomic<std::uint32_t> known[64] = {};
  std::atomic<std::uint32_t>* const slot = device.number < 64 ? &known[device.number] : nullptr;
  std::uint32_t both = slot != nullptr ? slot->load(std::memory_order_relaxed) : 0;
  if (both == 0) {
    int major = 0;
    int minor = 0;
    int multiprocessors = 0;
    const auto ask = [&](int& value, cudaDeviceAttr attribute) {
      return check_cuda(cudaDeviceGetAttribute(&value, attribute, device.number), "querying device attributes");
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
               device.capability % 10, ", but decoders need 8.0");
}

/// Returns errc::invalid_argument unless device `number`, on which `what` lies, is the current device.
inline result<void> check_device(const device_traits& current, int number, const char* what) {
  if (current.number == number) return {};
  return error(errc::invalid_argument, what, " is on device ", number, ", but the current device is ", current.number);
}

}  // namespace detail

}  // namespace ecq
