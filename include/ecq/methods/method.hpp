#pragma once
/// \file
/// The interface of a method of compression: how matrices become the elements of streams.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ecq/base/backend.hpp"
#include "ecq/base/result.hpp"
#include "ecq/entropy/entropy_coder.hpp"
#include "ecq/format/weights_view.hpp"
#include "ecq/packed.hpp"
#include "ecq/quantize/model_sample.hpp"
#include "ecq/quantize/rate_correction.hpp"
#include "ecq/stream/chunk_index.hpp"
#include "ecq/stream/stream_options.hpp"

namespace ecq {

/// A matrix of a block and its name there.
struct named_weights {
  std::string name;
  weights_view weights;
  std::vector<std::uint64_t> shape{};  ///< of the model's tensor, rows first; empty: rows x columns
  std::string_view element_type{};     ///< of a tensor whose bytes are coded (packed_matrix::element_type)
  double lambda_factor = 1;  ///< methods with a lambda take this many times that of the others; above 0, finite
  /// Empty, or one for each row: methods whose lambda may differ from row to row take this many times that of the
  /// others in place of lambda_factor. Above 0, finite; they outlive the method that is prepared.
  std::span<const double> row_factors{};

  detail::lambda_factors factors() const noexcept { return {lambda_factor, row_factors}; }
};

/// The matrices of a model, grouped by the stream that they share. Methods number them consecutively through all
/// streams.
using matrix_streams = std::span<const std::span<const named_weights>>;

/// Which matrices of a checkpoint's block share a stream.
enum class stream_sharing {
  block,   ///< all of them
  format,  ///< those of one number format
  matrix   ///< none
};

/// What a method has to know about the streams to come, and callbacks for what it reads.
struct method_setting {
  unsigned chunk_bits = 0;               ///< log2 of the symbols per chunk; 0: by the length of the stream and its goal
  stream_goal goal = stream_goal::size;  ///< what the streams are made for
  bool one_code = false;                 ///< many streams follow, which may share one code
  bool choose_coder = false;             ///< with one_code: the method says which coder makes them smallest
  /// Called before matrix `index` is read; an error ends the preparation.
  std::function<result<void>(std::size_t index)> begin{};
  /// Called when matrix `index` has been read, so that memory of a mapped file can be given back.
  std::function<void(std::size_t index)> finished{};

  /// log2 of the symbols per chunk for a stream of `symbols` symbols.
  unsigned chunk_bits_of(std::uint64_t symbols) const noexcept {
    return chunk_bits != 0 ? chunk_bits : default_chunk_bits(symbols, goal);
  }
};

/// A method that has seen all matrices of a model, and encodes each of them.
class prepared_method {
 public:
  virtual ~prepared_method() = default;

  /// Sets format, values and layout of what matrix `index` becomes. The caller then resizes its scales to
  /// layout.count().
  virtual void describe(std::size_t index, const weights_view& weights, packed_matrix& described) const = 0;

  /// Writes the elements of matrix `index`, rows * columns of size_of(described.format) bytes each, row-major; sets
  /// scales and zero point. `correction` moves the lambda, if there is one.
  virtual result<void> encode(const cpu& backend, std::size_t index, const weights_view& weights,
                              const rate_correction& correction, packed_matrix& described,
                              std::span<std::byte> elements) const = 0;

  /// encode() for methods whose elements depend on those `before` them in the block, which end where
  /// described.first_symbol is.
  virtual result<void> encode_behind(std::span<const std::byte> before, const cpu& backend, std::size_t index,
                                     const weights_view& weights, const rate_correction& correction,
                                     packed_matrix& described, std::span<std::byte> elements) const {
    static_cast<void>(before);
    return encode(backend, index, weights, correction, described, elements);
  }

  /// The elements of the weights if they lie in memory as encode() would write them, so that they need not be written;
  /// otherwise nothing.
  virtual std::optional<std::span<const std::byte>> in_place(const weights_view&) const { return std::nullopt; }

  /// The largest lambda of all matrices, before their factors; 0 without one.
  virtual double lambda(const rate_correction&) const { return 0; }

  /// The options of the streams: `given`, and what the method decides. What they point to lives as long as the method.
  virtual stream_options options(const stream_options& given) const { return given; }

  /// The coder of all streams, if the method has chosen one.
  virtual std::optional<coder_id> coder() const { return std::nullopt; }
};

/// A method of compression with its options: EntQuant, EntroLLM, lossless, or a user's own. compressor, lossless and
/// compress_checkpoint run the same methods.
class compression_method {
 public:
  virtual ~compression_method() = default;

  /// One line for people to read, which files carry: "fp8_e4m3, entquant, bits 3.000000".
  virtual std::string settings() const = 0;

  /// Fails with errc::invalid_argument if the options are unusable.
  virtual result<void> check() const { return {}; }

  /// Looks at all matrices, once for all streams. Errors name the matrix.
  virtual result<std::unique_ptr<const prepared_method>> prepare(const cpu& backend, matrix_streams streams,
                                                                 const method_setting& setting) const = 0;

  /// The name of the work that takes prepare() a while, such as "searching lambda"; empty if there is none.
  virtual std::string_view stage() const { return {}; }

  /// The bits per weight, everything counted, to be met within rate_correction::tolerance; nothing without a target.
  virtual std::optional<double> target_bits() const { return std::nullopt; }

  virtual stream_sharing sharing() const { return stream_sharing::block; }

  /// True if every bit comes back. NaN and infinity are then allowed, and embeddings and output heads are compressed
  /// too.
  virtual bool lossless() const { return false; }
};

namespace detail {

/// The name of a matrix in errors.
std::string label_of(const named_weights& matrix, std::size_t index);

/// Fails with errc::invalid_argument unless the factors of lambda are as named_weights says.
result<void> check_lambda_factors(const named_weights& matrix, std::size_t index);

}  // namespace detail
}  // namespace ecq

#if ECQ_HEADER_ONLY
#include "ecq/methods/method-inl.hpp"
#endif
