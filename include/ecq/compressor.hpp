#pragma once
/// \file
/// The verb: matrices into a block of entropy-coded codes, by any composition of policies.

#include <cstddef>
#include <cstdint>
#include <new>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ecq/base/backend.hpp"
#include "ecq/base/config.hpp"
#include "ecq/base/result.hpp"
#include "ecq/entropy/entropy_coder.hpp"
#include "ecq/entropy/rans/rans.hpp"
#include "ecq/format/dtype.hpp"
#include "ecq/format/fp8_e4m3.hpp"
#include "ecq/format/weights_view.hpp"
#include "ecq/packed.hpp"
#include "ecq/quantize/entquant.hpp"
#include "ecq/quantize/finite.hpp"
#include "ecq/quantize/quantizer.hpp"
#include "ecq/quantize/rate_correction.hpp"
#include "ecq/quantize/target_bits.hpp"
#include "ecq/stream/encoded_stream.hpp"

namespace ecq {

/// A matrix of a block and its name there.
struct named_weights {
  std::string name;
  weights_view weights;
};

/// A quantiser whose parameter is found from a rate: `at(lambda)` is the quantiser at a lambda, `target_bits` the rate,
/// if one is asked for.
template <class Quantizer>
concept rate_targeted = requires(const Quantizer quantizer, double lambda) {
  { static_cast<bool>(quantizer.target_bits) } -> std::same_as<bool>;
  { *quantizer.target_bits } -> std::convertible_to<double>;
  quantizer.at(lambda);
};

/// Quantises with `Quantizer` to codes of `Format` and codes these with `Coder`:
///
///   ecq::compressor<ecq::fp8_e4m3, ecq::rans, ecq::entquant> codec{{.target_bits = 3.0}};
///   auto packed = codec.compress(weights);
///
///   ecq::compressor<ecq::uint8, ecq::huffman, ecq::entrollm> codec;
///
/// Target bits count everything here: streams with tables, states, indexes and checksums, and scales. They are met
/// within rate_correction::tolerance, or are an error; fewer than 10,000 weights may differ by 200 bits in all, and
/// AbsMax stands where it takes less than the target. The matrices of a block share one lambda, one stream and one
/// frequency table.
///
/// Errors name the matrix: non_finite (with row and column), invalid_argument, unreachable_target, out_of_memory.
template <class Format = fp8_e4m3, class Coder = rans, class Quantizer = entquant>
struct compressor {
  static_assert(code_format<Format>,
                "compressor: Format is no number format of one byte a code (ecq/format/number_format.hpp)");
  static_assert(entropy_coder<Coder>, "compressor: Coder is no entropy coder (ecq/entropy/entropy_coder.hpp)");
  static_assert(ecq::quantizer<Quantizer, Format> || ecq::affine_quantizer<Quantizer, Format>,
                "compressor: Quantizer makes no codes of Format (ecq/quantize/quantizer.hpp)");

  Quantizer quantizer{};
  stream_options stream{};

  result<packed_block> compress(weights_view weights) const { return compress(cpu{}, weights); }

  result<packed_block> compress(const cpu& backend, weights_view weights) const {
    const named_weights matrix{{}, weights};
    return compress(backend, std::span(&matrix, 1));
  }

  result<packed_block> compress(const cpu& backend, std::span<const named_weights> matrices) const {
    try {
      if constexpr (rate_targeted<Quantizer>) {
        if (quantizer.target_bits) {
          ECQ_TRY(lambda, lambda_for_target(backend, matrices));
          rate_correction correction(*quantizer.target_bits);
          for (;;) {
            const double corrected = correction.at(lambda);
            ECQ_TRY(packed, pack(backend, matrices, quantizer.at(corrected)));
            if (packed.weights() == 0) return std::move(packed);
            if (correction.again(packed.bits_per_weight(), corrected == 0)) continue;
            ECQ_CHECK(correction.check(packed.weights()));
            return std::move(packed);
          }
        }
      }
      return pack(backend, matrices, quantizer);
    } catch (const std::bad_alloc&) {
      return error(errc::out_of_memory, "no memory for the codes of a block");
    }
  }

 private:
  result<double> lambda_for_target(const cpu& backend, std::span<const named_weights> matrices) const {
    ECQ_CHECK(quantizer.check());
    std::vector<rate_input> inputs;
    for (const named_weights& matrix : matrices) inputs.push_back({matrix.weights, 0});
    const auto overhead = [&](std::size_t, std::uint64_t symbols) {
      const unsigned bits = stream.chunk_bits != 0 ? stream.chunk_bits : default_chunk_bits(symbols);
      return 8.0 * static_cast<double>(stream_overhead_bytes(symbols, bits));
    };
    auto lambda = lambda_for_bits<Format>(backend, inputs, *quantizer.target_bits, overhead, {},
                                          [this](double chosen) { return quantizer.at(chosen); });
    if (lambda || lambda.error().code() != errc::non_finite) return lambda;
    // The search sees samples of rows: what is no number is looked for in the matrices themselves.
    for (std::size_t index = 0; index < matrices.size(); ++index) {
      if (auto finite = check_finite(backend, matrices[index].weights); !finite) {
        return std::move(finite).error().within(label(matrices, index));
      }
    }
    return lambda;
  }

  static std::string label(std::span<const named_weights> matrices, std::size_t index) {
    return matrices[index].name.empty() ? "matrix " + std::to_string(index) : "matrix '" + matrices[index].name + "'";
  }

  template <class Fixed>
  result<packed_block> pack(const cpu& backend, std::span<const named_weights> matrices, const Fixed& fixed) const {
    packed_block packed;
    std::vector<std::uint8_t> codes;
    for (const named_weights& matrix : matrices) {
      const weights_view& weights = matrix.weights;
      packed_matrix& next = packed.matrices.emplace_back();
      next.name = matrix.name;
      next.shape = {weights.rows(), weights.columns()};
      next.original = weights.type();
      next.template set_format<Format>();
      next.layout = fixed.layout(weights.rows(), weights.columns());
      next.first_symbol = codes.size();
      next.scales.resize(next.layout.count());
      codes.resize(codes.size() + weights.size());
      const std::span<std::uint8_t> part = std::span(codes).last(weights.size());
      auto quantized = [&] {
        if constexpr (affine_quantizer<Fixed, Format>) {
          return fixed.template quantize<Format>(backend, weights, part, next.scales, next.zero);
        } else {
          return fixed.template quantize<Format>(backend, weights, part, next.scales);
        }
      }();
      if (!quantized) return std::move(quantized).error().within(label(matrices, packed.matrices.size() - 1));
    }
    ECQ_TRY(bytes, encode_stream<Coder>(backend, codes, stream));
    packed.stream = std::move(bytes);
    return packed;
  }
};

}  // namespace ecq
