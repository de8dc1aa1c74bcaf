#pragma once
/// \file
/// Decoding a stream, or any range of it, on the CPU.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ecq/cpu/backend.hpp"
#include "ecq/stream/bit_io.hpp"
#include "ecq/stream/stream_view.hpp"

namespace ecq {

struct decode_options {
  bool verify_checksums = true;  ///< of each chunk before it is decoded; without, corrupt codes may pass as codes
};

namespace detail {

/// Decodes chunks of one stream, keeping the table that the last one used.
template <entropy_coder Coder>
class chunk_decoder {
 public:
  chunk_decoder(const encoded_stream& stream, const decode_options& options) : stream_(stream), options_(options) {}

  /// Writes all codes of chunk `index`, stream.symbols_in(index) of them.
  result<void> decode(std::uint64_t index, std::uint8_t* out) {
    if (options_.verify_checksums) ECQ_CHECK(stream_.verify_chunk(index));
    const std::uint16_t table = stream_.record(index).table;
    if (!decoder_ || table != table_) {
      decoder_.emplace(stream_.template table<Coder>(table), stream_.map());
      table_ = table;
    }
    if (const errc outcome = decoder_->decode(stream_.chunk(index), out); outcome != errc::ok) {
      return stream_error(outcome, "chunk " + std::to_string(index) + " does not decode to its end");
    }
    merge_raw_bits(stream_.map(), stream_.raw_bits(index).data(), {out, stream_.symbols_in(index)});
    return {};
  }

 private:
  const encoded_stream& stream_;
  decode_options options_;
  std::optional<typename Coder::decoder> decoder_;
  std::uint16_t table_ = 0;
};

}  // namespace detail

/// Decodes codes [first, first + out.size()) of `stream`. Whole chunks go straight into `out`; of the one or two at
/// the ends that are only needed in part, all is decoded. Errors: invalid_argument when the range leaves the stream,
/// checksum_mismatch, corrupt; `out` is then unspecified.
inline result<void> decode_stream(const cpu& backend, const encoded_stream& stream, std::uint64_t first,
                                  std::span<std::uint8_t> out, const decode_options& options = {}) {
  if (first > stream.size() || out.size() > stream.size() - first) {
    return detail::stream_error(
        errc::invalid_argument,
        "codes " + std::to_string(first) + " + " + std::to_string(out.size()) + " of " + std::to_string(stream.size()));
  }
  if (out.empty()) return {};
  const unsigned bits = stream.chunk_bits();
  const std::uint64_t last = first + out.size();
  const std::uint64_t first_chunk = first >> bits;
  const std::uint64_t chunks = ((last - 1) >> bits) - first_chunk + 1;
  // A run of chunks shares one decode table; four runs a thread even out the load.
  const std::uint64_t run = std::clamp<std::uint64_t>(chunks / (std::uint64_t{4} * backend.thread_count()), 1, 16);
  return with_coder(stream.coder(), [&]<class Coder>(Coder) {
    return parallel_for(backend, static_cast<std::size_t>((chunks + run - 1) / run),
                        [&](std::size_t task) -> result<void> {
                          detail::chunk_decoder<Coder> decoder(stream, options);
                          std::vector<std::uint8_t> whole;
                          const std::uint64_t end = first_chunk + (std::min)(chunks, (task + 1) * run);
                          for (std::uint64_t index = first_chunk + task * run; index < end; ++index) {
                            const std::uint64_t chunk_first = index << bits;
                            const std::uint64_t chunk_last = chunk_first + stream.symbols_in(index);
                            const std::uint64_t from = (std::max)(first, chunk_first);
                            const std::uint64_t to = (std::min)(last, chunk_last);
                            std::uint8_t* target = out.data() + (from - first);
                            if (to - from == chunk_last - chunk_first) {
                              ECQ_CHECK(decoder.decode(index, target));
                              continue;
                            }
                            whole.resize(static_cast<std::size_t>(chunk_last - chunk_first));
                            ECQ_CHECK(decoder.decode(index, whole.data()));
                            std::copy_n(whole.data() + (from - chunk_first), to - from, target);
                          }
                          return {};
                        });
  });
}

}  // namespace ecq
