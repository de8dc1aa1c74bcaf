#pragma once
/// \file
/// The coders that a program decodes, chosen when it is compiled, by number when it runs.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "ecq/base/config.hpp"
#include "ecq/base/instruction_set.hpp"
#include "ecq/base/result.hpp"
#include "ecq/entropy/element_join.hpp"
#include "ecq/entropy/entropy_coder.hpp"
#include "ecq/entropy/raw.hpp"

namespace ecq {

namespace detail {

/// Decoders that take several chunks at once: verdicts[i] is what decode(chunks[i], out[i]) would return.
template <class Decoder>
concept decodes_many = requires(const Decoder decoder, std::span<const chunk_bytes> chunks, std::uint8_t* const* out,
                                std::span<errc> verdicts, instruction_set isa) {
  { decoder.decode_many(chunks, out, verdicts, isa) } -> std::same_as<void>;
};

/// Decoders that also join symbols with raw bits: verdicts as above, and all symbols or elements as element_target
/// says.
template <class Decoder>
concept decodes_joined = requires(const Decoder decoder, std::span<const chunk_bytes> chunks, const element_join& join,
                                  std::span<element_target> targets, std::span<errc> verdicts, instruction_set isa) {
  { decoder.decode_joined(chunks, join, targets, verdicts, isa) } -> std::same_as<void>;
};

/// Chunks that a table_decoder takes at once: enough to run side by side, and to find or make a table for.
inline constexpr std::size_t max_chunk_run = 16;

/// The decoder of one table of a stream, whatever the coder.
class table_decoder {
 public:
  virtual ~table_decoder() = default;

  /// Decodes at most max_chunk_run chunks, as decodes_joined says.
  virtual void decode(std::span<const chunk_bytes> chunks, const element_join& join, std::span<element_target> targets,
                      std::span<errc> verdicts, instruction_set isa) const = 0;
};

/// That of `Coder`.
template <entropy_coder Coder>
class table_decoder_of final : public table_decoder {
 public:
  table_decoder_of(const typename Coder::table& table, split_map map) : decoder_(table, map) {}

  void decode(std::span<const chunk_bytes> chunks, const element_join& join, std::span<element_target> targets,
              std::span<errc> verdicts, instruction_set isa) const override {
    if constexpr (decodes_joined<typename Coder::decoder>) {
      decoder_.decode_joined(chunks, join, targets, verdicts, isa);
    } else {
      std::uint8_t* symbols[max_chunk_run];
      for (std::size_t i = 0; i < chunks.size(); ++i) symbols[i] = targets[i].symbols(join.width, chunks[i].symbols);
      if constexpr (decodes_many<typename Coder::decoder>) {
        decoder_.decode_many(chunks, symbols, verdicts, isa);
      } else {
        static_cast<void>(isa);
        for (std::size_t i = 0; i < chunks.size(); ++i) verdicts[i] = decoder_.decode(chunks[i], symbols[i]);
      }
    }
  }

 private:
  typename Coder::decoder decoder_;
};

/// All that decoding takes from a coder.
struct coder_decoding {
  coder_id coder{};
  std::string_view name;
  std::size_t state_bytes = 0;
  /// Checks the record at `position` of a tables section and moves `position` behind it.
  result<void> (*check_table)(std::span<const std::byte> section, std::size_t& position, split_map map) = nullptr;
  /// The decoder of the record there, which check_table has accepted.
  std::unique_ptr<const table_decoder> (*decoder_at)(std::span<const std::byte> section, std::size_t position,
                                                     split_map map) = nullptr;

  template <entropy_coder Coder>
  static constexpr coder_decoding of() noexcept {
    return {Coder::id, Coder::name, Coder::state_bytes,
            [](std::span<const std::byte> section, std::size_t& position, split_map map) -> result<void> {
              ECQ_CHECK(Coder::table::read(section, position, map));
              return {};
            },
            [](std::span<const std::byte> section, std::size_t position,
               split_map map) -> std::unique_ptr<const table_decoder> {
              return std::make_unique<table_decoder_of<Coder>>(*Coder::table::read(section, position, map), map);
            }};
  }
};

template <entropy_coder... Coders>
inline constexpr coder_decoding decodings_of[] = {coder_decoding::of<Coders>()...};

}  // namespace detail

/// The coders that streams are read with: coders<rans>, say, or every_coder.
class coder_set {
 public:
  explicit constexpr coder_set(std::span<const detail::coder_decoding> all) noexcept : all_(all) {}

  /// nullptr for a coder that is not among these.
  constexpr const detail::coder_decoding* find(coder_id id) const noexcept {
    for (const detail::coder_decoding& each : all_) {
      if (each.coder == id) return &each;
    }
    return nullptr;
  }

  /// "raw, rans".
  std::string names() const {
    std::string all;
    for (const detail::coder_decoding& each : all_) all.append(all.empty() ? "" : ", ").append(each.name);
    return all;
  }

 private:
  std::span<const detail::coder_decoding> all_;
};

/// These coders, of the library's or one's own, and raw, which stands in for any of them where that is smaller. A
/// program compiles the decoders of the coders that it names.
template <decodable_on<cpu>... Coders>
inline constexpr coder_set coders{detail::decodings_of<raw, Coders...>};

/// All coders of this library, where a call names none: stream/every_coder.hpp, which stream/encoded_stream.hpp and
/// decompress.hpp include.
struct every_coder;

}  // namespace ecq
