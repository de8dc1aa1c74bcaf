#pragma once
/// \file
/// Decodes whole chunks on the CPU with the kernels of a coder and of its joins.

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

/// Decodes chunks of one stream, keeping the decoder of the table that the last ones used.
class chunk_decoder {
 public:
  chunk_decoder(const cpu& backend, const encoded_stream& stream, const decode_options& options)
      : isa_(backend.isa), stream_(stream), options_(options) {}

  /// With the decoders of all tables at hand.
  chunk_decoder(const cpu& backend, const encoded_stream& stream, const decode_options& options,
                std::span<const std::unique_ptr<const table_decoder>> ready)
      : isa_(backend.isa), stream_(stream), options_(options), ready_(ready) {}

  /// Writes all elements of chunks first, first + 1, ..., one chunk for each entry of `out`, at most max_chunk_run. The
  /// stream.symbols_in(first + i) elements of chunk first + i go to out[i].
  result<void> decode(std::uint64_t first, std::span<std::byte* const> out);

 private:
  const table_decoder& decoder_of(std::uint16_t table);

  /// Whether chunk `index` ends in the middle of a pair.
  bool odd(std::uint64_t index) const { return stream_.pairs() && stream_.symbols_in(index) % 2 != 0; }

  /// Where decoded symbols go. Pairs go to the last bytes of the elements' room and are split into elements from the
  /// front.
  element_target target_of(std::uint64_t index, std::byte* elements) const;

  /// Joins the remaining symbols of chunk `index` to elements that begin at `out`.
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
