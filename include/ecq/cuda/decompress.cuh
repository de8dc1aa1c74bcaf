#pragma once
/// \file
/// Decoding of packed blocks into weights on a device: one launch writes all matrices of a block to memory that the
/// caller owns.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>

#include "ecq/base/result.hpp"
#include "ecq/cuda/backend.cuh"
#include "ecq/cuda/decode.cuh"
#include "ecq/cuda/decode_kernel.cuh"
#include "ecq/cuda/device_block.cuh"
#include "ecq/cuda/exact_kernel.cuh"
#include "ecq/cuda/verdict.cuh"
#include "ecq/decompress.hpp"
#include "ecq/quantize/dequantize_warp.hpp"
#include "ecq/stream/pair_warp.hpp"

namespace ecq {

/// Element types to which devices decode the weights of a block. FP8 types are only for lossless blocks.
template <class Element>
concept device_output =
    weight_output<Element> || std::is_same_v<Element, fp8_e4m3> || std::is_same_v<Element, fp8_e5m2>;

namespace detail {

/// A chunk_user that writes the weights of a block to the places of its matrices; `Pairs` is true for a stream in
/// pairs.
template <weight_output Output, bool Pairs>
struct weights_to {
  static constexpr bool pairs = Pairs;
  static constexpr std::size_t shared_bytes = 256 * sizeof(float);
  static constexpr unsigned blocks(std::optional<warp_coding> coding) {
    if (!coding) return Pairs ? 1 : 2;
#if defined(__CUDA_ARCH__) && (__CUDA_ARCH__ < 900 || __CUDA_ARCH__ >= 1200)
    return Pairs ? 2 : 4;  // with more blocks, the compiler would spill
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000
    return Pairs ? 2 : 5;
#else
    return !Pairs ? 6 : sizeof(Output) < 4 ? 4 : 2;
#endif
  }

  warp_weights weights;

  __device__ void load(std::byte* shared) {
    copy_to_shared(reinterpret_cast<std::uint32_t*>(shared), reinterpret_cast<const std::uint32_t*>(weights.values),
                   256);
    weights.values = reinterpret_cast<const float*>(shared);
  }

  template <class Decode>
  ECQ_DEVICE_INLINE __device__ errc operator()(const stream_chunk& chunk, Decode&& decode) const {
    warp_weight_sink<device_warp, Output> sink(weights, chunk.begin, chunk.raw, Pairs ? 0 : chunk.raw_bits, chunk.walk);
    errc outcome = errc::ok;
    if constexpr (Pairs) {
      warp_pair_codes<device_warp, decltype(sink)> codes(chunk.pairs, chunk.raw, sink);
      outcome = decode(codes);
      if (codes.verdict() != errc::ok) outcome = errc::corrupt;
    } else {
      outcome = decode(sink);
    }
    return sink.met_non_finite() ? errc::corrupt : outcome;
  }
};

}  // namespace detail

/// Decodes all weights of a block, or the rows of a matrix described by block_image::upload_rows, into `out` on
/// gpu.stream. `out` is device memory of at least block.bytes<Output>() bytes, aligned to 16 bytes; memory between
/// matrices and between rows is left untouched. Only chunks that hold these weights are decoded. `verdict` reports
/// errors in their bytes, including a code that is not a finite number. Errors: invalid_argument, device_error;
/// unsupported if the weights of a lossless block have another format than `Output`, and for quantised weights as FP8.
/// Coders may be named as for decode_elements().
template <device_output Output, coder_names Coders = every_coder>
result<void> decompress(const cuda& gpu, const device_block& block, std::span<std::byte> out,
                        const device_verdict& verdict, Coders = {}) {
  if (out.size() < block.template bytes<Output>()) {
    return error(errc::invalid_argument, "output has room for ", out.size(), " bytes, but weights take ",
                 block.template bytes<Output>());
  }
  if (block.elements == 0) return {};  // here `out` may be null
  ECQ_CHECK(detail::check_aligned(out.data(), 16, "the output"));
  if (block.lossless) {
    if (block.stream.format != dtype_of<Output>) {
      return error(errc::unsupported, "lossless weights decode only to their own format");
    }
    const std::uint64_t first = block.first * sizeof(Output);
    const std::uint64_t size = (block.end - block.begin) * sizeof(Output);
    using split = exponent_split<std::conditional_t<std::is_same_v<Output, float>, fp32, Output>>;
    return detail::decode_elements_of<split, Coders>(gpu, block.stream, block.begin, out.subspan(first, size), verdict);
  }
  if constexpr (weight_output<Output>) {
    const warp_weights weights = {block.matrices, block.count, block.values, block.scales, out.data(), block.finite};
    const chunk_range chunks = detail::chunks_of(block.stream.view, block.begin, block.end);
    if (block.stream.view.pairs != 0) {
      ECQ_CHECK(
          detail::launch_decode<Coders>(gpu, block.stream, chunks, detail::weights_to<Output, true>{weights}, verdict));
    } else {
      ECQ_CHECK(detail::launch_decode<Coders>(gpu, block.stream, chunks, detail::weights_to<Output, false>{weights},
                                              verdict));
    }
    return detail::launch_exact(gpu, block.exact, block.exact_count, block.exact_origin,
                                reinterpret_cast<Output*>(out.data()));
  } else {
    return error(errc::unsupported, "quantised weights do not decode to FP8");
  }
}

}  // namespace ecq

/// \def ECQ_INSTANCE_OF_DEVICE_DECOMPRESSION
/// The instances of decompress in ecq::compiled_cuda: to these types, for blocks of every coder.
#define ECQ_INSTANCE_OF_DEVICE_DECOMPRESSION(TEMPLATE, OUTPUT)                                                         \
  TEMPLATE ecq::result<void> ecq::decompress<OUTPUT>(const ecq::cuda&, const ecq::device_block&, std::span<std::byte>, \
                                                     const ecq::device_verdict&, ecq::every_coder)

#if defined(ECQ_COMPILED_CUDA)
ECQ_INSTANCE_OF_DEVICE_DECOMPRESSION(extern template, ecq::bf16);
ECQ_INSTANCE_OF_DEVICE_DECOMPRESSION(extern template, ecq::fp16);
ECQ_INSTANCE_OF_DEVICE_DECOMPRESSION(extern template, float);
ECQ_INSTANCE_OF_DEVICE_DECOMPRESSION(extern template, ecq::fp8_e4m3);
ECQ_INSTANCE_OF_DEVICE_DECOMPRESSION(extern template, ecq::fp8_e5m2);
#endif
