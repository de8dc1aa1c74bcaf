#pragma once
/// \file
/// Decoding of whole chunks on the CPU, with the decoding and joining kernels of a coder.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "ecq/base/backend.hpp"
#include "ecq/base/config.hpp"
#include "ecq/base/instruction_set.hpp"
#include "ecq/base/result.hpp"
#include "ecq/entropy/element_join.hpp"
#include "ecq/stream/coder_set.hpp"
#include "ecq/stream/stream_options.hpp"
#include "ecq/stream/stream_view.hpp"

namespace ecq::detail {

/// Decoder of the chunks of one stream. Keeps the decoder of the table that was used last.
class chunk_decoder {
 public:
  chunk_decoder(const cpu& backend, const encoded_stream& stream, const decode_options& options)
      : isa_(backend.isa), stream_(stream), options_(options) {}

  /// Uses the decoders in `ready`, one for each table, instead of making its own.
  chunk_decoder(const cpu& backend, const encoded_stream& stream, const decode_options& options,
                std::span<const std::unique_ptr<const table_decoder>> ready)
      : isa_(backend.isa), stream_(stream), options_(options), ready_(ready) {}

  /// Decodes out.size() chunks, at most max_chunk_run, from chunk `first` on. All elements of chunk first + i,
  /// stream.symbols_in(first + i) of them, go to out[i].
  result<void> decode(std::uint64_t first, std::span<std::byte* const> out);

 private:
  const table_decoder& decoder_of(std::uint16_t table);

  /// Whether chunk `index` ends in the middle of a pair.
  bool odd(std::uint64_t index) const { return stream_.pairs() && stream_.symbols_in(index) % 2 != 0; }

  /// Returns the place of the decoded symbols of chunk `index`. Pairs go to the last bytes of the elements' room and
  /// are split into elements from the front.
  element_target target_of(std::uint64_t index, std::byte* elements) const;

  /// Joins the symbols of chunk `index` that kernels have not joined yet. `out` is the place of the chunk's first
  /// element.
  errc join_rest(std::uint64_t index, const element_target& target, std::byte* out) const;

  instruction_set isa_;
  const encoded_stream& stream_;
  decode_options options_;
  std::span<const std::unique_ptr<const table_decoder>> ready_;
  std::unique_ptr<const table_decoder> decoder_;
  std::uint16_t table_ = 0;
};

}  // namespace ecq::detail

#if ECQ_HEADER_ONLY
#include "ecq/stream/chunk_decoder-inl.hpp"
#endif
