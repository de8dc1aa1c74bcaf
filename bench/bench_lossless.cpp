// Benchmarks of lossless compression and decompression of weights, beside zstd -1 and memcpy of the same weights.

#include <cstring>
#include <string>

#include "coding.hpp"

namespace {

/// Returns normal weights of standard deviation 0.02, as trained layers have it; FP8 weights are scaled to deviation 1.
template <class Format>
ecq_bench::subject weights() {
  using code = typename Format::code_type;
  return {std::string(Format::name), ecq::dtype_of<Format>, [] {
            ecq_bench::random_numbers random(1);
            ecq_bench::bytes made(ecq_bench::plain_size() / sizeof(code) * sizeof(code));
            for (std::size_t at = 0; at < made.size(); at += sizeof(code)) {
              const code bits = Format::encode((sizeof(code) == 1 ? 1.0F : 0.02F) * random.normal());
              std::memcpy(made.data() + at, &bits, sizeof bits);
            }
            return made;
          }};
}

const bool added = [] {
  for (const auto& of : {weights<ecq::bf16>(), weights<ecq::fp16>(), weights<ecq::fp8_e4m3>(), weights<ecq::fp8_e5m2>(),
                         weights<ecq::fp32>()}) {
    ecq_bench::add_peer(of, ecq_bench::copying());
    for (const auto& peer : ecq_bench::zstd()) ecq_bench::add_peer(of, peer);
    const auto add = [&]<class... Coder>(bool pairs, Coder...) {
      (ecq_bench::subject_coder<Coder>{of, std::string(Coder::name) + (pairs ? "_pairs" : ""), {.pairs = pairs}}.add(),
       ...);
    };
    add(false, ecq::rans{}, ecq::tans{}, ecq::huffman{}, ecq::huffman_gaps{});
    add(true, ecq::rans{}, ecq::tans{}, ecq::huffman{});
  }
  return true;
}();

}  // namespace
