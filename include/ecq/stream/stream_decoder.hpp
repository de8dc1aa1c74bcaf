#pragma once
/// \file
/// Decodes a stream, or any range of it, on the CPU.

#include <cstddef>
#include <cstdint>
#include <span>

#include "ecq/base/backend.hpp"
#include "ecq/base/config.hpp"
#include "ecq/stream/stream_options.hpp"
#include "ecq/stream/stream_view.hpp"

namespace ecq {

/// Decodes elements from `first` on, as many as `out` holds, into their bits in the machine's byte order (any address).
/// Whole chunks go straight into `out`; one or two chunks at the ends that are only needed in part are decoded whole.
/// Errors: invalid_argument if the range leaves the stream or cuts an element, checksum_mismatch, corrupt; `out` is
/// then unspecified.
result<void> decode_elements(const cpu& backend, const encoded_stream& stream, std::uint64_t first,
                             std::span<std::byte> out, const decode_options& options = {});

/// Decodes codes of one byte each, as decode_elements does; invalid_argument for a stream of wider elements.
inline result<void> decode_stream(const cpu& backend, const encoded_stream& stream, std::uint64_t first,
                                  std::span<std::uint8_t> out, const decode_options& options = {}) {
  if (stream.element_bytes() != 1) {
    return detail::stream_error(errc::invalid_argument, "codes of a stream of ", stream.element_bytes(),
                                "-byte elements");
  }
  return decode_elements(backend, stream, first, std::as_writable_bytes(out), options);
}

}  // namespace ecq

#if ECQ_HEADER_ONLY
#include "ecq/stream/stream_decoder-inl.hpp"
#endif
