// How fast codes are decoded and encoded, on one core: eight streams of codes as compressed weights have them, each
// coder by each instruction set of the machine, beside libhtscodecs' rANS 32x16, zstd -1 and memcpy in the same run.
// Environment: ECQ_BENCH_MIB, the size of each stream (64).

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "ecq/entropy/huffman.hpp"
#include "ecq/entropy/rans.hpp"
#include "ecq/entropy/tans.hpp"
#include "ecq/format/bf16.hpp"
#include "ecq/format/fp8_e4m3.hpp"
#include "ecq/stream/encoded_stream.hpp"

#if defined(ECQ_BENCH_HTSCODECS)
#include <htscodecs/rANS_static4x16.h>
#endif
#if defined(ECQ_BENCH_ZSTD)
#include <zstd.h>
#endif

namespace {

using codes = std::vector<std::uint8_t>;

/// splitmix64 and what is drawn from it.
class source {
 public:
  explicit source(std::uint64_t seed) : state_(seed) {}

  double uniform() {
    std::uint64_t z = state_ += 0x9E3779B97F4A7C15U;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
    return (static_cast<double>((z ^ (z >> 31)) >> 11) + 0.5) * 0x1p-53;
  }
  float normal() {
    const double radius = std::sqrt(-2 * std::log(uniform()));
    return static_cast<float>(radius * std::cos(6.283185307179586 * uniform()));
  }

 private:
  std::uint64_t state_;
};

std::size_t stream_size() {
  const char* const named = std::getenv("ECQ_BENCH_MIB");
  return std::size_t{named != nullptr ? std::strtoul(named, nullptr, 10) : 64} << 20;
}

double entropy(const std::vector<double>& probabilities) {
  double bits = 0;
  for (const double p : probabilities) bits -= p > 0 ? p * std::log2(p) : 0;
  return bits;
}

/// Probabilities of -127..127 under a Laplace distribution of scale `scale`, rounded to integers.
std::vector<double> laplace(double scale) {
  std::vector<double> probabilities;
  for (int k = -127; k <= 127; ++k) {
    const double near = std::abs(k) - 0.5;
    probabilities.push_back(k == 0 ? 1 - std::exp(-0.5 / scale)
                                   : (std::exp(-near / scale) - std::exp(-(near + 1) / scale)) / 2);
  }
  return probabilities;
}

codes laplace_codes(double bits, std::uint64_t seed) {
  double low = 0.05;
  double high = 60;
  for (int i = 0; i < 60; ++i) {
    const double scale = (low + high) / 2;
    (entropy(laplace(scale)) < bits ? low : high) = scale;
  }
  source random(seed);
  codes made(stream_size());
  for (std::uint8_t& code : made) {
    const double u = random.uniform() - 0.5;
    const double value = std::copysign(low * std::log(1 - 2 * std::fabs(u)), -u);
    code = static_cast<std::uint8_t>(std::clamp(static_cast<int>(std::nearbyint(value)), -127, 127) & 0xFF);
  }
  return made;
}

codes make(const std::string& name) {
  if (name.starts_with("laplace_")) return laplace_codes(std::stod(name.substr(8)), 1000);
  source random(name.size());
  codes made(stream_size());
  for (std::uint8_t& code : made) {
    if (name == "bf16_exponents") {
      code = static_cast<std::uint8_t>((ecq::bf16(0.02F * random.normal()).bits >> 7) & 0xFFU);
    } else if (name == "fp8_exponents") {
      code = static_cast<std::uint8_t>((ecq::fp8_e4m3::encode(random.normal()) >> 3) & 0xFU);
    } else {
      code = ecq::fp8_e4m3::encode(random.normal() * (448.0F / 5.7F));
    }
  }
  return made;
}

const codes& stream_of(const std::string& name) {
  static std::map<std::string, codes> all;
  const auto [at, added] = all.try_emplace(name);
  if (added) at->second = make(name);
  return at->second;
}

void report(benchmark::State& state, std::size_t size, std::size_t coded) {
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(size));
  state.counters["bits"] = 8 * static_cast<double>(coded) / static_cast<double>(size);
}

