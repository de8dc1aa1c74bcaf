// How fast weights are compressed without loss and come back, on one core: bytes of weights a second, beside zstd -1
// and memcpy of the same weights in the same run. Environment: ECQ_BENCH_MIB, the size of the weights (64).

#include <benchmark/benchmark.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "ecq/lossless.hpp"

#if defined(ECQ_BENCH_ZSTD)
#include <zstd.h>
#endif

namespace {

std::size_t weight_bytes() {
  const char* const named = std::getenv("ECQ_BENCH_MIB");
  return std::size_t{named != nullptr ? std::strtoul(named, nullptr, 10) : 64} << 20;
}

/// Normal weights, of deviation 0.02 as trained layers have it; FP8 ones are scaled to deviation 1.
template <class Format>
const std::vector<Format>& weights() {
  static const std::vector<Format> made = [] {
    const float sigma = sizeof(Format) == 1 ? 1.0F : 0.02F;
    std::vector<Format> values;
    values.reserve(weight_bytes() / sizeof(Format));
    std::uint64_t state = 1;
    const auto uniform = [&state] {
      state = state * 6364136223846793005U + 1442695040888963407U;
      return (static_cast<double>(state >> 11) + 0.5) * 0x1p-53;
    };
    while (values.size() < weight_bytes() / sizeof(Format)) {
      const double radius = std::sqrt(-2 * std::log(uniform()));
      values.emplace_back(sigma * static_cast<float>(radius * std::cos(6.283185307179586 * uniform())));
    }
    return values;
  }();
  return made;
}

void set_figures(benchmark::State& state, std::size_t plain, std::size_t packed) {
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) * static_cast<std::int64_t>(plain));
  state.counters["share"] = static_cast<double>(packed) / static_cast<double>(plain);
}

template <class Format, class Coder>
void decode(benchmark::State& state, bool verify) {
  const auto& plain = weights<Format>();
  const auto packed = ecq::lossless<Format, Coder>{}.compress(ecq::cpu{}, plain);
  const auto stream = ecq::encoded_stream::parse(packed->stream);
  std::vector<Format> out(plain.size());
  const auto bytes = std::as_writable_bytes(std::span(out));
  for (auto _ : state) {
    const auto done = ecq::decode_elements(ecq::cpu{}, *stream, 0, bytes, {.verify_checksums = verify});
    if (!done) return state.SkipWithError(done.error().to_string().c_str());
    benchmark::ClobberMemory();
  }
  if (std::memcmp(out.data(), plain.data(), bytes.size()) != 0) state.SkipWithError("other weights");
  set_figures(state, bytes.size(), packed->stream.size());
}

template <class Format, class Coder>
void encode(benchmark::State& state) {
  const auto& plain = weights<Format>();
  std::size_t size = 0;
  for (auto _ : state) {
    const auto packed = ecq::lossless<Format, Coder>{}.compress(ecq::cpu{}, plain);
    size = packed->stream.size();
  }
  set_figures(state, plain.size() * sizeof(Format), size);
}

template <class Format>
void copy(benchmark::State& state) {
  const auto& plain = weights<Format>();
  std::vector<Format> out(plain.size());
  for (auto _ : state) {
    std::memcpy(out.data(), plain.data(), plain.size() * sizeof(Format));
    benchmark::ClobberMemory();
  }
  set_figures(state, plain.size() * sizeof(Format), plain.size() * sizeof(Format));
}

#if defined(ECQ_BENCH_ZSTD)
template <class Format>
void zstd(benchmark::State& state) {
  const auto& plain = weights<Format>();
  const std::size_t size = plain.size() * sizeof(Format);
  std::vector<char> packed(ZSTD_compressBound(size));
  packed.resize(ZSTD_compress(packed.data(), packed.size(), plain.data(), size, 1));
  std::vector<Format> out(plain.size());
  for (auto _ : state) {
    ZSTD_decompress(out.data(), size, packed.data(), packed.size());
    benchmark::ClobberMemory();
  }
  set_figures(state, size, packed.size());
}
#endif

template <class Format>
void add() {
  const std::string name(Format::name);
  const auto coders = [&]<class... Coder>(Coder...) {
    (benchmark::RegisterBenchmark((name + "/decode/" + std::string(Coder::name)).c_str(), decode<Format, Coder>, true),
     ...);
    (benchmark::RegisterBenchmark((name + "/decode_unchecked/" + std::string(Coder::name)).c_str(),
                                  decode<Format, Coder>, false),
     ...);
    (benchmark::RegisterBenchmark((name + "/encode/" + std::string(Coder::name)).c_str(), encode<Format, Coder>), ...);
  };
  coders(ecq::rans{}, ecq::tans{}, ecq::huffman{});
  benchmark::RegisterBenchmark((name + "/decode/memcpy").c_str(), copy<Format>);
#if defined(ECQ_BENCH_ZSTD)
  benchmark::RegisterBenchmark((name + "/decode/zstd_1").c_str(), zstd<Format>);
#endif
}

const bool added = [] {
  add<ecq::bf16>();
  add<ecq::fp8_e4m3>();
  add<ecq::fp32>();
  return true;
}();

}  // namespace
