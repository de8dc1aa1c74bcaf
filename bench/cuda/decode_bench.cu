// How fast a device decodes streams that the host encoded, beside a copy of the same output on the device in the same
// run. Prints a table, or with --json what a program reads. Options: --mib N[,N...], output sizes in MiB (8,64,512);
// --commit TEXT and --date TEXT go into the JSON as they are.

#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ecq/cuda/decode.cuh"
#include "ecq/entropy/rans_direct.hpp"
#include "ecq/stream/encoded_stream.hpp"

namespace {

using bytes = std::vector<std::byte>;
using ecq::dtype;

[[noreturn]] void fail(const std::string& why) {
  std::fprintf(stderr, "bench_cuda: %s\n", why.c_str());
  std::exit(1);
}

void check(cudaError_t status, const char* doing) {
  if (status != cudaSuccess) fail(std::string(doing) + ": " + cudaGetErrorString(status));
}

template <class Value>
Value must(ecq::result<Value> got) {
  if (!got) fail(got.error().to_string());
  if constexpr (!std::is_void_v<Value>) return std::move(*got);
}

struct device_memory {
  explicit device_memory(std::size_t size) { check(cudaMalloc(&memory, size), "allocating device memory"); }
  device_memory(const device_memory&) = delete;
  device_memory& operator=(const device_memory&) = delete;
  ~device_memory() { cudaFree(memory); }
  std::byte* data() const { return static_cast<std::byte*>(memory); }

  void* memory = nullptr;
};

/// What weights look like: N(0, 1) numbers of a format, or Laplace codes of a given entropy.
struct workload {
  const char* name;
  std::optional<dtype> format;
  double scale;  ///< of codes: of the Laplace distribution that is rounded to them
};

constexpr workload workloads[] = {{"fp8 weights", dtype::fp8_e4m3, 1}, {"bf16 weights", dtype::bf16, 1},
                                  {"codes, 2.1 bits", {}, 0.79},       {"codes, 3 bits", {}, 1.49},
                                  {"codes, 4 bits", {}, 2.98},         {"codes, 6.5 bits", {}, 16.8}};

/// 16 Mi elements and then the same again: no coder here looks further back than a chunk.
bytes elements_of(const workload& work, std::size_t size) {
  std::uint64_t state = 1;
  const auto uniform = [&state] {
    state = state * 6364136223846793005U + 1442695040888963407U;
    return (static_cast<double>(state >> 11) + 0.5) * 0x1p-53;
  };
  const std::size_t width = work.format ? ecq::size_of(*work.format) : 1;
  bytes made((std::min)(size, (std::size_t{16} << 20) * width));
  for (std::size_t at = 0; at < made.size(); at += width) {
    if (!work.format) {
      const double u = uniform() - 0.5;
      const double value = std::copysign(work.scale * std::log(1 - 2 * std::fabs(u)), -u);
      made[at] = static_cast<std::byte>(std::clamp(static_cast<int>(std::nearbyint(value)), -127, 127) & 0xFF);
      continue;
    }
    const double radius = std::sqrt(-2 * std::log(uniform()));
    const auto normal = static_cast<float>(radius * std::cos(6.283185307179586 * uniform()));
    ecq::visit_format(*work.format, [&]<class Format>() {
      const auto code = Format::encode(normal);
      std::memcpy(made.data() + at, &code, sizeof code);
    });
  }
  const std::size_t period = made.size();
  made.resize(size);
  for (std::size_t at = period; at < size; at += period) {
    std::copy_n(made.data(), (std::min)(period, size - at), made.data() + at);
  }
  return made;
}

/// Seconds that one call of `launch(i)` takes, the median of nine measurements after one that does not count.
template <class Launch>
double seconds(Launch&& launch, int calls) {
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  check(cudaEventCreate(&begin), "creating an event");
  check(cudaEventCreate(&end), "creating an event");
  std::vector<double> all;
  for (int turn = 0; turn < 10; ++turn) {
    check(cudaEventRecord(begin), "recording an event");
    for (int i = 0; i < calls; ++i) launch(i);
    check(cudaEventRecord(end), "recording an event");
    check(cudaEventSynchronize(end), "waiting for the device");
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, begin, end), "reading a clock");
    if (turn > 0) all.push_back(milliseconds * 1e-3 / calls);
  }
  check(cudaEventDestroy(begin), "destroying an event");
  check(cudaEventDestroy(end), "destroying an event");
  std::nth_element(all.begin(), all.begin() + 4, all.end());
  return all[4];
}

struct figure {
  std::string workload;
  std::string coder;
  std::size_t mib;
  double bits;  ///< an element
  double gb_per_s;
  double of_copy;  ///< time of a copy of the output on the device / time of decoding
};

