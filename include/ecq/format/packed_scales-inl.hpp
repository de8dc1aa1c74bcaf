#pragma once
/// \file
/// Definition of packed scales.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ecq/base/little_endian.hpp"
#include "ecq/base/out_of_memory.hpp"
#include "ecq/base/result.hpp"
#include "ecq/format/bf16.hpp"
#include "ecq/format/packed_scales.hpp"

namespace ecq {

ECQ_INLINE scale_packing scale_packing::of(std::span<const bf16> scales) noexcept {
  if (scales.empty()) return {};
  const auto [least, most] = std::ranges::minmax(scales, {}, &bf16::bits);
  const auto spread = static_cast<unsigned>(most.bits - least.bits);
  return {least.bits, (std::max)(1U, static_cast<unsigned>(std::bit_width(spread)))};
}

ECQ_INLINE std::uint64_t packed_scale_bytes(std::span<const bf16> scales) noexcept {
  return scale_packing::of(scales).size_bytes(scales.size());
}

ECQ_INLINE std::vector<std::byte> pack_scales(std::span<const bf16> scales) {
  const auto packing = scale_packing::of(scales);
  std::vector<std::byte> packed(packing.size_bytes(scales.size()));
  store_le<std::uint16_t>(packed.data(), packing.least);
  packed[2] = static_cast<std::byte>(packing.bits);
  std::byte* next = packed.data() + scale_packing::header_bytes;
  std::uint32_t waiting = 0;
  unsigned bits = 0;
  for (const bf16 scale : scales) {
    waiting |= static_cast<std::uint32_t>(scale.bits - packing.least) << bits;
    for (bits += packing.bits; bits >= 8; bits -= 8, waiting >>= 8) *next++ = static_cast<std::byte>(waiting & 0xFFU);
  }
  if (bits != 0) *next = static_cast<std::byte>(waiting);
  return packed;
}

ECQ_INLINE result<std::vector<bf16>> unpack_scales(std::span<const std::byte> packed, std::uint64_t count) {
  if (packed.size() < scale_packing::header_bytes) {
    return error(errc::corrupt, packed.size(), " bytes are too few for packed scales");
  }
  const scale_packing packing{load_le<std::uint16_t>(packed.data()), static_cast<unsigned>(packed[2])};
  if (packing.bits < 1 || packing.bits > scale_packing::most_bits || packed[3] != std::byte{0}) {
    return error(errc::corrupt, "packed scales have ", packing.bits, " bits and reserved byte ",
                 static_cast<unsigned>(packed[3]));
  }
  if (count > packed.size() * 8 || packing.size_bytes(count) != packed.size()) {
    return error(errc::corrupt, packed.size(), " bytes do not fit ", count, " scales of ", packing.bits, " bits");
  }
  const auto failed = [&] { return error(errc::out_of_memory, "no memory for ", count, " scales"); };
  return detail::or_out_of_memory(failed, [&]() -> result<std::vector<bf16>> {
    std::vector<bf16> scales(static_cast<std::size_t>(count));
    const std::byte* next = packed.data() + scale_packing::header_bytes;
    std::uint32_t waiting = 0;
    unsigned bits = 0;
    for (bf16& scale : scales) {
      for (; bits < packing.bits; bits += 8) waiting |= static_cast<std::uint32_t>(*next++) << bits;
      const std::uint32_t pattern = packing.least + (waiting & ((1U << packing.bits) - 1));
      if (pattern > 0xFFFFU) return error(errc::corrupt, "scale has bit pattern ", pattern, ", more than 16 bits");
      scale = bf16::from_bits(static_cast<std::uint16_t>(pattern));
      waiting >>= packing.bits;
      bits -= packing.bits;
    }
    if (waiting != 0) return error(errc::corrupt, "bits after the last scale");
    return scales;
  });
}

}  // namespace ecq
