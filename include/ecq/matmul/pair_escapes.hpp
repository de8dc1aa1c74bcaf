#pragma once
/// \file
/// Where the escapes of narrow pairs are, for kernels that count them as 0.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "ecq/base/backend.hpp"
#include "ecq/stream/coder_set.hpp"
#include "ecq/stream/encoded_stream.hpp"

namespace ecq::detail {

/// The escapes of some chunks of a stream: 4 bytes each, and a vector for each chunk of the stream.
class pair_escapes {
 public:
  /// Lists those of `chunks`, which differ, by the decoders of all tables. Returns false if one of them is damaged or
  /// memory lacks. Throws std::bad_alloc. Precondition: the stream has narrow pairs of bytes.
  bool list(const cpu& backend, const encoded_stream& stream,
            std::span<const std::unique_ptr<const table_decoder>> decoders, std::span<const std::uint64_t> chunks);

  /// Whether nothing was listed, not even that there are none.
  bool empty() const noexcept { return of_chunks_.empty(); }

  /// Calls use(place, code) for the escapes of a chunk: their places in the chunk and their codes.
  template <class Use>
  void for_each(std::uint64_t chunk, Use&& use) const {
    if (empty()) return;
    for (const std::uint32_t escape : of_chunks_[static_cast<std::size_t>(chunk)]) use(escape >> 8, escape % 256);
  }

 private:
  /// Lists those of a chunk, which has these pairs. Returns false if it has other escapes.
  bool list(const encoded_stream& stream, std::uint64_t chunk, const std::uint8_t* pairs);

  std::vector<std::vector<std::uint32_t>> of_chunks_;  ///< place * 256 + code, in ascending order
};

}  // namespace ecq::detail

#if ECQ_HEADER_ONLY
#include "ecq/matmul/pair_escapes-inl.hpp"
#endif
