#pragma once
/// \file
/// Compression of matrices to a block of entropy-coded codes, with any composition of policies.

#include <span>

#include "ecq/base/backend.hpp"
#include "ecq/base/result.hpp"
#include "ecq/entropy/rans/rans.hpp"
#include "ecq/format/fp8_e4m3.hpp"
#include "ecq/format/weights_view.hpp"
#include "ecq/methods/method.hpp"
#include "ecq/methods/method_of.hpp"
#include "ecq/methods/pack.hpp"
#include "ecq/packed.hpp"
#include "ecq/quantize/entquant.hpp"
#include "ecq/quantize/quantizer.hpp"
#include "ecq/stream/encoded_stream.hpp"
#include "ecq/stream/stream_encoder.hpp"

namespace ecq {

/// Compressor that quantises matrices with `Quantizer` to codes of `Format` and entropy-codes them with `Coder`:
///
///   ecq::compressor<ecq::fp8_e4m3, ecq::rans, ecq::entquant> codec{{.target_bits = 3.0}};
///   auto packed = codec.compress(weights);
///
///   ecq::compressor<ecq::uint8, ecq::huffman, ecq::entrollm> codec;
///   ecq::compressor<ecq::fp8_e4m3, ecq::smallest_any> codec{{.target_bits = 3.0}};  // ecq/stream/every_coder.hpp
///   ecq::compressor<ecq::int8, ecq::rans, ecq::tcq> codec{{.target_bits = 2.1}};  // ecq/methods/tcq_method.hpp
///
/// The target covers all bytes of a packed block: its stream with tables, states, indexes and checksums, and its
/// scales. A result that misses it by more than rate_correction::tolerance is an error. Fewer than 25,600 weights may
/// miss it by 512 bits in total. If AbsMax needs fewer bits than the target, it is the result. The matrices of a block
/// share one lambda, one stream and one frequency table.
///
/// Errors: non_finite, which names matrix, row and column; invalid_argument, unreachable_target, out_of_memory.
template <class Format = fp8_e4m3, class Coder = rans, class Quantizer = entquant>
struct compressor {
  static_assert(code_format<Format>,
                "compressor: Format is no number format of one byte a code (ecq/format/number_format.hpp)");
  static_assert(stream_coder<Coder>, "compressor: Coder is no entropy coder (ecq/entropy/entropy_coder.hpp)");
  static_assert(
      ecq::quantizer<Quantizer, Format> || ecq::affine_quantizer<Quantizer, Format> ||
          detail::has_own_method<Format, Quantizer>,
      "compressor: Quantizer makes no codes of Format (ecq/quantize/quantizer.hpp); tcq makes those of int8 and needs "
      "ecq/methods/tcq_method.hpp");

  Quantizer quantizer{};
  stream_options stream{};

  result<packed_block> compress(weights_view weights) const { return compress(cpu{}, weights); }

  result<packed_block> compress(const cpu& backend, weights_view weights) const {
    const named_weights matrix{{}, weights};
    return compress(backend, std::span(&matrix, 1));
  }

  result<packed_block> compress(const cpu& backend, std::span<const named_weights> matrices) const {
    return detail::compress_block(backend, detail::method_of<Format, Quantizer>(quantizer), matrices, stream,
                                  detail::encode_function_of<Coder>);
  }
};

}  // namespace ecq
