#pragma once
/// \file
/// Streams whose bytes reached device memory without the host: encoded there, or read by the device.

#include <cuda_runtime.h>

#include <algorithm>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <utility>

#include "ecq/base/little_endian.hpp"
#include "ecq/base/result.hpp"
#include "ecq/cuda/backend.cuh"
#include "ecq/cuda/device_stream.cuh"
#include "ecq/stream/encoded_stream.hpp"
#include "ecq/stream/limits.hpp"

namespace ecq {

namespace detail {

/// Bytes of a stream in device memory, copied to the host at the same offsets. Bytes that are not copied are zero and
/// take no memory if the system provides memory only on first access.
class stream_excerpt {
 public:
  static result<stream_excerpt> of(std::span<const std::byte> stream, std::uint64_t bytes) {
    stream_excerpt made;
    made.stream_ = stream.first(static_cast<std::size_t>(bytes));
    made.bytes_.reset(static_cast<std::byte*>(std::calloc((std::max)(std::uint64_t{1}, bytes), 1)));
    if (made.bytes_ != nullptr) return result<stream_excerpt>(std::move(made));
    return error(errc::out_of_memory, "no memory for the tables of a stream of ", bytes, " bytes");
  }

  std::span<const std::byte> bytes() const noexcept { return {bytes_.get(), stream_.size()}; }

  /// Copies bytes from `first` up to `end`, which must not leave the stream, on gpu.stream.
  result<void> copy(const cuda& gpu, std::uint64_t first, std::uint64_t end) {
    if (first >= end) return {};
    return check_cuda(
        cudaMemcpyAsync(bytes_.get() + first, stream_.data() + first, end - first, cudaMemcpyDeviceToHost, gpu.stream),
        "reading a stream's header");
  }

 private:
  struct release {
    void operator()(std::byte* memory) const noexcept { std::free(memory); }
  };

  std::span<const std::byte> stream_;
  std::unique_ptr<std::byte, release> bytes_;
};

inline result<void> wait_for(const cuda& gpu) {
  return check_cuda(cudaStreamSynchronize(gpu.stream), "waiting for a stream's header");
}

/// Copies to the host the part of a stream that is needed to parse it: everything but words, states, escapes and raw
/// bits, plus the last byte of the raw bits. Waits for gpu.stream.
inline result<stream_excerpt> excerpt_of(const cuda& gpu, std::span<const std::byte> stream) {
  constexpr std::uint64_t most = stream_header::fixed_bytes + max_stream_sections * stream_header::entry_bytes;
  const std::uint64_t front = (std::min)(most, std::uint64_t{stream.size()});
  std::byte head[most] = {};
  ECQ_CHECK(check_cuda(cudaMemcpyAsync(head, stream.data(), front, cudaMemcpyDeviceToHost, gpu.stream),
                       "reading a stream's header"));
  ECQ_CHECK(wait_for(gpu));
  const auto total = bytes_said_by(head);
  if (total > stream.size()) {
    return stream_error(errc::truncated, "only ", stream.size(), " of ", total, " bytes");
  }
  ECQ_TRY(excerpt, stream_excerpt::of(stream, total));
  // If the directory is wrong, parsing the bytes copied so far finds the error.
  std::uint64_t copied = 0;
  const std::size_t sections = (std::min)(entries_said_by(head), max_stream_sections);
  for (std::size_t i = 0; i < sections; ++i) {
    const section_entry entry = section_entry_at(head, i);
    const auto kind = static_cast<section_kind>(entry.kind);
    const auto& [offset, size] = entry.part;
    if (offset < copied || offset > total || size > total - offset) break;
    const bool bulk = kind == section_kind::states || kind == section_kind::raw_bits || kind == section_kind::words ||
                      kind == section_kind::escapes;
    if (!bulk || size == 0) continue;
    ECQ_CHECK(excerpt.copy(gpu, copied, offset));
    copied = offset + size - (kind == section_kind::raw_bits ? 1 : 0);
  }
  ECQ_CHECK(excerpt.copy(gpu, copied, total));
  ECQ_CHECK(wait_for(gpu));
  return std::move(excerpt);
}

}  // namespace detail

/// A stream in device memory, opened for decoding: its header and tables have been read back and checked, and its
/// decode tables built.
///
///   ECQ_TRY(opened, resident_stream::open(ecq::cuda{queue}, stream));
///   cudaMalloc(&memory, opened.bytes());
///   ECQ_TRY(on_device, opened.upload(ecq::cuda{queue}, memory));
class resident_stream {
 public:
  /// Opens the stream at the beginning of `stream`, which is memory of the current device, aligned to 64 bytes, and may
  /// be longer than the stream. Waits for gpu.stream twice. Checks all that encoded_stream::parse checks. Kernels later
  /// check again what they read from the index, so bytes that change between calls cannot lead them out of the stream.
  /// Bytes that change while a kernel decodes them can, because its threads would see different streams. Takes as much
  /// host address space as the stream is long, and as much host memory as its header, tables, index and decode tables.
  /// Errors: those of encoded_stream::parse and device_image::of, invalid_argument, device_error.
  static result<resident_stream> open(const cuda& gpu, std::span<const std::byte> stream) {
    ECQ_CHECK(detail::check_aligned(stream.data(), stream_header::alignment, "the stream"));
    ECQ_TRY(excerpt, detail::excerpt_of(gpu, stream));
    ECQ_TRY(parsed, encoded_stream::parse(excerpt.bytes()));
    ECQ_TRY(tables, detail::device_tables::of(parsed));
    return resident_stream(stream.data(), parsed.header(), std::move(tables));
  }

  /// Returns the header of the stream.
  const stream_header& header() const noexcept { return header_; }

  /// Returns the number of bytes of device memory that upload() fills.
  std::uint64_t bytes() const noexcept { return tables_.bytes(); }

  /// The symbols that chunks can decode to, raw bits and all, before a trellis makes codes of them.
  const std::bitset<256>& symbols() const noexcept { return tables_.symbols(); }

  /// Copies the decode tables to `memory`, bytes() bytes of device memory aligned to 256, on gpu.stream. This object
  /// must live until the copy is done. Waits as device_image::upload does. Errors: invalid_argument, unsupported,
  /// device_error.
  result<device_stream> upload(const cuda& gpu, void* memory) const {
    ECQ_CHECK(detail::check_aligned(memory, 256, "memory for decode tables"));
    return tables_.upload(gpu, header_, stream_, static_cast<std::byte*>(memory));
  }

 private:
  resident_stream(const std::byte* stream, const stream_header& header, detail::device_tables tables)
      : stream_(stream), header_(header), tables_(std::move(tables)) {}

  const std::byte* stream_;
  stream_header header_;
  detail::device_tables tables_;
};

}  // namespace ecq
