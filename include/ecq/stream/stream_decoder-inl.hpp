#pragma once
/// \file
/// Definition of decoding a stream: threads share its chunks.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ecq/base/backend.hpp"
#include "ecq/base/config.hpp"
#include "ecq/stream/chunk_decoder.hpp"
#include "ecq/stream/stream_decoder.hpp"
#include "ecq/stream/stream_view.hpp"

namespace ecq {

ECQ_INLINE result<void> decode_elements(const cpu& backend, const encoded_stream& stream, std::uint64_t first,
                                        std::span<std::byte> out, const decode_options& options) {
  const std::size_t width = stream.element_bytes();
  const std::uint64_t count = out.size() / width;
  if (first > stream.size() || count > stream.size() - first || out.size() % width != 0) {
    return detail::stream_error(errc::invalid_argument, out.size(), " bytes from element ", first, " on do not fit ",
                                stream.size(), " elements of ", width, " bytes each");
  }
  if (out.empty()) return {};
  const unsigned bits = stream.chunk_bits();
  const std::uint64_t last = first + count;
  const std::uint64_t first_chunk = first >> bits;
  const std::uint64_t chunks = ((last - 1) >> bits) - first_chunk + 1;
  // The chunks of a run are decoded side by side with one decoding table. If there are few chunks per thread, they form
  // one run; otherwise, four runs per thread even out the load.
  const std::uint64_t each = chunks / backend.thread_count();
  const std::uint64_t run = std::clamp<std::uint64_t>(
      each / 4, std::clamp<std::uint64_t>(each, 1, detail::min_chunk_run), detail::max_chunk_run);
  return parallel_for(backend, static_cast<std::size_t>((chunks + run - 1) / run),
                      [&](std::size_t task) -> result<void> {
                        const std::uint64_t begin = first_chunk + task * run;
                        const std::uint64_t end = first_chunk + (std::min)(chunks, (task + 1) * run);
                        std::byte* targets[detail::max_chunk_run];
                        std::vector<std::byte> partial[2];  // whole chunks of which only a part is wanted
                        std::size_t partials = 0;
                        for (std::uint64_t index = begin; index < end; ++index) {
                          const std::uint64_t chunk_first = index << bits;
                          if (chunk_first >= first && chunk_first + stream.symbols_in(index) <= last) {
                            targets[index - begin] = out.data() + (chunk_first - first) * width;
                          } else {
                            partial[partials].resize(stream.symbols_in(index) * width);
                            targets[index - begin] = partial[partials++].data();
                          }
                        }
                        detail::chunk_decoder decoder(backend, stream, options);
                        ECQ_CHECK(decoder.decode(begin, {targets, static_cast<std::size_t>(end - begin)}));
                        for (std::uint64_t index = begin; index < end; ++index) {
                          const std::uint64_t chunk_first = index << bits;
                          const std::uint64_t from = (std::max)(first, chunk_first);
                          const std::uint64_t to = (std::min)(last, chunk_first + stream.symbols_in(index));
                          std::byte* const target = out.data() + (from - first) * width;
                          const std::byte* const source = targets[index - begin] + (from - chunk_first) * width;
                          if (source != target) std::copy_n(source, (to - from) * width, target);
                        }
                        return {};
                      });
}

}  // namespace ecq
