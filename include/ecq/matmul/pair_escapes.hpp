#pragma once
/// \file
/// Lists of the escapes of narrow pairs, for kernels that count escapes as 0.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "ecq/base/backend.hpp"
#include "ecq/stream/coder_set.hpp"
#include "ecq/stream/encoded_stream.hpp"

namespace ecq::detail {

/// An escape: a code and its place in its chunk.
class pair_escape {
 public:
  pair_escape(std::size_t place, unsigned code) noexcept : both_(static_cast<std::uint32_t>(place << 8 | code)) {}
  std::size_t place() const noexcept { return both_ >> 8; }
  std::uint8_t code() const noexcept { return static_cast<std::uint8_t>(both_); }

 private:
  std::uint32_t both_;
};

/// The escapes of some chunks of a stream: 4 bytes each, and a vector for each chunk from the first to the last one.
class pair_escapes {
 public:
  /// Lists the escapes of `chunks`, which must differ, by the decoders of all tables. Returns false if a chunk is
  /// damaged or memory runs out. Throws std::bad_alloc. Precondition: the stream has narrow pairs of bytes.
  bool list(const cpu& backend, const encoded_stream& stream,
            std::span<const std::unique_ptr<const table_decoder>> decoders, std::span<const std::uint64_t> chunks);

  /// Whether no chunks have been listed, not even chunks without escapes.
  bool empty() const noexcept { return of_chunks_.empty(); }

  /// Returns the escapes of a chunk that has been listed, in ascending order of their places; nothing if none have
  /// been.
  std::span<const pair_escape> of(std::uint64_t chunk) const noexcept {
    return empty() ? std::span<const pair_escape>() : of_chunks_[static_cast<std::size_t>(chunk - first_)];
  }

 private:
  /// Lists the escapes of a chunk, given its pairs. Returns false if the chunk has other escapes.
  bool list(const encoded_stream& stream, std::uint64_t chunk, const std::uint8_t* pairs);

  std::uint64_t first_ = 0;  ///< lowest chunk listed
  std::vector<std::vector<pair_escape>> of_chunks_;
};

}  // namespace ecq::detail

#if ECQ_HEADER_ONLY
#include "ecq/matmul/pair_escapes-inl.hpp"
#endif
