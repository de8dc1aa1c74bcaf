#pragma once
/// \file
/// Streams in device memory.

#include <cuda_runtime.h>

#include <algorithm>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "ecq/base/out_of_memory.hpp"
#include "ecq/cuda/backend.cuh"
#include "ecq/cuda/tuning.cuh"
#include "ecq/entropy/huffman_gaps/huffman_gap_group.hpp"
#include "ecq/entropy/huffman_gaps/huffman_gap_table.hpp"
#include "ecq/entropy/warp_table.hpp"
#include "ecq/stream/encoded_stream.hpp"
#include "ecq/stream/stream_warp.hpp"

namespace ecq {

/// Further properties of a stream of gap arrays.
struct gap_stream {
  unsigned shortest = 0;  ///< bits of the shortest code word of any table
  unsigned raw_bits = 0;  ///< raw bits of the split_map
  unsigned symbol_bits = 0;
};

/// A stream in device memory, which it does not own: the data that kernels need, and those that the host needs to
/// launch them. Trivially copyable.
struct device_stream {
  warp_stream view;
  coder_id coder = coder_id::raw;
  std::optional<dtype> format;        ///< as in encoded_stream::format
  std::optional<warp_coding> coding;  ///< coding of the one table; empty if there are several
  std::uint32_t entries = 0;          ///< number of entries of the one table
  int device = 0;                     ///< number of the device that it lies on
  std::optional<gap_stream> gaps;     ///< for gap arrays, which cuda/gap_kernel.cuh decodes
};

/// Whether devices decode streams of `Coder`: those with tables for warps, and gap arrays, which have kernels of their
/// own (cuda/gap_kernel.cuh).
template <entropy_coder Coder>
inline constexpr bool has_decoder<Coder, cuda> = has_warp_table<Coder> || Coder::id == coder_id::huffman_gaps;

static_assert(decodable_on<rans, cuda> && decodable_on<tans, cuda> && decodable_on<huffman, cuda>);
static_assert(decodable_on<huffman_gaps, cuda> && decodable_on<raw, cuda>);

namespace detail {

/// Largest number of entries of all decode tables of a stream: 2^27, which take 512 MiB. A table of a few bytes may
/// stand for 80 KiB of entries, and a stream of 10 MB may have 65536 tables. The encoder writes at most 256 tables,
/// which have less than a twentieth of this number of entries.
inline constexpr std::size_t max_device_table_entries = std::size_t{1} << 27;

/// Decode tables of a stream, to be uploaded to a device.
class device_tables {
 public:
  /// Builds the decode tables. Errors: unsupported for coders that have no decoder on a device, and for gap
  /// arrays of pairs or on a trellis; limit_exceeded for more than `most` entries; out_of_memory.
  static result<device_tables> of(const encoded_stream& stream, std::size_t most = max_device_table_entries) {
    return or_out_of_memory("the decode tables of a stream", [&]() -> result<device_tables> {
      device_tables made;
      made.most_ = most;
      ECQ_CHECK(with_coder(stream.coder(), [&]<class Coder>(Coder) { return made.add<Coder>(stream); }));
      return made;
    });
  }

  std::uint64_t bytes() const noexcept { return entries_offset() + sizeof(std::uint32_t) * entries_.size() + 1; }

  /// The symbols that chunks can decode to, raw bits and all, before a trellis makes codes of them.
  const std::bitset<256>& symbols() const noexcept { return symbols_; }

  /// Copies the tables to `to`, aligned to 256 bytes, on gpu.stream. Returns the device_stream of the stream whose
  /// header is `header` and which lies at `stream` on the current device.
  result<device_stream> upload(const cuda& gpu, const stream_header& header, const std::byte* stream,
                               std::byte* to) const {
    ECQ_TRY(device, current_device());
    constexpr const char* doing = "copying decode tables to the device";
    ECQ_CHECK(copy_to_device(gpu, to, std::as_bytes(std::span(tables_)), doing));
    ECQ_CHECK(copy_to_device(gpu, to + entries_offset(), std::as_bytes(std::span(entries_)), doing));
    device_stream on_device;
    on_device.view = warp_stream_at(header, stream);
    on_device.view.tables = reinterpret_cast<const warp_table*>(to);
    on_device.view.entries = reinterpret_cast<const std::uint32_t*>(to + entries_offset());
    on_device.coder = header.coder;
    on_device.format = header.format;
    on_device.device = device.number;
    on_device.gaps = gaps_;
    if (tables_.size() == 1) {
      on_device.coding = tables_[0].coding;
      on_device.entries = tables_[0].entries;
    }
    return on_device;
  }