template <class Coder>
figure measure(const workload& work, const bytes& elements) {
  const ecq::cpu host{.threads = 0};
  const bytes blob =
      must(work.format ? ecq::encode_exponents<Coder>(host, *work.format, elements)
                       : ecq::encode_stream<Coder>(
                             host, {reinterpret_cast<const std::uint8_t*>(elements.data()), elements.size()}));
  const auto stream = must(ecq::encoded_stream::parse(blob));
  const auto image = must(ecq::device_image::of(stream));
  // Small outputs rotate, so that neither they nor what they are decoded from stay in the cache.
  const std::size_t copies = std::clamp<std::size_t>((std::size_t{256} << 20) / elements.size(), 2, 16);
  const ecq::cuda gpu;
  const device_memory flag(8);
  const ecq::device_verdict verdict(flag.memory);
  must(verdict.clear(gpu));
  std::vector<std::unique_ptr<device_memory>> inputs;
  std::vector<std::unique_ptr<device_memory>> outputs;
  std::vector<ecq::device_stream> streams;
  for (std::size_t i = 0; i < copies; ++i) {
    inputs.push_back(std::make_unique<device_memory>(image.bytes()));
    outputs.push_back(std::make_unique<device_memory>(elements.size()));
    streams.push_back(must(image.upload(gpu, inputs.back()->memory)));
  }
  const auto at = [&](int i) { return static_cast<std::size_t>(i) % copies; };
  const int calls = static_cast<int>(copies);
  const double decoding = seconds(
      [&](int i) {
        must(ecq::decode_elements(gpu, streams[at(i)], 0, {outputs[at(i)]->data(), elements.size()}, verdict));
      },
      calls);
  must(verdict.wait(gpu));
  bytes got(elements.size());
  for (const auto& output : outputs) {
    check(cudaMemcpy(got.data(), output->memory, got.size(), cudaMemcpyDeviceToHost), "reading the output");
    if (got != elements) fail(std::string(work.name) + " by " + std::string(Coder::name) + ": other elements");
  }
  const double copying = seconds(
      [&](int i) {
        check(cudaMemcpyAsync(outputs[at(i)]->memory, outputs[at(i + 1)]->memory, elements.size(),
                              cudaMemcpyDeviceToDevice),
              "copying on the device");
      },
      calls);
  return {work.name,
          std::string(Coder::name),
          elements.size() >> 20,
          8 * static_cast<double>(blob.size()) / static_cast<double>(stream.size()),
          static_cast<double>(elements.size()) * 1e-9 / decoding,
          copying / decoding};
}

}  // namespace

int main(int count, char** arguments) {
  bool json = false;
  std::string sizes = "8,64,512";
  std::string commit = "unknown";
  std::string date = "unknown";
  for (int i = 1; i < count; ++i) {
    const std::string_view option = arguments[i];
    if (option == "--json") {
      json = true;
    } else if (i + 1 < count && option == "--mib") {
      sizes = arguments[++i];
    } else if (i + 1 < count && option == "--commit") {
      commit = arguments[++i];
    } else if (i + 1 < count && option == "--date") {
      date = arguments[++i];
    } else {
      std::fprintf(option == "--help" ? stdout : stderr,
                   "usage: bench_cuda [--mib N[,N...]] [--json] [--commit TEXT] [--date TEXT]\n");
      return option == "--help" ? 0 : 2;
    }
  }
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) fail("no CUDA device");
  cudaDeviceProp device{};
  check(cudaGetDeviceProperties(&device, 0), "asking for the device");

  std::vector<figure> figures;
  if (!json) {
    std::printf("%s\n%-16s %-12s %6s %7s %9s %8s\n", device.name, "workload", "coder", "MiB", "bits", "GB/s",
                "of copy");
  }
  for (const char* at = sizes.c_str(); *at != '\0';) {
    char* end = nullptr;
    const std::size_t mib = std::strtoul(at, &end, 10);
    if (end == at || mib == 0 || mib > 65536) fail("sizes in MiB are numbers up to 65536, separated by commas");
    at = *end == ',' ? end + 1 : end;
    for (const workload& work : workloads) {
      const bytes elements = elements_of(work, mib << 20);
      const auto add = [&]<class Coder>(Coder) {
        figures.push_back(measure<Coder>(work, elements));
        const figure& last = figures.back();
        if (json) return;
        std::printf("%-16s %-12s %6zu %7.3f %9.1f %8.3f\n", last.workload.c_str(), last.coder.c_str(), last.mib,
                    last.bits, last.gb_per_s, last.of_copy);
        std::fflush(stdout);
      };
      add(ecq::rans{});
      add(ecq::rans_direct{});
      add(ecq::tans{});
      add(ecq::huffman{});
    }
  }
  if (!json) return 0;
  std::printf("{\"gpu\": \"%s\", \"date\": \"%s\", \"commit\": \"%s\", \"decode\": [", device.name, date.c_str(),
              commit.c_str());
  for (std::size_t i = 0; i < figures.size(); ++i) {
    const figure& one = figures[i];
    std::printf(
        "%s\n  {\"workload\": \"%s\", \"coder\": \"%s\", \"mib\": %zu, \"bits\": %.4f, \"gb_per_s\": %.2f, "
        "\"of_copy\": %.4f}",
        i == 0 ? "" : ",", one.workload.c_str(), one.coder.c_str(), one.mib, one.bits, one.gb_per_s, one.of_copy);
  }
  std::printf("\n]}\n");
  return 0;
}
