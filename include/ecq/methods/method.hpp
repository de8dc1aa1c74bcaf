#pragma once
/// \file
/// Interface of a compression method: how matrices become the elements of streams.

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

/// Matrix of a block, and its name there.
struct named_weights {
  std::string name;
  weights_view weights;
  std::vector<std::uint64_t> shape{};  ///< shape of the model's tensor, rows first; empty: rows x columns
  std::string_view element_type{};     ///< type of a tensor whose bytes are coded (packed_matrix::element_type)
  double lambda_factor = 1;  ///< factor of lambda for this matrix, if the method has a lambda; above 0, finite
  /// Factors of lambda for each row, or empty. Methods whose lambda may differ from row to row use these factors
  /// instead of lambda_factor. They are above 0 and finite, and must outlive the prepared method.
  std::span<const double> row_factors{};

  detail::lambda_factors factors() const noexcept { return {lambda_factor, row_factors}; }
};

/// Matrices of a model, grouped by the stream that they share. Methods number them consecutively through all streams.
using matrix_streams = std::span<const std::span<const named_weights>>;

/// Choice of the matrices of a checkpoint's block that share a stream.
enum class stream_sharing {
  block,   ///< all matrices
  format,  ///< matrices of one number format
  matrix   ///< none
};

/// Facts that a method has to know about the streams to come, and callbacks for the matrices that it reads.
struct method_setting {
  unsigned chunk_bits = 0;               ///< log2 of the symbols per chunk; 0: by the length and the goal of the stream
  stream_goal goal = stream_goal::size;  ///< goal that the streams are optimised for
  bool one_code = false;                 ///< whether many streams follow, which may share one code
  bool choose_coder = false;  ///< with one_code: whether the method chooses the coder of the smallest streams
  /// Called before matrix `index` is read; an error ends the preparation.
  std::function<result<void>(std::size_t index)> begin{};
  /// Called when matrix `index` has been read, so that memory of a mapped file can be given back.
  std::function<void(std::size_t index)> finished{};

  /// Returns log2 of the symbols per chunk for a stream of `symbols` symbols.
  unsigned chunk_bits_of(std::uint64_t symbols) const noexcept {
    return chunk_bits != 0 ? chunk_bits : default_chunk_bits(symbols, goal);
  }
};

/// Method that has seen all matrices of a model, and encodes each of them.
class prepared_method {
 public:
  virtual ~prepared_method() = default;

  /// Sets format, values and layout of matrix `index` in `described`. The caller then resizes its scales to
  /// layout.count().
  virtual void describe(std::size_t index, const weights_view& weights, packed_matrix& described) const = 0;

  /// Writes the elements of matrix `index`, rows * columns of size_of(described.format) bytes each, row-major; sets
  /// scales and zero point. `correction` changes the lambda, if there is one.
  virtual result<void> encode(const cpu& backend, std::size_t index, const weights_view& weights,
                              const rate_correction& correction, packed_matrix& described,
                              std::span<std::byte> elements) const = 0;

  /// Like encode(), for methods whose elements depend on the elements of the block that come `before` them. `before`
  /// ends at described.first_symbol.
  virtual result<void> encode_behind(std::span<const std::byte> before, const cpu& backend, std::size_t index,
                                     const weights_view& weights, const rate_correction& correction,
                                     packed_matrix& described, std::span<std::byte> elements) const {
    static_cast<void>(before);
    return encode(backend, index, weights, correction, described, elements);
  }

  /// Returns the elements of the weights if they already lie in memory as encode() would write them, so that they need
  /// not be written; otherwise nothing.
  virtual std::optional<std::span<const std::byte>> in_place(const weights_view&) const { return std::nullopt; }

  /// Returns the largest lambda of all matrices, before their factors; 0 if the method has no lambda.
  virtual double lambda(const rate_correction&) const { return 0; }

  /// Returns the options of the streams: `given`, with those that the method decides. Anything that they point to lives
  /// as long as the method.
  virtual stream_options options(const stream_options& given) const { return given; }

  /// Returns the coder of all streams, if the method has chosen one.
  virtual std::optional<coder_id> coder() const { return std::nullopt; }
};

/// Compression method with its options: EntQuant, EntroLLM, lossless, or a user's own. compressor, lossless and
/// compress_checkpoint run the same methods.
class compression_method {
 public:
  virtual ~compression_method() = default;

  /// Returns one line for people to read, which files carry, such as "fp8_e4m3, entquant, bits 3.000000".
  virtual std::string settings() const = 0;

  /// Fails with errc::invalid_argument if the options are unusable.
  virtual result<void> check() const { return {}; }

  /// Looks at all matrices of all streams, in one call. Errors name the matrix.
  virtual result<std::unique_ptr<const prepared_method>> prepare(const cpu& backend, matrix_streams streams,
                                                                 const method_setting& setting) const = 0;

  /// Returns the name of the work that makes prepare() take a while, such as "searching lambda"; empty if there is
  /// none.
  virtual std::string_view stage() const { return {}; }

  /// Returns the bits per weight, everything counted, that must be met within rate_correction::tolerance; empty without
  /// a target.
  virtual std::optional<double> target_bits() const { return std::nullopt; }

  virtual stream_sharing sharing() const { return stream_sharing::block; }

  /// Whether every bit comes back. If so, NaN and infinity are allowed, and embeddings and output heads are compressed
  /// too.
  virtual bool lossless() const { return false; }
};

namespace detail {

/// Returns the name of a matrix for error messages.
std::string label_of(const named_weights& matrix, std::size_t index);

/// Fails with errc::invalid_argument unless the factors of lambda are as named_weights requires.
result<void> check_lambda_factors(const named_weights& matrix, std::size_t index);

}  // namespace detail
}  // namespace ecq

#if ECQ_HEADER_ONLY
#include "ecq/methods/method-inl.hpp"
#endif