template <class Coder>
void encode(benchmark::State& state, const std::string& name, ecq::instruction_set isa) {
  const codes& in = stream_of(name);
  std::size_t coded = 0;
  for (auto _ : state) {
    const auto stream = ecq::encode_stream<Coder>(ecq::cpu{.threads = 1, .isa = isa}, in);
    if (!stream) return state.SkipWithError("encoding failed");
    coded = stream->size();
  }
  report(state, in.size(), coded);
}

template <class Coder>
void decode(benchmark::State& state, const std::string& name, ecq::instruction_set isa, bool checksums) {
  const codes& in = stream_of(name);
  const auto coded = ecq::encode_stream<Coder>(ecq::cpu{}, in);
  if (!coded) return state.SkipWithError("encoding failed");
  const auto stream = ecq::encoded_stream::parse(*coded);
  if (!stream) return state.SkipWithError("parsing failed");
  codes out(in.size());
  for (auto _ : state) {
    if (!ecq::decode_stream(ecq::cpu{.threads = 1, .isa = isa}, *stream, 0, out, {.verify_checksums = checksums})) {
      return state.SkipWithError("decoding failed");
    }
  }
  if (out != in) return state.SkipWithError("other codes");
  report(state, in.size(), coded->size());
}

/// All codes by one direct table of 2^12 slots, without raw bits; chunks of 2^16.
void decode_direct(benchmark::State& state, const std::string& name, ecq::instruction_set isa) {
  const codes& in = stream_of(name);
  constexpr std::size_t chunk = std::size_t{1} << 16;
  ecq::histogram counted;
  counted.add(in);
  const ecq::rans_table table{
      .mapping = ecq::slot_mapping::direct, .bucket_bits = 0, .frequencies = ecq::normalize_frequencies(counted, 12)};
  const ecq::rans::encoder encoder(table, {0});
  const ecq::rans::decoder decoder(table, {0});
  const std::size_t count = in.size() / chunk;
  std::vector<std::byte> states(count * ecq::rans::state_bytes + ecq::stream_tail_bytes);
  std::vector<std::byte> words(2 * in.size() + ecq::stream_tail_bytes);
  std::vector<std::uint16_t> buffer(chunk);
  std::vector<ecq::chunk_bytes> chunks;
  std::vector<std::uint8_t*> targets;
  codes out(in.size());
  std::size_t at = 0;
  for (std::size_t i = 0; i < count; ++i) {
    std::byte* const own = states.data() + i * ecq::rans::state_bytes;
    const std::size_t written = encoder.encode({in.data() + i * chunk, chunk}, own, buffer);
    chunks.push_back({own, words.data() + at, static_cast<std::uint32_t>(written), chunk});
    targets.push_back(out.data() + i * chunk);
    for (std::size_t w = chunk - written; w < chunk; ++w, at += 2) ecq::store_le(words.data() + at, buffer[w]);
  }
  std::vector<ecq::errc> verdicts(count);
  for (auto _ : state) decoder.decode_many(chunks, targets.data(), verdicts, isa);
  if (out != in) return state.SkipWithError("other codes");
  report(state, in.size(), at + states.size());
}

void copy(benchmark::State& state, const std::string& name) {
  const codes& in = stream_of(name);
  codes out(in.size());
  for (auto _ : state) {
    std::memcpy(out.data(), in.data(), in.size());
    benchmark::ClobberMemory();
  }
  report(state, in.size(), in.size());
}