 private:
  template <class Coder>
  result<void> add(const encoded_stream& stream) {
    tables_.reserve(stream.table_count());
    if (stream.map().bits != 0 || stream.pairs()) symbols_.set();
    for (std::uint32_t index = 0; index < stream.table_count(); ++index) list(stream.table<Coder>(index));
    if constexpr (!decodable_on<Coder, cuda>) {
      return error(errc::unsupported, "coder ", Coder::name, " has no decoder on a device");
    } else if constexpr (has_warp_table<Coder>) {
      for (std::uint32_t index = 0; index < stream.table_count(); ++index) {
        tables_.push_back(append_warp_table(stream.table<Coder>(index), stream.map(), entries_));
        ECQ_CHECK(check_size());
      }
      return {};
    } else {
      if (stream.pairs()) return error(errc::unsupported, "gap arrays of pairs have no decoder on a device");
      if (stream.trellis()) return error(errc::unsupported, "gap arrays on a trellis have no decoder on a device");
      gaps_ = {.shortest = gap_window_bits, .raw_bits = stream.map().bits, .symbol_bits = stream.map().symbol_bits};
      for (std::uint32_t index = 0; index < stream.table_count(); ++index) {
        tables_.push_back(append_gap_table(stream.table<Coder>(index), stream.map(), entries_));
        if (const unsigned length = tables_.back().bits_behind; length != 0) {
          gaps_->shortest = (std::min)(gaps_->shortest, length);
        }
        ECQ_CHECK(check_size());
      }
      return {};
    }
  }

  template <class Table>
  void list(const Table& table) {
    const auto add = [&](const auto& symbols, unsigned count) {
      for (unsigned i = 0; i < count; ++i) symbols_.set(symbols[i]);
    };
    if constexpr (requires { table.frequencies.symbols; }) {
      add(table.frequencies.symbols, table.frequencies.count);
    } else if constexpr (requires { table.symbols; }) {
      add(table.symbols, table.count);
    } else {
      symbols_.set();
    }
  }

  result<void> check_size() const {
    if (entries_.size() <= most_) return {};
    return stream_error(errc::limit_exceeded, "decode tables of more than ", most_, " entries");
  }

  std::uint64_t entries_offset() const { return aligned_on_device(sizeof(warp_table) * tables_.size()); }

  std::vector<warp_table> tables_;
  std::vector<std::uint32_t> entries_;
  std::bitset<256> symbols_;
  std::optional<gap_stream> gaps_;
  std::size_t most_ = 0;
};

}  // namespace detail

/// Image of a parsed stream, to be uploaded to a device. It holds the decode tables; the stream's bytes must outlive
/// it.
///
///   ECQ_TRY(image, device_image::of(stream));
///   cudaMalloc(&memory, image.bytes());
///   ECQ_TRY(on_device, image.upload(ecq::cuda{queue}, memory));
class device_image {
 public:
  /// Builds the decode tables. Errors: unsupported for coders that have no decoder on a device, and for gap
  /// arrays of pairs or on a trellis; limit_exceeded for more than 512 MiB of decode tables; out_of_memory.
  static result<device_image> of(const encoded_stream& stream) {
    ECQ_TRY(tables, detail::device_tables::of(stream));
    return device_image(stream, std::move(tables));
  }

  /// Returns the number of bytes of device memory that upload() fills.
  std::uint64_t bytes() const noexcept { return tables_offset() + tables_.bytes(); }

  /// The symbols that chunks can decode to, raw bits and all, before a trellis makes codes of them.
  const std::bitset<256>& symbols() const noexcept { return tables_.symbols(); }

  /// Copies stream and tables to `memory`, bytes() bytes of device memory aligned to 256, on gpu.stream. This object
  /// and the stream's bytes must live until the copy is done. Waits for earlier work on gpu.stream if CUDA does so when
  /// it copies from memory that is not page-locked, such as that of the tables. Errors: invalid_argument, unsupported,
  /// device_error.
  result<device_stream> upload(const cuda& gpu, void* memory) const {
    auto* const to = static_cast<std::byte*>(memory);
    ECQ_CHECK(detail::check_aligned(memory, 256, "memory for a stream"));
    ECQ_CHECK(detail::copy_to_device(gpu, to, stream_.bytes(), "copying a stream to the device"));
    return tables_.upload(gpu, stream_.header(), to, to + tables_offset());
  }

 private:
  device_image(const encoded_stream& stream, detail::device_tables tables)
      : stream_(stream), tables_(std::move(tables)) {}

  std::uint64_t tables_offset() const { return detail::aligned_on_device(stream_.bytes().size()); }

  encoded_stream stream_;
  detail::device_tables tables_;
};

}  // namespace ecq
