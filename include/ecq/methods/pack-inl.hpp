#pragma once
/// \file
/// Definition of packing matrices into blocks.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ecq/base/backend.hpp"
#include "ecq/base/config.hpp"
#include "ecq/base/out_of_memory.hpp"
#include "ecq/base/result.hpp"
#include "ecq/format/dtype.hpp"
#include "ecq/format/exact_weight.hpp"
#include "ecq/format/fp32.hpp"
#include "ecq/methods/method.hpp"
#include "ecq/methods/name_outlier.hpp"
#include "ecq/methods/pack.hpp"
#include "ecq/packed.hpp"
#include "ecq/packed_check.hpp"
#include "ecq/quantize/granularity.hpp"
#include "ecq/quantize/rate_correction.hpp"
#include "ecq/stream/chunked_elements.hpp"
#include "ecq/stream/stream_encoder.hpp"

namespace ecq::detail {

/// Returns the weights of a matrix that are to be kept exact. Errors: invalid_argument for positions that do not ascend
/// or lie outside the matrix, non_finite.
ECQ_INLINE result<std::vector<exact_weight>> exact_weights_of(const weights_view& weights) {
  std::vector<exact_weight> made;
  made.reserve(weights.exact().size());
  const weights_view all = weights.with_exact({});
  for (const std::uint64_t position : weights.exact()) {
    if (position >= weights.size() || (!made.empty() && position <= made.back().position)) {
      return error(errc::invalid_argument, "exact weight at position ", position, " of ", weights.size(),
                   position < weights.size() ? " is not after the previous one" : " does not exist");
    }
    const auto row = static_cast<std::size_t>(position / weights.columns());
    const auto column = static_cast<std::size_t>(position % weights.columns());
    float weight = 0;
    all.load(row, column, {&weight, 1});
    if (!fp32::is_finite(std::bit_cast<std::uint32_t>(weight))) {
      return error(errc::non_finite, "the exact weight at row ", row, ", column ", column, " is NaN or infinite");
    }
    made.push_back({position, weight});
  }
  return made;
}

/// Whether a matrix of this shape has `count` elements.
ECQ_INLINE bool has_elements(std::span<const std::uint64_t> shape, std::uint64_t count) {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return count == 0;
  for (const std::uint64_t extent : shape) {
    if (count % extent != 0) return false;
    count /= extent;
  }
  return count == 1;
}

/// Returns the layout of a matrix in files, where the first extent of its shape is the number of rows. For methods, all
/// rows of all matrices of a stack are rows. Returns nothing if the groups do not fit.
ECQ_INLINE std::optional<group_layout> layout_in_files(const packed_matrix& matrix) {
  if (matrix.is_bytes()) return matrix.layout;
  return matrix.layout.with_rows(static_cast<std::size_t>(matrix.shape[0]));
}

/// Describes the matrices in `packed`, except for the values of scales and zero points, and returns the number of
/// elements of all of them.
ECQ_INLINE result<std::uint64_t> describe_block(const prepared_method& method, std::size_t first,
                                                std::span<const named_weights> matrices, packed_block& packed) {
  std::uint64_t elements = 0;
  for (std::size_t index = 0; index < matrices.size(); ++index) {
    ECQ_CHECK(check_lambda_factors(matrices[index], index));
    const auto& [name, weights, shape, element_type, lambda_factor, row_factors] = matrices[index];
    packed_matrix& next = packed.matrices.emplace_back();
    next.name = name;
    next.shape = shape.empty() ? std::vector<std::uint64_t>{weights.rows(), weights.columns()} : shape;
    next.original = weights.unpacked_type();
    next.first_symbol = elements;
    next.element_type = element_type;
    method.describe(first + index, weights, next);
    if (!next.is_bytes() && !has_elements(next.shape, weights.size())) {
      std::string extents;
      for (const std::uint64_t extent : next.shape) {
        extents += (extents.empty() ? "" : " x ") + std::to_string(extent);
      }
      return error(errc::invalid_argument, label_of(matrices[index], index), ": ", weights.rows(), " x ",
                   weights.columns(), " weights do not fit shape ", extents);
    }
    if (!next.is_bytes() && !next.lossless()) {
      if (!is_floating_point(next.original)) {
        return error(errc::invalid_argument, label_of(matrices[index], index), ": ", to_string(next.original),
                     " without scales are not weights");
      }
      if (auto fits = check_layout(weights, next.layout, next.layout.count()); !fits) {
        return std::move(fits).error().within(label_of(matrices[index], index));
      }
    }
    if (!layout_in_files(next)) {
      return error(errc::unsupported, label_of(matrices[index], index), ": groups of ", next.layout.rows_per_group,
                   " x ", next.layout.columns_per_group, " weights do not divide its rows of ", next.layout.columns);
    }
    if (next.lossless() && weights.is_scaled()) {
      return error(errc::unsupported, label_of(matrices[index], index),
                   ": weights with scales cannot be compressed without loss");
    }
    const packed_matrix& front = packed.matrices.front();
    if (next.lossless() != front.lossless() || (front.lossless() && next.format != front.format)) {
      return error(errc::invalid_argument, label_of(matrices[index], index), ": ", to_string(next.format),
                   " elements in a stream of ", to_string(front.format));
    }
    elements += weights.size();
    if (weights.size() > max_stream_symbols || elements > max_stream_symbols) {
      return error(errc::limit_exceeded, label_of(matrices[index], index),
                   ": more than 2^43 weights together with those before it");
    }
    next.scales.resize(next.layout.count());
    if (next.lossless()) continue;
    auto exact = exact_weights_of(weights);
    if (!exact) return std::move(exact).error().within(label_of(matrices[index], index));
    next.exact = std::move(*exact);
  }
  return elements;
}

/// Fails if decoders would refuse the `matrices` that a method, such as a user's quantiser, has made, or the `elements`
/// of all of them.
ECQ_INLINE result<void> check_decodable(const cpu& backend, std::span<const packed_matrix> matrices,
                                        std::uint64_t symbols, std::optional<dtype> format,
                                        std::span<const std::byte> elements) {
  ECQ_CHECK(check_matrices(matrices, symbols, format));
  for (std::size_t index = 0; index < matrices.size(); ++index) {
    const packed_matrix& matrix = matrices[index];
    if (matrix.lossless()) continue;
    const auto part =
        elements.subspan(static_cast<std::size_t>(matrix.first_symbol), matrix.layout.rows * matrix.layout.columns);
    const std::span codes(reinterpret_cast<const std::uint8_t*>(part.data()), part.size());
    if (auto checked = check_codes(backend, matrix, codes); !checked) {
      return std::move(checked).error().within(label_of(matrix, index));
    }
  }
  return {};
}

ECQ_INLINE result<packed_block> pack_block(const cpu& backend, const prepared_method& method, std::size_t first,
                                           const rate_correction& correction, std::span<const named_weights> matrices,
                                           const stream_options& stream, encode_function encode,
                                           const block_observer& observer) {
  packed_block packed;
  ECQ_TRY(count, describe_block(method, first, matrices, packed));
  const bool exponents = !matrices.empty() && packed.matrices.front().codes_exponents();
  const std::size_t width = exponents ? size_of(packed.matrices.front().format) : 1;
  std::unique_ptr<std::byte[]> made;
  std::span<const std::byte> elements;
  if (const auto there = matrices.size() == 1 ? method.in_place(matrices[0].weights) : std::nullopt) {
    elements = *there;
    if (observer) ECQ_CHECK(observer(0, packed.matrices[0], elements));
  } else {
    const auto bytes = static_cast<std::size_t>(count) * width;
    made = std::make_unique_for_overwrite<std::byte[]>(bytes);
    elements = {made.get(), bytes};
    for (std::size_t index = 0; index < matrices.size(); ++index) {
      packed_matrix& matrix = packed.matrices[index];
      const weights_view& weights = matrices[index].weights;
      const std::span before(made.get(), matrix.first_symbol * width);
      const std::span part(made.get() + matrix.first_symbol * width, weights.size() * width);
      if (auto done = method.encode_behind(before, backend, first + index, weights, correction, matrix, part); !done) {
        return std::move(done).error().within(label_of(matrices[index], index));
      }
      if (observer) ECQ_CHECK(observer(index, matrix, part));
    }
  }
  for (packed_matrix& matrix : packed.matrices) matrix.layout = *layout_in_files(matrix);
  const auto format = exponents ? std::optional(packed.matrices.front().format) : std::nullopt;
  if (auto checked = check_decodable(backend, packed.matrices, count, format, elements); !checked) {
    return error(errc::invalid_argument,
                 "the method produced a block that cannot be decoded: ", checked.error().message());
  }
  stream_options options = method.options(stream);
  // Pairs suit exponents, of which few different ones occur; pairs of arbitrary bytes would be mostly escapes.
  if (!matrices.empty() && packed.matrices.front().is_bytes()) options.pairs = false;
  if (correction.without_pairs() && options.goal == stream_goal::cpu) options.goal = stream_goal::size;
  ECQ_TRY(bytes, encode_elements(backend, elements, format, options, encode));
  packed.stream = std::move(bytes);
  return packed;
}

ECQ_INLINE result<packed_block> compress_block(const cpu& backend, const compression_method& method,
                                               std::span<const named_weights> matrices, const stream_options& stream,
                                               encode_function encode) {
  return or_out_of_memory("the codes of a block", [&]() -> result<packed_block> {
    ECQ_CHECK(method.check());
    ECQ_CHECK(check_chunk_bits(stream.chunk_bits));  // before a rate is planned with it
    ECQ_TRY(prepared, method.prepare(backend, {&matrices, 1}, {.chunk_bits = stream.chunk_bits, .goal = stream.goal}));
    packed_block packed;
    const auto pass = [&](const rate_correction& correction) -> result<measured_rate> {
      ECQ_TRY(made, pack_block(backend, *prepared, 0, correction, matrices, stream, encode));
      packed = std::move(made);
      return measured_rate{packed.bits_per_weight(), packed.weights(), prepared->lambda(correction) == 0,
                           stream.goal == stream_goal::cpu && !stream.narrow_pairs};
    };
    if (const auto met = meet_rate(method.target_bits(), pass); !met) {
      std::vector<const named_weights*> all;
      for (const named_weights& matrix : matrices) all.push_back(&matrix);
      return name_outlier(backend, all, met.error());
    }
    return packed;
  });
}

}  // namespace ecq::detail
