#pragma once
/// \file
/// Lossless compression: exponents are entropy-coded, and decoding restores every bit of the weights.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "ecq/base/backend.hpp"
#include "ecq/base/out_of_memory.hpp"
#include "ecq/base/result.hpp"
#include "ecq/decompress.hpp"
#include "ecq/entropy/rans/rans.hpp"
#include "ecq/format/dtype.hpp"
#include "ecq/format/weights_view.hpp"
#include "ecq/methods/lossless_method.hpp"
#include "ecq/methods/method.hpp"
#include "ecq/methods/pack.hpp"
#include "ecq/packed.hpp"
#include "ecq/packed_check.hpp"
#include "ecq/stream/coder_set.hpp"
#include "ecq/stream/encoded_stream.hpp"
#include "ecq/stream/stream_encoder.hpp"

namespace ecq {

/// Formats whose weights have an exponent: fp32, fp16, bf16, fp8_e4m3, fp8_e5m2.
template <class Format>
concept exponent_format = number_format<Format> && is_floating_point(dtype_of<Format>);

/// Types whose objects are weights of `Format`: bf16 for bf16, float and fp32 for fp32.
template <class Element, class Format>
concept element_of = dtype_of<std::remove_cv_t<Element>> == dtype_of<Format>;

/// Codec that stores weights of `Format` without loss: `Coder` codes their exponents; sign and mantissa stay as they
/// are. With BF16 this is the composition of DFloat11 (arXiv:2504.11651), with FP8 that of ECF8 (arXiv:2510.02676):
///
///   ecq::lossless<ecq::bf16, ecq::rans> codec;
///   auto packed = codec.compress(ecq::cpu{}, weights);           // a span or a matrix of bf16
///   codec.decompress(ecq::cpu{}, *packed, restored);             // the same bits, NaN and -0 included
///
/// With stream.pairs, exponents are coded two at a time. The packed block is like that of any other compressor:
/// containers store it, and block_decoder and ecq::decompress decode it.
template <exponent_format Format, stream_coder Coder = rans>
struct lossless {
  stream_options stream{};

  /// Compresses a matrix of any strides, or anything that converts to one. Errors: invalid_argument (options; weights
  /// of another format), limit_exceeded, out_of_memory.
  result<packed_block> compress(weights_view weights) const { return compress(cpu{}, weights); }

  result<packed_block> compress(const cpu& backend, weights_view weights) const {
    if (weights.type() != dtype_of<Format>) {
      return error(errc::invalid_argument, "weights are ", to_string(weights.type()), ", but the codec is for ",
                   Format::name);
    }
    const named_weights matrix{{}, weights};
    return detail::compress_block(backend, detail::lossless_method({.pairs = stream.pairs}), std::span(&matrix, 1),
                                  stream, detail::encode_function_of<Coder>);
  }

  /// Decodes matrix `matrix` of a block, bit for bit, into `out`: a matrix_view of `Format`'s elements with the
  /// matrix's shape and any strides, or anything that converts to one. If `Coder` is the caller's own, `accepted` must
  /// contain it. Errors: those of block_decoder::open and decode; invalid_argument for a block of another format.
  template <class Output, class Every = every_coder>
    requires element_of<typename decltype(matrix_view(std::declval<Output&>()))::value_type, Format>
  result<void> decompress(const cpu& backend, packed_block_view block, std::size_t matrix, Output&& out,
                          coder_set accepted = Every()) const {
    ECQ_TRY(decoder, block_decoder::open(block, accepted));
    ECQ_CHECK(check(decoder.stream()));
    const auto to = matrix_view(out);
    using element = typename decltype(matrix_view(out))::value_type;
    if (matrix >= block.matrices.size()) {
      return error(errc::not_found, "matrix ", matrix, " in a block of ", block.matrices.size(), " matrices");
    }
    const group_layout& there = block.matrices[matrix].layout;
    if (to.rows() != there.rows || to.columns() != there.columns) {
      return error(errc::invalid_argument, detail::label_of(block.matrices[matrix], matrix), ": output is ", to.rows(),
                   " x ", to.columns(), ", but weights are ", there.rows, " x ", there.columns);
    }
    if (detail::contiguous(to)) {
      return decoder.decode_codes(backend, matrix, 0, to.rows(),
                                  std::as_writable_bytes(std::span(to.data(), to.size())));
    }
    return detail::or_out_of_memory("the weights of a matrix", [&]() -> result<void> {
      std::vector<element> row_major(to.size());
      ECQ_CHECK(decoder.decode_codes(backend, matrix, 0, to.rows(), std::as_writable_bytes(std::span(row_major))));
      for (std::size_t row = 0; row < to.rows(); ++row) {
        for (std::size_t column = 0; column < to.columns(); ++column) {
          std::memcpy(&to(row, column), &row_major[row * to.columns() + column], sizeof(element));
        }
      }
      return {};
    });
  }

  /// Decodes the only matrix of a block into `out`. Fails with errc::invalid_argument unless the block has exactly one.
  template <class Output, class Every = every_coder>
    requires element_of<typename decltype(matrix_view(std::declval<Output&>()))::value_type, Format>
  result<void> decompress(const cpu& backend, packed_block_view block, Output&& out,
                          coder_set accepted = Every()) const {
    ECQ_CHECK(check_single(block));
    return decompress(backend, block, 0, out, accepted);
  }

  /// Decodes out.size() weights from number `first` on, counted row by row through the whole block. Errors: those of
  /// parsing and decoding streams; invalid_argument for a range beyond the block or a block of another format.
  template <element_of<Format> Element, class Every = every_coder>
  result<void> decompress_elements(const cpu& backend, packed_block_view block, std::uint64_t first,
                                   std::span<Element> out, coder_set accepted = Every()) const {
    ECQ_TRY(parsed, encoded_stream::parse(block.stream, accepted));
    ECQ_CHECK(check(parsed));
    return decode_elements(backend, parsed, first, std::as_writable_bytes(out));
  }

 private:
  static result<void> check(const encoded_stream& stream_of_block) {
    const auto format = stream_of_block.format();
    if (format == dtype_of<Format>) return {};
    return error(errc::invalid_argument, "stream holds ", format ? to_string(*format) : "codes",
                 ", but the codec is for ", Format::name);
  }
};

}  // namespace ecq
