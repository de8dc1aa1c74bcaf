// Benchmarks of encoding and decoding codes, in streams like those of compressed weights, beside libhtscodecs' rANS
// 32x16, zstd -1 and memcpy. rANS is also measured with narrow pairs, as in streams made for CPUs (rans_narrow), and
// with up to 64 pairs where those have at most 32 (rans_narrow_64).

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <span>
#include <string>
#include <vector>

#include "coding.hpp"
#include "ecq/entropy/rans/rans_direct.hpp"
#include "ecq/entropy/trellis.hpp"
#include "ecq/entropy/trellis_walk.hpp"

namespace {

using ecq_bench::bytes;
using ecq_bench::random_numbers;

/// Coder that codes every byte, no bit of it raw, by one direct table of 2^12 slots.
struct rans_direct : ecq::rans_direct {
  static ecq::coding_plan<table> plan(std::span<const ecq::histogram> classes, unsigned = 0) {
    return ecq::rans_direct::plan(classes, 0);
  }
};

double entropy(const std::vector<double>& probabilities) {
  double bits = 0;
  for (const double p : probabilities) bits -= p > 0 ? p * std::log2(p) : 0;
  return bits;
}

/// Returns the probabilities of -127..127 under a Laplace distribution of scale `scale`, rounded to integers.
std::vector<double> laplace(double scale) {
  std::vector<double> probabilities;
  for (int k = -127; k <= 127; ++k) {
    const double near = std::abs(k) - 0.5;
    probabilities.push_back(k == 0 ? 1 - std::exp(-0.5 / scale)
                                   : (std::exp(-near / scale) - std::exp(-(near + 1) / scale)) / 2);
  }
  return probabilities;
}

/// Returns codes drawn one by one.
template <class Draw>
bytes drawn(std::uint64_t seed, Draw&& draw) {
  random_numbers random(seed);
  bytes made(ecq_bench::plain_size());
  for (std::byte& code : made) code = static_cast<std::byte>(draw(random));
  return made;
}

bytes laplace_codes(double bits) {
  double low = 0.05;
  double high = 60;
  for (int i = 0; i < 60; ++i) {
    const double scale = (low + high) / 2;
    (entropy(laplace(scale)) < bits ? low : high) = scale;
  }
  return drawn(1000, [low](random_numbers& random) {
    const double u = random.uniform() - 0.5;
    const double value = std::copysign(low * std::log(1 - 2 * std::fabs(u)), -u);
    return std::clamp(static_cast<int>(std::nearbyint(value)), -127, 127) & 0xFF;
  });
}

/// Returns Int8 codes of Gaussian weights whose entropy is about `bits`.
bytes gaussian_codes(double bits) {
  const double sigma = std::exp2(bits) / std::sqrt(2 * std::numbers::pi * std::numbers::e);
  return drawn(2000, [sigma](random_numbers& random) {
    return std::clamp(static_cast<int>(std::nearbyint(sigma * random.normal())), -127, 127) & 0xFF;
  });
}

std::vector<ecq_bench::subject> streams() {
  std::vector<ecq_bench::subject> all;
  all.push_back({"fp8_exponents", {}, [] {
                   return drawn(13, [](auto& random) { return ecq::fp8_e4m3::encode(random.normal()) >> 3 & 0xF; });
                 }});
  all.push_back({"bf16_exponents", {}, [] {
                   return drawn(14, [](auto& random) { return ecq::bf16(0.02F * random.normal()).bits >> 7 & 0xFF; });
                 }});
  for (const char* const bits : {"6.5", "4.0", "3.0", "2.1", "1.4"}) {
    all.push_back({std::string("laplace_") + bits, {}, [bits] { return laplace_codes(std::stod(bits)); }});
  }
  for (const char* const bits : {"4.0", "3.0", "2.1"}) {
    all.push_back({std::string("gauss_") + bits, {}, [bits] { return gaussian_codes(std::stod(bits)); }});
  }
  all.push_back({"fp8", {}, [] {
                   return drawn(3,
                                [](auto& random) { return ecq::fp8_e4m3::encode(random.normal() * (448.0F / 5.7F)); });
                 }});
  return all;
}

/// Returns codes on a trellis whose indices are those of gauss_`bits`. Beside that stream, they show the cost of the
/// walk.
ecq_bench::subject trellis_stream(const std::string& bits) {
  return {"trellis_" + bits, {}, [bits] {
            bytes made = gaussian_codes(std::stod(bits));
            ecq::detail::codes_of_indices(ecq::trellis{}, {reinterpret_cast<std::uint8_t*>(made.data()), made.size()},
                                          ecq::machine_instruction_set());
            return made;
          }};
}

const bool added = [] {
  for (const ecq_bench::subject& stream : streams()) {
    ecq_bench::add_peer(stream, ecq_bench::copying());
    for (const auto& peer : ecq_bench::htscodecs()) ecq_bench::add_peer(stream, peer);
    for (const auto& peer : ecq_bench::zstd()) ecq_bench::add_peer(stream, peer);
    const auto add = [&]<class... Coder>(Coder...) { (ecq_bench::subject_coder<Coder>{stream}.add(), ...); };
    ecq_bench::subject_coder<ecq::rans>{stream, "rans_narrow", {.goal = ecq::stream_goal::cpu}}.add();
    add(ecq::rans{}, rans_direct{}, ecq::tans{}, ecq::huffman{}, ecq::huffman_gaps{}, ecq::raw{});
  }
  // Pairs whose rare ones are escaped, beside pairs without escapes.
  for (const auto& [bits, raw_bits] : {std::pair("2.7", 1U), {"1.6", 0U}}) {
    const ecq_bench::subject stream{
        std::string("gauss_") + bits, {}, [bits = bits] { return gaussian_codes(std::stod(bits)); }};
    ecq_bench::subject_coder<ecq::rans>{stream, "rans"}.add();
    ecq_bench::subject_coder<ecq::rans>{stream, "rans_narrow", {.goal = ecq::stream_goal::cpu}}.add();
    ecq_bench::subject_coder<ecq::rans>{stream, "rans_narrow_64", {.narrow_pairs = raw_bits}}.add();
  }
  for (const char* const bits : {"4.0", "3.0", "2.1"}) {
    const ecq_bench::subject stream = trellis_stream(bits);
    ecq_bench::subject_coder<ecq::rans>{stream, "rans", {.trellis = ecq::trellis{}}}.add();
    ecq_bench::subject_coder<ecq::rans>{
        stream, "rans_narrow", {.goal = ecq::stream_goal::cpu, .trellis = ecq::trellis{}}}
        .add();
  }
  return true;
}();

}  // namespace
