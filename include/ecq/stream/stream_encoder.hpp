#pragma once
/// \file
/// Encoding of elements into a stream on the CPU. The bytes depend only on elements and options, not on the threads.

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "ecq/base/backend.hpp"
#include "ecq/base/config.hpp"
#include "ecq/entropy/histogram.hpp"
#include "ecq/entropy/huffman/huffman.hpp"
#include "ecq/entropy/huffman_gaps/huffman_gaps.hpp"
#include "ecq/entropy/rans/rans.hpp"
#include "ecq/entropy/raw.hpp"
#include "ecq/entropy/tans/tans.hpp"
#include "ecq/stream/chunked_elements.hpp"
#include "ecq/stream/stream_options.hpp"
#include "ecq/stream/stream_view.hpp"

namespace ecq {

/// Stands in for an entropy_coder: encodes with the one of `Coders` whose stream is smallest by exact size.
template <entropy_coder... Coders>
struct smallest_of {};

/// The default choice of coders, fastest to decode first.
using smallest_any = smallest_of<rans, huffman, tans>;

/// Whether a type is a smallest_of.
template <class Type>
inline constexpr bool is_smallest_of = false;
template <entropy_coder... Coders>
inline constexpr bool is_smallest_of<smallest_of<Coders...>> = true;

/// Types with which streams can be encoded: an entropy_coder or a smallest_of.
template <class Type>
concept stream_coder = entropy_coder<Type> || is_smallest_of<Type>;

namespace detail {

/// Encoders that take several chunks at once: counts[i] is set to the value that encode(codes[i], states[i], words[i])
/// would return.
template <class Encoder>
concept encodes_many =
    requires(const Encoder encoder, std::span<const std::span<const std::uint8_t>> codes, std::byte* const* states,
             std::span<const std::span<std::uint16_t>> words, std::span<std::size_t> counts, instruction_set isa) {
      { encoder.encode_many(codes, states, words, counts, isa) } -> std::same_as<void>;
    };

/// Interface of the encoders of one stream, one per table, for any coder.
class table_encoders {
 public:
  virtual ~table_encoders() = default;

  /// Codes a few chunks with table `table`, as encodes_many describes.
  virtual void encode(std::uint16_t table, std::span<const std::span<const std::uint8_t>> codes,
                      std::byte* const* states, std::span<const std::span<std::uint16_t>> words,
                      std::span<std::size_t> counts, instruction_set isa) const = 0;
};

/// The encoders of `Coder`.
template <entropy_coder Coder>
class encoders_of final : public table_encoders {
 public:
  encoders_of(std::span<const typename Coder::table> tables, split_map map) {
    encoders_.reserve(tables.size());
    for (const auto& table : tables) encoders_.emplace_back(table, map);
  }

  void encode(std::uint16_t table, std::span<const std::span<const std::uint8_t>> codes, std::byte* const* states,
              std::span<const std::span<std::uint16_t>> words, std::span<std::size_t> counts,
              instruction_set isa) const override {
    const auto& encoder = encoders_[table];
    if constexpr (encodes_many<typename Coder::encoder>) {
      encoder.encode_many(codes, states, words, counts, isa);
    } else {
      static_cast<void>(isa);
      for (std::size_t i = 0; i < codes.size(); ++i) counts[i] = encoder.encode(codes[i], states[i], words[i]);
    }
  }

 private:
  std::vector<typename Coder::encoder> encoders_;
};

/// Everything that a stream takes from its coder.
struct stream_coding {
  coder_id coder{};
  std::size_t state_bytes = 0;
  split_map map;
  std::uint64_t bits = 0;         ///< expected information of all words
  std::vector<std::byte> tables;  ///< records of the tables
  std::uint32_t table_count = 0;
  std::unique_ptr<const table_encoders> encoders;  ///< null: nothing is coded

