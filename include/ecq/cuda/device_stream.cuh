#pragma once
/// \file
/// Streams in device memory.

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ecq/cuda/backend.cuh"
#include "ecq/cuda/tuning.cuh"
#include "ecq/entropy/huffman_gap_block.hpp"
#include "ecq/entropy/huffman_gap_table.hpp"
#include "ecq/entropy/warp_table.hpp"
#include "ecq/stream/encoded_stream.hpp"
#include "ecq/stream/stream_warp.hpp"

namespace ecq {

/// What is to be known of a stream of gap arrays besides.
struct gap_stream {
  unsigned shortest = 0;  ///< code word of any table
  unsigned raw_bits = 0;  ///< of the split_map
  unsigned symbol_bits = 0;
};

/// A stream that lies in device memory, which somebody else owns: what kernels need of it, and what the host needs to
/// launch them. Trivially copyable.
struct device_stream {
  warp_stream view;
  std::optional<dtype> format;        ///< as encoded_stream::format
  std::optional<warp_coding> coding;  ///< of the one table; nothing: tables of several codings
  std::uint32_t entries = 0;          ///< of the one table
  int device = 0;                     ///< number of the device that it lies on
  std::optional<gap_stream> gaps;     ///< of gap arrays, which are for cuda/gap_kernel.cuh
};

/// A parsed stream on its way to a device. It has built the decode tables; the stream's bytes must outlive it.
///
///   ECQ_TRY(image, device_image::of(stream));
///   cudaMalloc(&memory, image.bytes());
///   ECQ_TRY(on_device, image.upload(ecq::cuda{queue}, memory));
class device_image {
 public:
  /// errc::unsupported for coders that have no decoder on a device, as gap arrays of pairs; out_of_memory.
  static result<device_image> of(const encoded_stream& stream) {
    device_image image(stream);
    try {
      ECQ_CHECK(with_coder(stream.coder(), [&]<class Coder>(Coder) { return image.add_tables<Coder>(); }));
    } catch (const std::bad_alloc&) {
      return error(errc::out_of_memory, "no memory for the decode tables of a stream");
    }
    return image;
  }

  /// Bytes of device memory that upload() fills.
  std::uint64_t bytes() const noexcept { return entries_offset() + sizeof(std::uint32_t) * entries_.size() + 1; }

  /// Copies stream and tables to `memory`, bytes() bytes of device memory aligned to 256, in order of gpu.stream. This
  /// object and the stream's bytes must live until that is done. Errors: invalid_argument, unsupported, device_error.
  result<device_stream> upload(const cuda& gpu, void* memory) const {
    auto* const to = static_cast<std::byte*>(memory);
    ECQ_CHECK(detail::check_aligned(memory, 256, "memory for a stream"));
    ECQ_TRY(device, detail::current_device());
    const auto copy = [&](std::uint64_t offset, std::span<const std::byte> from) {
      return detail::copy_to_device(gpu, to + offset, from, "copying a stream to the device");
    };
    ECQ_CHECK(copy(0, stream_.bytes()));
    ECQ_CHECK(copy(tables_offset(), std::as_bytes(std::span(tables_))));
    ECQ_CHECK(copy(entries_offset(), std::as_bytes(std::span(entries_))));
    device_stream on_device;
    on_device.view = warp_stream_at(stream_.header(), to);
    on_device.view.tables = reinterpret_cast<const warp_table*>(to + tables_offset());
    on_device.view.entries = reinterpret_cast<const std::uint32_t*>(to + entries_offset());
    on_device.format = stream_.format();
    on_device.device = device.number;
    on_device.gaps = gaps_;
    if (tables_.size() == 1) {
      on_device.coding = tables_[0].coding;
      on_device.entries = tables_[0].entries;
    }
    return on_device;
  }

 private:
  explicit device_image(const encoded_stream& stream) : stream_(stream) {}

  template <class Coder>
  result<void> add_tables() {
    tables_.reserve(stream_.table_count());
    if constexpr (has_warp_table<Coder>) {
      for (std::uint32_t index = 0; index < stream_.table_count(); ++index) {
        tables_.push_back(append_warp_table(stream_.table<Coder>(index), stream_.map(), entries_));
      }
      return {};
    } else if constexpr (Coder::id == coder_id::huffman_gaps) {
      if (stream_.pairs()) return error(errc::unsupported, "gap arrays of pairs have no decoder on a device");
      gaps_ = {.shortest = gap_window_bits, .raw_bits = stream_.map().bits, .symbol_bits = stream_.map().symbol_bits};
      for (std::uint32_t index = 0; index < stream_.table_count(); ++index) {
        tables_.push_back(append_gap_table(stream_.table<Coder>(index), stream_.map(), entries_));
        if (const unsigned length = tables_.back().bits_behind; length != 0) {
          gaps_->shortest = (std::min)(gaps_->shortest, length);
        }
      }
      return {};
    } else {
      return error(errc::unsupported, "coder " + std::string(Coder::name) + " has no decoder on a device");
    }
  }

  std::uint64_t tables_offset() const { return detail::aligned_on_device(stream_.bytes().size()); }
  std::uint64_t entries_offset() const {
    return detail::aligned_on_device(tables_offset() + sizeof(warp_table) * tables_.size());
  }

  encoded_stream stream_;
  std::vector<warp_table> tables_;
  std::vector<std::uint32_t> entries_;
  std::optional<gap_stream> gaps_;
};

}  // namespace ecq
