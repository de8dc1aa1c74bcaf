#pragma once
/// \file
/// Gives the bytes of a stream, whole or damaged, to everything that can read them; all readers have to agree.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ecq/stream/encoded_stream.hpp"
#include "stream/format_decoder.hpp"
#include "support/decode_by_warp.hpp"
#include "support/instruction_sets.hpp"
#include "support/seal.hpp"

namespace ecq_test {

/// Outcome of reading the bytes.
enum class stream_fate { refused_by_parser, refused_by_decoders, accepted };

struct stream_reading {
  stream_fate fate = stream_fate::refused_by_parser;
  std::string disagreement;  ///< decoder that differs from the definition; empty if none does
};

/// Compares the decoders of every instruction set of the machine with the scalar definition, without checksums: same
/// verdict, and the same elements if it is ok. Also decodes chunks by the code of devices, on the host.
class stream_readers {
 public:
  /// Maximum number of elements to decode; a stream may claim up to 2^43.
  static constexpr std::uint64_t most_elements = std::uint64_t{1} << 15;

  stream_reading read(std::span<const std::byte> blob) {
    const auto stream = ecq::encoded_stream::parse(blob);
    if (!stream) return {};
    const auto count = static_cast<std::size_t>((std::min)(stream->size(), most_elements));
    const ecq::errc verdict = decode(*stream, ecq::instruction_set::scalar, count, defined_);
    stream_reading got{verdict == ecq::errc::ok ? stream_fate::accepted : stream_fate::refused_by_decoders, {}};
    for (const ecq::instruction_set set : machine_sets()) {
      if (set == ecq::instruction_set::scalar) continue;
      if (decode(*stream, set, count, other_) != verdict || (verdict == ecq::errc::ok && other_ != defined_)) {
        got.disagreement = name_of(set);
      }
    }
    const auto done = ecq::with_coder(stream->coder(), [&]<class Coder>(Coder) -> ecq::result<void> {
      for (std::uint64_t i = 0; i < stream->chunk_count() && (i << stream->chunk_bits()) < count; ++i) {
        if (!warp_agrees<Coder>(*stream, i)) got.disagreement = "the device's body, in chunk " + std::to_string(i);
      }
      return {};
    });
    if (!done) got.disagreement = "with_coder";
    return got;
  }

  /// Like read(), for bytes whose checksums are all correct. Besides, the decoder that was written from the document
  /// alone has to accept or refuse them as the library does; it is slow.
  stream_reading read_sealed(std::span<const std::byte> blob) {
    stream_reading got = read(blob);
    if (blob.size() >= ecq::stream_header::fixed_bytes && ecq::load_le<std::uint64_t>(&blob[16]) > most_elements) {
      return got;
    }
    const auto second = format_decoder(blob).decode();
    bool same = second.has_value() == (got.fate == stream_fate::accepted);
    if (same && second) same = std::ranges::equal(std::as_bytes(std::span(*second)), as_little_endian(blob));
    if (!same) got.disagreement = "docs/format.md";
    return got;
  }

 private:
  static ecq::errc decode(const ecq::encoded_stream& stream, ecq::instruction_set set, std::size_t count,
                          std::vector<std::byte>& out) {
    out.assign(count * stream.element_bytes(), std::byte{0});
    const auto done = ecq::decode_elements(ecq::cpu{.isa = set}, stream, 0, out, {.verify_checksums = false});
    return done ? ecq::errc::ok : done.error().code();
  }

  template <class Coder>
  bool warp_agrees(const ecq::encoded_stream& stream, std::uint64_t index) {
    const ecq::chunk_bytes chunk = stream.chunk(index);
    const auto table = stream.table<Coder>(stream.record(index).table);
    const raw_part raw = {stream.raw_bits(index).data(), stream.header().raw_bits()};
    return ecq::visit_split(stream.format(), [&]<class Split>() {
      const std::uint32_t count = stream.symbols_in(index);
      by_warp_.resize(count * sizeof(typename Split::element));
      const auto escapes = stream.escapes(index);
      const auto verdict =
          stream.pairs()
              ? decode_pairs_by_warp<Split>(Coder{}, table, chunk, stream.nibbles(), pairs_of_chunk(stream, index),
                                            raw.bytes, {by_warp_.data(), 0, count, true})
              : decode_by_warp<Split>(Coder{}, table, stream.map(), chunk, raw, by_warp_.data());
      if (!verdict) return true;
      symbols_.resize(chunk.symbols);
      ecq::errc defined = typename Coder::decoder(table, stream.map()).decode(chunk, symbols_.data());
      expected_.resize(by_warp_.size());
      if (!stream.pairs()) {
        ecq::join_elements<Split>(raw.bits, symbols_.data(), raw.bytes, symbols_.size(), expected_.data());
      } else if (defined == ecq::errc::ok) {
        defined = ecq::join_pairs<Split>(stream.nibbles(), symbols_.data(), raw.bytes, escapes, count, expected_.data(),
                                         ecq::instruction_set::scalar, raw.bits);
      }
      return *verdict == defined && (defined != ecq::errc::ok || by_warp_ == expected_);
    });
  }

  /// Returns the elements of the last read(), which must have been of this stream, with the lowest byte first.
  std::vector<std::byte> as_little_endian(std::span<const std::byte> blob) const {
    std::vector<std::byte> bytes = defined_;
    const std::size_t width = ecq::encoded_stream::parse(blob)->element_bytes();
    for (auto at = bytes.begin(); std::endian::native == std::endian::big && at != bytes.end();) {
      const auto next = at + static_cast<std::ptrdiff_t>(width);
      std::reverse(at, next);
      at = next;
    }
    return bytes;
  }

  std::vector<std::byte> defined_;
  std::vector<std::byte> other_;
  std::vector<std::uint8_t> symbols_;
  std::vector<std::byte> expected_;
  std::vector<std::byte> by_warp_;
};

}  // namespace ecq_test