  template <entropy_coder Coder>
  static stream_coding of(const coding_plan<typename Coder::table>& plan, split_map map) {
    stream_coding made;
    made.coder = Coder::id;
    made.state_bytes = Coder::state_bytes;
    made.map = map;
    made.bits = plan.bits;
    for (const auto& table : plan.tables) table.append_to(made.tables);
    made.table_count = static_cast<std::uint32_t>(plan.tables.size());
    if constexpr (!std::same_as<Coder, raw>) made.encoders = std::make_unique<encoders_of<Coder>>(plan.tables, map);
    return made;
  }
};

/// Returns the stream of the chunks in `chunked`, coded by `coding`. Errors: out_of_memory.
result<std::vector<std::byte>> encode_chunks(const cpu& backend, const chunked_elements& chunked,
                                             const stream_coding& coding);

/// Returns the plan of `Coder` for all classes, or for the shared counts if there are any. The bits that it expects are
/// those of the codes at hand in either case.
template <entropy_coder Coder>
auto plan_of(const stream_options& options, std::span<const histogram> classes, bool pairs) {
  const unsigned most = pairs ? 0 : most_raw_bits(options.goal, Coder::id);
  if (options.shared_counts == nullptr || classes.empty()) return Coder::plan(classes, most);
  auto plan = Coder::plan({options.shared_counts, 1}, most);
  const double share = static_cast<double>(classes[0].total()) / static_cast<double>(options.shared_counts->total());
  plan.bits = static_cast<std::uint64_t>(static_cast<double>(plan.bits) * (std::min)(share, 1.0));
  return plan;
}

/// Function that encodes elements in chunks and returns the stream; `classes` are the histograms of the classes.
using encode_function = result<std::vector<std::byte>> (*)(const cpu& backend, const chunked_elements& chunked,
                                                           const stream_options& options,
                                                           std::span<const histogram> classes);

/// The encode_function of one coder.
template <entropy_coder Coder>
result<std::vector<std::byte>> encode_by(const cpu& backend, const chunked_elements& chunked,
                                         const stream_options& options, std::span<const histogram> classes) {
  const auto plan = plan_of<Coder>(options, classes, chunked.pairing.has_value());
  return encode_chunks(backend, chunked, stream_coding::of<Coder>(plan, chunked.map(plan.map)));
}

/// The encode_function that returns the smallest of the streams of several coders.
template <entropy_coder... Coders>
result<std::vector<std::byte>> encode_by_smallest(const cpu& backend, const chunked_elements& chunked,
                                                  const stream_options& options, std::span<const histogram> classes) {
  std::vector<std::byte> best;
  const auto attempt = [&]<class Coder>(Coder) -> result<void> {
    const auto plan = plan_of<Coder>(options, classes, chunked.pairing.has_value());
    const split_map map = chunked.map(plan.map);
    const std::uint64_t expected = plan.bits / 8 + raw_bytes(chunked.size(), map.bits + chunked.never_coded_bits()) +
                                   chunked.chunks() * Coder::state_bytes;
    // For the codes that it is made for, a plan predicts the size to within a hundredth, so clear losers need not be
    // encoded.
    if (options.shared_counts == nullptr && !best.empty() && expected > best.size() + best.size() / 100) return {};
    ECQ_TRY(coded, encode_chunks(backend, chunked, stream_coding::of<Coder>(plan, map)));
    const std::size_t size = coded.size(), whole = size / 1000, part = size % 1000;
    if (best.empty() || size + whole * options.margin + part * options.margin / 1000 < best.size()) {
      best = std::move(coded);
    }
    return {};
  };
  result<void> outcome;
  ((outcome = attempt(Coders{}), outcome.has_value()) && ...);
  if (!outcome) return std::move(outcome).error();
  return best;
}

/// The encode_function that a stream_coder stands for; null for coder raw, which only stores.
template <stream_coder Coder>
inline constexpr encode_function encode_function_of = &encode_by<Coder>;
template <entropy_coder... Coders>
inline constexpr encode_function encode_function_of<smallest_of<Coders...>> = &encode_by_smallest<Coders...>;
template <>
inline constexpr encode_function encode_function_of<raw> = nullptr;

/// Encodes elements with `encode`, as encode_stream and encode_exponents describe; stores them raw if that is smaller
/// or `encode` is null.
result<std::vector<std::byte>> encode_elements(const cpu& backend, std::span<const std::byte> elements,
                                               std::optional<dtype> format, const stream_options& options,
                                               encode_function encode);

}  // namespace detail

/// Encodes `codes` into a stream; stores them raw if `Coder` would not make the stream smaller. Besides the stream
/// itself, encoding takes memory of 1 MiB per thread (4 MiB with chunks of 2^18 codes), up to 192 KiB per class of
/// chunks (704 KiB with goal cpu) and, with smallest_of, another stream. `Coder` is an entropy_coder, or smallest_any
/// for the smallest stream. Errors: invalid_argument (options), limit_exceeded, out_of_memory.
template <stream_coder Coder = rans>
result<std::vector<std::byte>> encode_stream(const cpu& backend, std::span<const std::uint8_t> codes,
                                             const stream_options& options = {}) {
  return detail::encode_elements(backend, std::as_bytes(codes), std::nullopt, options,
                                 detail::encode_function_of<Coder>);
}

/// Encodes weights of a floating-point `format` without loss: their exponents with `Coder`, sign and mantissa raw.
/// `elements` are the weights' bits in the machine's byte order, at any address. Everything else is as in
/// encode_stream.
template <stream_coder Coder = rans>
result<std::vector<std::byte>> encode_exponents(const cpu& backend, dtype format, std::span<const std::byte> elements,
                                                const stream_options& options = {}) {
  if (!is_floating_point(format)) {
    return detail::stream_error(errc::invalid_argument, "weights of ", to_string(format), " have no exponents");
  }
  return detail::encode_elements(backend, elements, format, options, detail::encode_function_of<Coder>);
}

}  // namespace ecq

/// \def ECQ_INSTANCE_OF_ENCODING
/// Instance of encoding that the compiled library has for a shipped coder. A user's own coder is instantiated where it
/// is used.
#define ECQ_INSTANCE_OF_ENCODING(TEMPLATE, ...)                                          \
  TEMPLATE ecq::result<std::vector<std::byte>> ecq::detail::__VA_ARGS__(                 \
      const ecq::cpu&, const ecq::detail::chunked_elements&, const ecq::stream_options&, \
      std::span<const ecq::histogram>)

#if ECQ_HEADER_ONLY
#include "ecq/stream/stream_encoder-inl.hpp"
#else
ECQ_INSTANCE_OF_ENCODING(extern template, encode_by<ecq::rans>);
ECQ_INSTANCE_OF_ENCODING(extern template, encode_by<ecq::tans>);
ECQ_INSTANCE_OF_ENCODING(extern template, encode_by<ecq::huffman>);
ECQ_INSTANCE_OF_ENCODING(extern template, encode_by<ecq::huffman_gaps>);
ECQ_INSTANCE_OF_ENCODING(extern template, encode_by_smallest<ecq::rans, ecq::huffman, ecq::tans>);
#endif
