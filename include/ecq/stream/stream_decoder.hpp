#pragma once
/// \file
/// Decoding of a stream, or any range of it, on the CPU.

#include <cstddef>
#include <cstdint>
#include <span>

#include "ecq/base/backend.hpp"
#include "ecq/base/config.hpp"
#include "ecq/stream/stream_options.hpp"
#include "ecq/stream/stream_view.hpp"

namespace ecq {

/// Decodes as many elements as `out` holds, from element `first` on, and writes their bits in the machine's byte order;
/// `out` may lie at any address. Whole chunks go straight into `out`; a chunk at either end that is needed only in part
/// is decoded whole. Errors: invalid_argument if the range leaves the stream or cuts an element, checksum_mismatch,
/// corrupt; the content of `out` is then unspecified.
result<void> decode_elements(const cpu& backend, const encoded_stream& stream, std::uint64_t first,
                             std::span<std::byte> out, const decode_options& options = {});

/// Decodes codes of one byte, like decode_elements(). Errors: those of decode_elements(), and invalid_argument for a
/// stream of wider elements.
inline result<void> decode_stream(const cpu& backend, const encoded_stream& stream, std::uint64_t first,
                                  std::span<std::uint8_t> out, const decode_options& options = {}) {
  if (stream.element_bytes() != 1) {
    return detail::stream_error(errc::invalid_argument, "its elements have ", stream.element_bytes(),
                                " bytes, but codes have 1");
  }
  return decode_elements(backend, stream, first, std::as_writable_bytes(out), options);
}

}  // namespace ecq

#if ECQ_HEADER_ONLY
#include "ecq/stream/stream_decoder-inl.hpp"
#endif
