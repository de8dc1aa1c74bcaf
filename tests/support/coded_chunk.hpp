#pragma once
/// \file
/// A single chunk, coded by a coder's own encoder and decoded by any decoder.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ecq/base/lanes.hpp"
#include "ecq/base/little_endian.hpp"
#include "ecq/base/result.hpp"
#include "ecq/entropy/entropy_coder.hpp"
#include "ecq/entropy/symbol_map.hpp"
#include "ecq/stream/bit_io.hpp"

namespace ecq_test {

/// Verdict of a decoder on a chunk, and the codes that it wrote.
struct decoded_chunk {
  ecq::errc verdict;
  std::vector<std::uint8_t> codes;

  bool operator==(const decoded_chunk&) const = default;
};

template <class Coder>
struct coded_chunk {
  using table_type = typename Coder::table;

  std::vector<std::byte> states = std::vector<std::byte>(Coder::state_bytes);
  std::vector<std::byte> words;
  std::vector<std::byte> raw;  ///< raw bits, which no coder sees
  std::uint32_t symbols = 0;

  coded_chunk(const table_type& table, ecq::split_map map, std::span<const std::uint8_t> codes)
      : symbols(static_cast<std::uint32_t>(codes.size())) {
    std::vector<std::uint16_t> buffer(codes.size());
    const std::size_t count = typename Coder::encoder(table, map).encode(codes, states.data(), buffer);
    words.resize(2 * count);
    for (std::size_t i = 0; i < count; ++i) ecq::store_le(&words[2 * i], buffer[buffer.size() - count + i]);
    raw.resize(static_cast<std::size_t>(ecq::raw_bytes(codes.size(), map.bits)));
    ecq::pack_raw_bits(map, codes, raw.data());
  }

  std::uint32_t word_count() const { return static_cast<std::uint32_t>(words.size() / 2); }

  /// Decodes by `decode(chunk_bytes, raw bits, out)`, which returns its verdict. All parts may be read as far beyond
  /// their ends as in a stream; a sanitizer reports reads beyond that.
  template <class Decode>
  decoded_chunk decode_by(const Decode& decode) const {
    const auto padded = [](const std::vector<std::byte>& part) {
      std::vector<std::byte> longer(part.size() + ecq::stream_tail_bytes);
      std::copy(part.begin(), part.end(), longer.begin());
      return longer;
    };
    const auto all_states = padded(states), all_words = padded(words), all_raw = padded(raw);
    decoded_chunk got{ecq::errc::ok, std::vector<std::uint8_t>(symbols)};
    got.verdict = decode(ecq::chunk_bytes{all_states.data(), all_words.data(), word_count(), symbols}, all_raw.data(),
                         got.codes.data());
    return got;
  }

  /// Decodes by a decoder of entropy/entropy_coder.hpp; the raw bits of all codes are 0.
  template <class Decoder>
  decoded_chunk decode(const Decoder& decoder) const {
    return decode_by(
        [&](const ecq::chunk_bytes& chunk, const std::byte*, std::uint8_t* out) { return decoder.decode(chunk, out); });
  }
  decoded_chunk decode(const table_type& table, ecq::split_map map) const {
    return decode(typename Coder::decoder(table, map));
  }
};

}  // namespace ecq_test
