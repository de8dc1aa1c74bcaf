#pragma once
/// \file
/// Set of the coders that a program can decode: named at compile time, looked up by number at run time.

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

/// Decoders that take several chunks at once: verdicts[i] is set to the value that decode(chunks[i], out[i]) would
/// return.
template <class Decoder>
concept decodes_many = requires(const Decoder decoder, std::span<const chunk_bytes> chunks, std::uint8_t* const* out,
                                std::span<errc> verdicts, instruction_set isa) {
  { decoder.decode_many(chunks, out, verdicts, isa) } -> std::same_as<void>;
};

/// Decoders that also join symbols with raw bits. Verdicts are as for decodes_many; symbols or elements go to the
/// places that element_target describes.
template <class Decoder>
concept decodes_joined = requires(const Decoder decoder, std::span<const chunk_bytes> chunks, const element_join& join,
                                  std::span<element_target> targets, std::span<errc> verdicts, instruction_set isa) {
  { decoder.decode_joined(chunks, join, targets, verdicts, isa) } -> std::same_as<void>;
};

/// Largest number of chunks that a table_decoder takes at once: enough to decode side by side, and to pay for finding
/// or making a table.
inline constexpr std::size_t max_chunk_run = 16;

/// Number of chunks with which a run already pays. Runs are no longer than this where there are few chunks, or where
/// their elements should stay in a cache.
inline constexpr std::size_t min_chunk_run = 8;

/// Interface of the decoder of one table of a stream, for any coder.
class table_decoder {
 public:
  virtual ~table_decoder() = default;

  /// Decodes at most max_chunk_run chunks, as decodes_joined describes.
  virtual void decode(std::span<const chunk_bytes> chunks, const element_join& join, std::span<element_target> targets,
                      std::span<errc> verdicts, instruction_set isa) const = 0;
};

/// The table_decoder of `Coder`.
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

/// Everything that decoding needs from a coder.
struct coder_decoding {
  coder_id coder{};
  std::string_view name;
  std::size_t state_bytes = 0;
  /// Checks the record at `position` of a tables section and moves `position` past it.
  result<void> (*check_table)(std::span<const std::byte> section, std::size_t& position, split_map map) = nullptr;
  /// Returns the decoder of the record at `position`, which check_table has accepted.
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

/// Set of coders with which streams can be decoded, such as coders<rans> or every_coder.
class coder_set {
 public:
  explicit constexpr coder_set(std::span<const detail::coder_decoding> all) noexcept : all_(all) {}

  /// Returns the decoding of coder `id`, or nullptr if the coder is not in the set.
  constexpr const detail::coder_decoding* find(coder_id id) const noexcept {
    for (const detail::coder_decoding& each : all_) {
      if (each.coder == id) return &each;
    }
    return nullptr;
  }

  /// Returns the names of the coders, such as "raw, rans".
  std::string names() const {
    std::string all;
    for (const detail::coder_decoding& each : all_) all.append(all.empty() ? "" : ", ").append(each.name);
    return all;
  }

 private:
  std::span<const detail::coder_decoding> all_;
};

/// Types of sets of coders that are known at compile time: those of coders<...>, and every_coder.
template <class Type>
concept coder_names = std::convertible_to<Type, coder_set> && requires(coder_id id) {
  { Type::names_coder(id) } -> std::same_as<bool>;
};

/// The type of coders<...>.
template <entropy_coder... Coders>
struct coder_list : coder_set {
  constexpr coder_list() noexcept : coder_set(detail::decodings_of<raw, Coders...>) {}

  /// Whether coder `id` is one of `Coders`.
  static constexpr bool names_coder(coder_id id) noexcept { return ((Coders::id == id) || ...); }
};

/// Set of `Coders`, which may be the library's or a user's own, and of raw, which replaces any of them where it is
/// smaller. A program compiles only the decoders of the coders that it names.
template <decodable_on<cpu>... Coders>
inline constexpr coder_list<Coders...> coders{};

/// Set of all coders of this library, the default for calls that name no coders. It is defined in
/// stream/every_coder.hpp, which stream/encoded_stream.hpp and decompress.hpp include.
struct every_coder;

}  // namespace ecq
