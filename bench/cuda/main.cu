// Benchmarks of decoding and encoding on a device, beside a copy of the same weights on the device in the same run.
// Data are made on the host; every output is compared with the CPU's.

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "bench.cuh"
#include "record.hpp"
#include "suites.hpp"

namespace {

using ecq_bench::ending;
using ecq_bench::record;
using ecq_bench::session;
using ecq_bench::subject;
using ecq_bench::teller;
using ecq_bench::told;

constexpr const char* usage =
    "usage: bench_cuda [options]\n"
    "  --rows WHICH       headline: ten figures that tell most; others: all but those; all: both, in this order (all)\n"
    "  --mib N[,N...]     MiB of weights, in rising order (8,64,512,2048); of the headline too (64,512)\n"
    "  --seconds N        what does not fit into this time is left out, the largest sizes first (240)\n"
    "  --only TEXT        rows of any kind whose name has TEXT in it, such as 'decode BF16'\n"
    "  --json FILE        where the figures go, for programs\n"
    "  --note KEY=TEXT    goes into the JSON as it is, such as commit=1234567\n"
    "  --silence N        seconds after which a row that tells nothing is given up (120)\n"
    "  --in-process       measures in this process, for profilers; a fault then ends all\n"
    "  --probe            measures nothing: whether kernels run on this device, as exit status\n"
    "  --dump DIR         measures nothing, but writes the elements that are decoded to files, for other programs\n";

using suite = void (*)(session&, std::size_t);

struct headline_row {
  suite measured_by;
  const char* name;
  bool fixed_size = false;  ///< the suite has sizes of its own
};

// In order of importance, since time may run out or the device may be lost at any moment.
constexpr headline_row headline[] = {
    {ecq_bench::dequantise_layers, "dequantise int8, 3 bits, a matrix tans, 2^13 a chunk", true},
    {ecq_bench::dequantise_layers, "dequantise int8, 3 bits, a layer tans, 2^13 a chunk", true},
    {ecq_bench::decode_elements, "decode BF16 Gaussian rans_direct, pairs"},
    {ecq_bench::decode_elements, "decode FP8 N(0, 1) tans, pairs"},
    {ecq_bench::dequantise_layers, "dequantise int8, 2.1 bits, a layer tans, 2^13 a chunk", true},
    {ecq_bench::dequantise_layers, "dequantise int8, 3 bits, a layer tans, narrow pairs, 2^13 a chunk", true},
    {ecq_bench::decode_elements, "decode bytes, 3 bits tans"},
    {ecq_bench::dequantise_layers, "replay int8, 3 bits, a matrix tans, 2^13 a chunk", true},
    {ecq_bench::encode, "encode bytes, 3 bits rans"},
    {ecq_bench::compress, "quantise BF16 N(0, 0.02) lambda 14.5"}};

#if defined(ECQ_EMULATED_CUDA)
const std::vector<std::size_t> headline_mib = {1};
#else
const std::vector<std::size_t> headline_mib = {64, 512};
#endif

bool in_headline(const subject& about) {
  const std::string name = row_name(about);
  return std::any_of(std::begin(headline), std::end(headline), [&](const headline_row& one) {
    return name == one.name &&
           (one.fixed_size || std::count(headline_mib.begin(), headline_mib.end(), about.bytes >> 20) != 0);
  });
}

struct arguments {
  session::options options;
  std::string rows = "all";
  bool sizes_given = false;
  double seconds = 240;
  double silence = 120;
  bool in_process = false;
  bool probe = false;
  std::string json;
  std::string dump;
  std::vector<std::string> notes;
};

bool read_number(std::string_view text, double& number) {
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  return problem == std::errc() && end == text.data() + text.size() && number >= 0 && number <= 1e6;
}

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

bool read_arguments(int count, char** values, arguments& asked) {
  for (int i = 1; i < count; ++i) {
    const std::string_view name = values[i];
    if (name == "--in-process" || name == "--probe") {
      (name == "--probe" ? asked.probe : asked.in_process) = true;
      continue;
    }
    if (++i == count) return false;
    const std::string_view value = values[i];
    if (name == "--mib") {
      asked.sizes_given = true;
      if (!read_sizes(value, asked.options.mib)) return false;
    } else if (name == "--rows") {
      asked.rows = value;
      if (value != "headline" && value != "others" && value != "all") return false;
    } else if (name == "--seconds") {
      if (!read_number(value, asked.seconds)) return false;
    } else if (name == "--silence") {
      if (!read_number(value, asked.silence)) return false;
    } else if (name == "--only") {
      asked.options.only = value;
    } else if (name == "--json") {
      asked.json = value;
    } else if (name == "--dump") {
      asked.dump = value;
    } else if (name == "--note" && value.find('=') != std::string_view::npos) {
      const std::size_t at = value.find('=');
      asked.notes.push_back(ecq_bench::json_text(value.substr(0, at)) + ": " +
                            ecq_bench::json_text(value.substr(at + 1)));
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

bool lost() { return cudaDeviceSynchronize() != cudaSuccess; }

bool device_at_hand(cudaDeviceProp& device) {
  int devices = 0;
  return cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0 &&
         cudaGetDeviceProperties(&device, 0) == cudaSuccess;
}

/// Measures all rows of the headline that are asked for. A row that no suite has is a failure.
void measure_headline(session& run, const std::vector<std::size_t>& sizes, const teller& tell) {
  const std::string only = run.chosen().only;
  for (const headline_row& row : headline) {
    for (const std::size_t mib : sizes) {
      if (row.fixed_size && mib != sizes.front()) continue;
      const std::string name = row.name + (row.fixed_size ? ", " : ", " + std::to_string(mib) + " MiB");
      if (!only.empty() && name.find(only) == std::string::npos) continue;
      const std::size_t met = run.met();
      run.choose(name);
      row.measured_by(run, mib << 20);
      if (run.met() == met) {
        tell(told::begun, name);
        tell(told::failed, "no suite has this row");
      }
    }
  }
  run.choose(only);
}

void measure_others(session& run, const std::vector<std::size_t>& sizes) {
  ecq_bench::dequantise_layers(run, 0);
  std::vector<suite> suites = {ecq_bench::decode_elements, ecq_bench::dequantise, ecq_bench::encode,
                               ecq_bench::compress};
  for (const std::size_t mib : sizes) {
    // Not all rows of the largest size may fit into the time: suites with the fewest rows come first.
    if (sizes.size() > 1 && mib == sizes.back()) std::reverse(suites.begin(), suites.end());
    for (const suite one : suites) one(run, mib << 20);
  }
}

}  // namespace

int main(int count, char** values) {
  if (count == 2 && std::string_view(values[1]) == "--help") return std::fputs(usage, stdout) < 0;
  arguments asked;
  if (!read_arguments(count, values, asked)) {
    std::fputs(usage, stderr);
    return 2;
  }
  if (!asked.dump.empty()) {
    for (const std::size_t mib : asked.options.mib) {
      if (!ecq_bench::dump_elements(asked.dump, mib)) {
        std::fprintf(stderr, "bench_cuda: cannot write to %s\n", asked.dump.c_str());
        return 1;
      }
    }
    return 0;
  }
  asked.options.end =
      std::chrono::steady_clock::now() +
      std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::duration<double>(asked.seconds));
  asked.options.lost = lost;
  record kept(asked.json);
  for (const std::string& note : asked.notes) kept.tell(told::note, note);
  const auto measure = [&](const teller& tell) {
    cudaDeviceProp device{};
    if (!device_at_hand(device)) {
      std::fputs("bench_cuda: no CUDA device\n", stderr);
      return ending::device_lost;
    }
    session::options options = asked.options;
    const bool all = !options.only.empty() || asked.rows == "all";
    if (options.only.empty()) options.skipped = asked.rows == "others" ? in_headline : nullptr;
    session run(options, kept.begun(), tell);
    describe(run, device);
    std::printf("%s\n", device.name);
    if (all || asked.rows == "headline") {
      measure_headline(run, asked.sizes_given ? asked.options.mib : headline_mib, tell);
    }
    if (all || asked.rows == "others") measure_others(run, asked.options.mib);
    return run.lost() ? ending::device_lost : ending::complete;
  };
  if (asked.probe) {
    cudaDeviceProp device{};
    return device_at_hand(device) && ecq_bench::runs_kernels() ? 0 : 1;
  }
  if (asked.in_process) {
    measure([&](told kind, const std::string& text) { kept.tell(kind, text); });
  } else {
    const auto silence =
        std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::duration<double>(asked.silence));
    measure_in_processes(kept, silence, measure);
  }
  return kept.failed() ? 1 : 0;
}
