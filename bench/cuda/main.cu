// How fast a device decodes and encodes, beside a copy of the same weights on the device in the same run. Data are made
// on the host; every output is compared with the CPU's.

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "bench.cuh"
#include "suites.hpp"

namespace {

using ecq_bench::session;

constexpr const char* usage =
    "usage: bench_cuda [options]\n"
    "  --mib N[,N...]     MiB of weights, in rising order (8,64,512,2048)\n"
    "  --seconds N        what does not fit into this time is left out, the largest sizes first (240)\n"
    "  --only TEXT        rows whose name has TEXT in it, such as 'decode BF16'\n"
    "  --json FILE        where the figures go, for programs\n"
    "  --note KEY=TEXT    goes into the JSON as it is, such as commit=1234567\n"
    "  --dump DIR         measures nothing, but writes the elements that are decoded to files, for other programs\n";

bool read_sizes(std::string_view text, std::vector<std::size_t>& sizes) {
  sizes.clear();
  while (!text.empty()) {
    std::size_t mib = 0;
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), mib);
    if (problem != std::errc() || mib == 0 || mib > 65536) return false;
    sizes.push_back(mib);
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    if (!text.empty() && text.front() != ',') return false;
    if (!text.empty()) text.remove_prefix(1);
  }
  return !sizes.empty();
}

bool read_options(int count, char** arguments, session::options& options, std::string& dump) {
  for (int i = 1; i < count; ++i) {
    const std::string_view name = arguments[i];
    if (++i == count) return false;
    const std::string_view value = arguments[i];
    if (name == "--mib") {
      if (!read_sizes(value, options.mib)) return false;
    } else if (name == "--seconds") {
      const auto [end, problem] = std::from_chars(value.data(), value.data() + value.size(), options.seconds);
      if (problem != std::errc() || end != value.data() + value.size()) return false;
    } else if (name == "--only") {
      options.only = value;
    } else if (name == "--json") {
      options.json = value;
    } else if (name == "--dump") {
      dump = value;
    } else if (name == "--note" && value.find('=') != std::string_view::npos) {
      options.notes.emplace_back(value.substr(0, value.find('=')), value.substr(value.find('=') + 1));
    } else {
      return false;
    }
  }
  return true;
}

void describe(session& run, const cudaDeviceProp& device) {
  run.note("gpu", device.name);
  run.note("compute_capability", std::to_string(device.major) + '.' + std::to_string(device.minor));
  run.note("multiprocessors", std::to_string(device.multiProcessorCount));
  run.note("memory_mib", std::to_string(device.totalGlobalMem >> 20));
#if defined(__CUDACC_VER_MAJOR__)
  const auto version = [](int number) {
    return std::to_string(number / 1000) + '.' + std::to_string(number % 1000 / 10);
  };
  int number = 0;
  if (cudaDriverGetVersion(&number) == cudaSuccess) run.note("cuda_of_driver", version(number));
  if (cudaRuntimeGetVersion(&number) == cudaSuccess) run.note("cuda_runtime", version(number));
  run.note("nvcc", std::to_string(__CUDACC_VER_MAJOR__) + '.' + std::to_string(__CUDACC_VER_MINOR__) + '.' +
                       std::to_string(__CUDACC_VER_BUILD__));
#endif
}

}  // namespace

int main(int count, char** arguments) {
  if (count == 2 && std::string_view(arguments[1]) == "--help") return std::fputs(usage, stdout) < 0;
  session::options options;
  std::string dump;
  if (!read_options(count, arguments, options, dump)) {
    std::fputs(usage, stderr);
    return 2;
  }
  if (!dump.empty()) {
    for (const std::size_t mib : options.mib) {
      if (!ecq_bench::dump_elements(dump, mib)) {
        std::fprintf(stderr, "bench_cuda: cannot write to %s\n", dump.c_str());
        return 1;
      }
    }
    return 0;
  }
  int devices = 0;
  cudaDeviceProp device{};
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0 ||
      cudaGetDeviceProperties(&device, 0) != cudaSuccess) {
    std::fputs("bench_cuda: no CUDA device\n", stderr);
    return 1;
  }
  options.lost = [] { return cudaDeviceSynchronize() != cudaSuccess; };
  session run(std::move(options));
  describe(run, device);
  std::printf("%s\n", device.name);
  run.write_json();
  std::vector<void (*)(session&, std::size_t)> suites = {ecq_bench::decode_elements, ecq_bench::dequantise,
                                                         ecq_bench::encode, ecq_bench::compress};
  const std::vector<std::size_t> sizes = run.chosen().mib;
  for (const std::size_t mib : sizes) {
    // Of the largest size not all may fit into the time: that of which there are fewest rows comes first.
    if (sizes.size() > 1 && mib == sizes.back()) std::reverse(suites.begin(), suites.end());
    for (const auto suite : suites) suite(run, mib << 20);
  }
  run.write_json();
  return run.failed() ? 1 : 0;
}
