#pragma once
/// \file
/// Benchmarks that encode and decode codes or weights by each coder on each path, with peers in the same run. They are
/// called <verb>/<what is coded>/<coder>/<instruction set>[/<threads>], and for peers <verb>/<what is coded>/<peer>.
/// `bits` is the size of a code or weight in bits, everything counted. Environment: ECQ_BENCH_MIB, the size of the data
/// to encode (64).

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "context.hpp"
#include "ecq/format/dtype.hpp"
#include "ecq/stream/chunk_decoder.hpp"
#include "ecq/stream/encoded_stream.hpp"
#include "random_numbers.hpp"

#if defined(ECQ_BENCH_HTSCODECS)
#include <htscodecs/rANS_static4x16.h>
#endif
#if defined(ECQ_BENCH_ZSTD)
#include <zstd.h>
#endif

namespace ecq_bench {

using bytes = std::vector<std::byte>;

/// Returns the number of bytes to encode.
inline std::size_t plain_size() {
  const char* const named = std::getenv("ECQ_BENCH_MIB");
  return std::size_t{named != nullptr ? std::strtoul(named, nullptr, 10) : 64} << 20;
}

inline const bool size_told = [] {
  benchmark::AddCustomContext("mib", std::to_string(plain_size() >> 20));
  return true;
}();

/// Returns the result of the first call of `make` under this name, so that repetitions do not wait for it. Returns a
/// pointer, since GCC 14 would take a reference for one into the arguments.
template <class Make>
const bytes* made_once(const std::string& name, Make&& make) {
  static std::map<std::string, bytes> all;
  const auto [at, added] = all.try_emplace(name);
  if (added) at->second = make();
  return &at->second;
}

/// Data to encode: codes of one byte, or weights of a format.
struct subject {
  std::string name;
  std::optional<ecq::dtype> format;
  std::function<bytes()> make;

  const bytes& plain() const { return *made_once(name, make); }
  std::size_t width() const { return format ? ecq::size_of(*format) : 1; }
};

inline void set_figures(benchmark::State& state, const subject& of, std::size_t coded) {
  const std::size_t plain = of.plain().size();
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(plain));
  state.counters["bits"] =
      8 * static_cast<double>(coded) / static_cast<double>(plain) * static_cast<double>(of.width());
}

/// Returns the memory to which everything is decoded: a benchmark that touched fresh pages would measure the system.
/// The memory begins at a cache line, as tensors of inference engines do.
inline std::span<std::byte> room_for(const bytes& plain) {
  constexpr std::size_t line = 64;
  static bytes room;
  room.assign(plain.size() + line, std::byte{0});
  const std::size_t beyond = reinterpret_cast<std::uintptr_t>(room.data()) % line;
  return std::span(room).subspan(line - beyond, plain.size());
}

/// A coder with its options, and the data that it encodes.
template <class Coder>
struct subject_coder {
  subject of;
  std::string name = std::string(Coder::name);
  ecq::stream_options options{};

  ecq::result<bytes> encode(const ecq::cpu& backend) const {
    const bytes& plain = of.plain();
    if (of.format) return ecq::encode_exponents<Coder>(backend, *of.format, plain, options);
    const auto* const codes = reinterpret_cast<const std::uint8_t*>(plain.data());
    return ecq::encode_stream<Coder>(backend, {codes, plain.size()}, options);
  }

  void measure_encoding(benchmark::State& state, const ecq::cpu& backend) const {
    of.plain();
    std::size_t size = 0;
    for (auto _ : state) {
      const auto coded = encode(backend);
      if (!coded) return state.SkipWithError("encoding failed");
      size = coded->size();
    }
    set_figures(state, of, size);
  }

  void measure_decoding(benchmark::State& state, const ecq::cpu& backend, bool checksums) const {
    const bytes& coded = *made_once(of.name + "/" + name, [&] { return *encode(backend); });
    const auto stream = ecq::encoded_stream::parse(coded);
    if (!stream || stream->coder() != Coder::id) return state.SkipWithError("does not compress");
    const std::span<std::byte> out = room_for(of.plain());
    for (auto _ : state) {
      const auto done = ecq::decode_elements(backend, *stream, 0, out, {.verify_checksums = checksums});
      if (!done) return state.SkipWithError("decoding failed");
      benchmark::ClobberMemory();
    }
    if (!std::ranges::equal(out, of.plain())) return state.SkipWithError("decoded to something else");
    set_figures(state, of, coded.size());
  }

  /// Registers benchmarks for every instruction set for which the coder has kernels. The best instruction set is also
  /// measured with two threads and with checksums.
  void add() const {
    const auto best = ecq::machine_instruction_set();
    for (const ecq::instruction_set set : ecq::instruction_sets) {
      if (!ecq::machine_has(set)) continue;
      const std::string tail = "/" + of.name + "/" + name + "/" + std::string(ecq::name_of(set));
      const auto add_one = [&](const std::string& full_name, auto measure, unsigned threads, auto... more) {
        auto* const added = benchmark::RegisterBenchmark(
            full_name.c_str(), [self = *this, measure, backend = ecq::cpu{.threads = threads, .isa = set},
                                more...](benchmark::State& state) { (self.*measure)(state, backend, more...); });
        added->Unit(benchmark::kMillisecond);
        if (threads > 1) added->UseRealTime();
      };
      if (set == best || ecq::detail::decodes_many<typename Coder::decoder>) {
        add_one("decode" + tail, &subject_coder::measure_decoding, 1, false);
      }
      if (set == best || ecq::detail::encodes_many<typename Coder::encoder>) {
        add_one("encode" + tail, &subject_coder::measure_encoding, 1);
      }
      if (set != best) continue;
      add_one("decode" + tail + "/2", &subject_coder::measure_decoding, 2, false);
      add_one("encode" + tail + "/2", &subject_coder::measure_encoding, 2);
      add_one("decode_checked" + tail, &subject_coder::measure_decoding, 1, true);
    }
  }
};