#if defined(ECQ_BENCH_HTSCODECS)
void htscodecs(benchmark::State& state, const std::string& name, int kernels, bool encoding) {
  rans_set_cpu(kernels);
  const codes& in = stream_of(name);
  const auto size = static_cast<unsigned>(in.size());
  codes coded(rans_compress_bound_4x16(size, RANS_ORDER_X32));
  codes out(in.size());
  auto coded_size = static_cast<unsigned>(coded.size());
  // Its functions take what they only read as if they wrote it.
  const auto pack = [&] {
    coded_size = static_cast<unsigned>(coded.size());
    return rans_compress_to_4x16(const_cast<std::uint8_t*>(in.data()), size, coded.data(), &coded_size, RANS_ORDER_X32);
  };
  if (pack() == nullptr) return state.SkipWithError("encoding failed");
  for (auto _ : state) {
    unsigned out_size = size;
    if (encoding) {
      benchmark::DoNotOptimize(pack());
    } else {
      benchmark::DoNotOptimize(rans_uncompress_to_4x16(coded.data(), coded_size, out.data(), &out_size));
    }
  }
  if (!encoding && out != in) return state.SkipWithError("other codes");
  report(state, in.size(), coded_size);
}
#endif

#if defined(ECQ_BENCH_ZSTD)
void zstd(benchmark::State& state, const std::string& name, bool encoding) {
  const codes& in = stream_of(name);
  codes coded(ZSTD_compressBound(in.size()));
  codes out(in.size());
  std::size_t size = ZSTD_compress(coded.data(), coded.size(), in.data(), in.size(), 1);
  for (auto _ : state) {
    if (encoding) {
      size = ZSTD_compress(coded.data(), coded.size(), in.data(), in.size(), 1);
    } else {
      benchmark::DoNotOptimize(ZSTD_decompress(out.data(), out.size(), coded.data(), size));
    }
  }
  if (!encoding && out != in) return state.SkipWithError("other codes");
  report(state, in.size(), size);
}
#endif

/// Names are verb/stream/coder/instruction set.
template <class... Arguments>
void add(const std::string& name, Arguments&&... arguments) {
  benchmark::RegisterBenchmark(name.c_str(), arguments...)->Unit(benchmark::kMillisecond)->MinTime(0.2);
}

template <class Coder>
void add_coder(const std::string& stream, ecq::instruction_set isa) {
  const std::string tail = stream + "/" + std::string(Coder::name) + "/" + std::string(ecq::name_of(isa));
  add("decode/" + tail, decode<Coder>, stream, isa, false);
  add("decode_checked/" + tail, decode<Coder>, stream, isa, true);
  add("encode/" + tail, encode<Coder>, stream, isa);
}

const bool added = [] {
  for (const std::string stream : {"fp8_exponents", "bf16_exponents", "laplace_6.5", "laplace_4.0", "laplace_3.0",
                                   "laplace_2.1", "laplace_1.4", "fp8"}) {
    add("decode/" + stream + "/memcpy", copy, stream);
#if defined(ECQ_BENCH_HTSCODECS)
    for (const bool encoding : {false, true}) {
      const std::string verb = encoding ? "encode/" : "decode/";
      add(verb + stream + "/htscodecs/avx2", htscodecs, stream, RANS_CPU_ENC_AVX2 | RANS_CPU_DEC_AVX2, encoding);
      add(verb + stream + "/htscodecs/avx512", htscodecs, stream, RANS_CPU_ENC_AVX512 | RANS_CPU_DEC_AVX512, encoding);
    }
#endif
#if defined(ECQ_BENCH_ZSTD)
    add("decode/" + stream + "/zstd_1", zstd, stream, false);
    add("encode/" + stream + "/zstd_1", zstd, stream, true);
#endif
    for (const auto isa : {ecq::instruction_set::scalar, ecq::instruction_set::avx2, ecq::instruction_set::avx512}) {
      if (isa > ecq::machine_instruction_set()) continue;
      add_coder<ecq::rans>(stream, isa);
      add_coder<ecq::tans>(stream, isa);
      add_coder<ecq::huffman>(stream, isa);
      add("decode/" + stream + "/rans_direct/" + std::string(ecq::name_of(isa)), decode_direct, stream, isa);
    }
  }
  return true;
}();

}  // namespace
