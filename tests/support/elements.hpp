#pragma once
// Elements of every format to encode, as bytes.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

#include "ecq/entropy/rans/rans.hpp"
#include "ecq/format/dtype.hpp"
#include "ecq/stream/encoded_stream.hpp"
#include "support/codes.hpp"

namespace ecq_test {

/// Formats of the elements of streams: bytes (nullopt) and the floating-point formats of weights.
inline constexpr std::optional<ecq::dtype> stream_formats[] = {
    std::nullopt, ecq::dtype::fp32, ecq::dtype::fp16, ecq::dtype::bf16, ecq::dtype::fp8_e4m3, ecq::dtype::fp8_e5m2};

inline std::size_t width_of(std::optional<ecq::dtype> format) { return format ? ecq::size_of(*format) : 1; }

inline std::vector<std::byte> bytes_of(const std::vector<std::uint8_t>& codes) {
  const auto* const from = reinterpret_cast<const std::byte*>(codes.data());
  return {from, from + codes.size()};
}

/// Returns bell-shaped elements: bytes, or with a `format` numbers whose exponents are like those of weights.
inline std::vector<std::byte> elements_of(std::optional<ecq::dtype> format, std::size_t count) {
  const auto codes = code_source(count + 1).bell(count, 9);
  if (!format) return bytes_of(codes);
  std::vector<std::byte> made(count * width_of(format));
  ecq::visit_format(*format, [&]<class Format>() {
    for (std::size_t i = 0; i < count; ++i) {
      const auto code = Format::encode((static_cast<float>(codes[i]) - 127.5F) * 0.01F);
      std::memcpy(made.data() + i * sizeof code, &code, sizeof code);
    }
  });
  return made;
}

/// Returns the stream that the CPU writes for elements of `format`; empty on failure.
template <ecq::entropy_coder Coder = ecq::rans>
std::vector<std::byte> encoded_elements(std::optional<ecq::dtype> format, const std::vector<std::byte>& elements,
                                        unsigned chunk_bits, ecq::stream_goal goal = ecq::stream_goal::size) {
  const ecq::stream_options options = {.chunk_bits = chunk_bits, .goal = goal};
  auto stream =
      format ? ecq::encode_exponents<Coder>(ecq::cpu{}, *format, elements, options)
             : ecq::encode_stream<Coder>(
                   ecq::cpu{}, {reinterpret_cast<const std::uint8_t*>(elements.data()), elements.size()}, options);
  return stream ? std::move(*stream) : std::vector<std::byte>();
}

}  // namespace ecq_test
