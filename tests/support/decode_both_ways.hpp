#pragma once
/// \file
/// Decodes chunks by the scalar definition and by the code that devices run.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>

#include "ecq/stream/bit_io.hpp"
#include "support/coded_chunk.hpp"
#include "support/decode_by_warp.hpp"

namespace ecq_test {

/// Decodes a chunk by the scalar definition and by the code of devices, raw bits included. Expects the same verdict
/// and, if it is good, the same codes.
template <class Coder>
decoded_chunk decode_both_ways(const coded_chunk<Coder>& chunk, const typename Coder::table& table,
                               ecq::split_map map) {
  auto scalar = chunk.decode_by([&](const ecq::chunk_bytes& bytes, const std::byte* raw, std::uint8_t* out) {
    const ecq::errc verdict = typename Coder::decoder(table, map).decode(bytes, out);
    ecq::merge_raw_bits(map, raw, {out, bytes.symbols});
    return verdict;
  });
  const auto by_warp = chunk.decode_by([&](const ecq::chunk_bytes& bytes, const std::byte* raw, std::uint8_t* out) {
    return *decode_by_warp<ecq::byte_split>(Coder{}, table, map, bytes, {raw, map.bits},
                                            reinterpret_cast<std::byte*>(out));
  });
  EXPECT_EQ(scalar.verdict, by_warp.verdict);
  if (scalar.verdict == ecq::errc::ok) {
    EXPECT_EQ(scalar.codes, by_warp.codes);
  }
  return scalar;
}

}  // namespace ecq_test