/// Peer that packs and unpacks bytes on one thread.
struct peer {
  std::string name;
  /// Packs `plain` into `packed`, which has room for bound(plain.size()) bytes, and returns the packed size.
  std::function<std::size_t(const bytes& plain, bytes& packed)> pack;
  std::function<void(const bytes& packed, std::size_t size, std::span<std::byte> plain)> unpack;
  std::function<std::size_t(std::size_t)> bound = [](std::size_t size) { return size; };
};

inline peer copying() {
  return {"memcpy",
          [](const bytes& plain, bytes& packed) {
            std::memcpy(packed.data(), plain.data(), plain.size());
            return plain.size();
          },
          [](const bytes& packed, std::size_t size, std::span<std::byte> plain) {
            std::memcpy(plain.data(), packed.data(), size);
          }};
}

/// Returns zstd -1, if it was present when this was built.
inline std::vector<peer> zstd() {
#if defined(ECQ_BENCH_ZSTD)
  return {{"zstd_1",
           [](const bytes& plain, bytes& packed) {
             return ZSTD_compress(packed.data(), packed.size(), plain.data(), plain.size(), 1);
           },
           [](const bytes& packed, std::size_t size, std::span<std::byte> plain) {
             ZSTD_decompress(plain.data(), plain.size(), packed.data(), size);
           },
           [](std::size_t size) { return ZSTD_compressBound(size); }}};
#else
  return {};
#endif
}

/// Returns libhtscodecs' rANS 32x16, order 0, for each instruction set that it and the machine have, if it was present
/// when this was built.
inline std::vector<peer> htscodecs() {
  std::vector<peer> all;
#if defined(ECQ_BENCH_HTSCODECS)
  const auto by = [&](const char* kernels, int choice) {
    const auto number = [](std::size_t size) { return static_cast<unsigned>(size); };
    // Its functions take input that they only read by pointers to non-const.
    const auto of = [](std::span<const std::byte> data) {
      return const_cast<unsigned char*>(reinterpret_cast<const unsigned char*>(data.data()));
    };
    all.push_back(
        {std::string("htscodecs/") + kernels,
         [=](const bytes& plain, bytes& packed) {
           rans_set_cpu(choice);
           unsigned size = number(packed.size());
           rans_compress_to_4x16(of(plain), number(plain.size()), of(packed), &size, RANS_ORDER_X32);
           return std::size_t{size};
         },
         [=](const bytes& packed, std::size_t size, std::span<std::byte> plain) {
           rans_set_cpu(choice);
           unsigned room = number(plain.size());
           rans_uncompress_to_4x16(of(packed), number(size), of(plain), &room);
         },
         [=](std::size_t size) { return std::size_t{rans_compress_bound_4x16(number(size), RANS_ORDER_X32)}; }});
  };
  const auto best = ecq::machine_instruction_set();
  if (best == ecq::instruction_set::scalar) by("scalar", 0x7FFFFFFF);  // whatever it chooses
  if (best >= ecq::instruction_set::avx2) by("avx2", RANS_CPU_ENC_AVX2 | RANS_CPU_DEC_AVX2);
  if (best >= ecq::instruction_set::avx512) by("avx512", RANS_CPU_ENC_AVX512 | RANS_CPU_DEC_AVX512);
#endif
  return all;
}

inline void add_peer(const subject& of, const peer& by) {
  const auto packed = [=](std::size_t& size) -> const bytes& {
    static std::map<std::string, std::size_t> sizes;
    const std::string name = of.name + "/" + by.name;
    const bytes& made = *made_once(name, [&] {
      bytes room(by.bound(of.plain().size()));
      sizes[name] = by.pack(of.plain(), room);
      return room;
    });
    size = sizes[name];
    return made;
  };
  const std::string tail = "/" + of.name + "/" + by.name;
  const auto decode = [=](benchmark::State& state) {
    std::size_t size = 0;
    const bytes& coded = packed(size);
    const std::span<std::byte> out = room_for(of.plain());
    for (auto _ : state) {
      by.unpack(coded, size, out);
      benchmark::ClobberMemory();
    }
    if (!std::ranges::equal(out, of.plain())) return state.SkipWithError("decoded to something else");
    set_figures(state, of, size);
  };
  const auto encode = [=](benchmark::State& state) {
    bytes room(by.bound(of.plain().size()));
    std::size_t size = 0;
    for (auto _ : state) {
      size = by.pack(of.plain(), room);
      benchmark::ClobberMemory();
    }
    set_figures(state, of, size);
  };
  benchmark::RegisterBenchmark(("decode" + tail).c_str(), decode)->Unit(benchmark::kMillisecond);
  benchmark::RegisterBenchmark(("encode" + tail).c_str(), encode)->Unit(benchmark::kMillisecond);
}

}  // namespace ecq_bench
