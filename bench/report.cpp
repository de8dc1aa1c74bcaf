// bench_report <folder>: reads the JSON files that the suites left there and prints a table per suite: million units
// per second and, in brackets, the ratio to the peer in the same run, with the goal. Draws decode speed against bits
// per code as <folder>/decode_speed.svg. Figures are medians of the repetitions, by processor time, except for several
// threads. If the folder has figures of a device (bench/gpu.sh), draws how fast the device decodes bytes as
// <folder>/device_speed.svg.

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../examples/ecq/plot_svg.hpp"
#include "../examples/ecq/text.hpp"

namespace {

using nlohmann::json;

struct figure {
  double speed = 0;       ///< units per second
  double real_speed = 0;  ///< units per second of elapsed time
  double bits = 0;        ///< bits per code or weight; 0 if nothing is coded
};

/// Run of one suite.
class run {
 public:
  explicit run(const json& file) : context_(file.at("context")) {
    for (const json& one : file.at("benchmarks")) {
      // A benchmark that ran once has no median.
      if (one.value("aggregate_name", "median") != "median" || one.value("error_occurred", false)) continue;
      std::string name = one.at("run_name");
      if (const auto at = name.find("/real_time"); at != std::string::npos) name.resize(at);
      const bool real = name.size() != one.at("run_name").get<std::string>().size();
      figure& to = figures_[name];
      to.speed = one.value("bytes_per_second", one.value("items_per_second", 0.0));
      to.real_speed = real ? to.speed : to.speed * one.at("cpu_time").get<double>() / one.at("real_time").get<double>();
      to.bits = one.value("bits", 0.0);
    }
    for (const char* const set : {"scalar", "neon", "avx2", "avx512"}) {
      if (std::any_of(figures_.begin(), figures_.end(), [&](const auto& one) { return one.first.ends_with(set); })) {
        best_ = set;
      }
    }
  }

  /// Returns the benchmark of this name, with {row} and {best} (instruction set) filled in.
  std::optional<figure> find(std::string name, const std::string& row) const {
    for (const auto& [hole, filling] : {std::pair<std::string, std::string>{"{row}", row}, {"{best}", best_}}) {
      if (const auto at = name.find(hole); at != std::string::npos) name.replace(at, hole.size(), filling);
    }
    const auto found = figures_.find(name);
    return found == figures_.end() ? std::nullopt : std::optional(found->second);
  }

  std::string conditions(std::initializer_list<const char*> keys) const {
    std::string text;
    for (const char* const key : keys) {
      if (!context_.contains(key)) continue;
      const json& value = context_[key];
      text += (text.empty() ? "" : ", ") + std::string(key) + " " +
              (value.is_string() ? value.get<std::string>() : value.dump());
    }
    return text;
  }

 private:
  json context_;
  std::map<std::string, figure> figures_;
  std::string best_;
};

struct column {
  std::string title;
  std::string ours;
  std::string peer = {};                     ///< if empty, speed alone
  std::map<std::string, double> goals = {};  ///< by row; "" for all others
  bool threads = false;                      ///< compare by elapsed time
};

struct table {
  std::string suite;
  std::string title;
  std::vector<std::string> rows;
  std::string bits;  ///< benchmark whose bits are shown
  std::vector<column> columns;
};

const std::vector<table>& tables() {
  static const std::vector<table> all = {
      {"bench_entropy",
       "MB of codes a second (times its peer)",
       {"fp8_exponents", "bf16_exponents", "laplace_6.5", "laplace_4.0", "laplace_3.0", "laplace_2.1", "laplace_1.4",
        "gauss_4.0", "gauss_3.0", "gauss_2.1", "fp8"},
       "decode/{row}/rans/{best}",
       {{"htscodecs", "decode/{row}/htscodecs/{best}"},
        {"rans / htscodecs",
         "decode/{row}/rans/{best}",
         "decode/{row}/htscodecs/{best}",
         {{"", 2.6}, {"laplace_3.0", 2.2}, {"laplace_4.0", 2.2}, {"laplace_6.5", 2.2}, {"fp8", 2.2}}},
        {"narrow pairs / rans",
         "decode/{row}/rans_narrow/{best}",
         "decode/{row}/rans/{best}",
         {{"gauss_4.0", 1.3}, {"gauss_3.0", 1.3}, {"gauss_2.1", 1.3}}},
        {"narrow pairs / htscodecs", "decode/{row}/rans_narrow/{best}", "decode/{row}/htscodecs/{best}"},
        {"direct / htscodecs", "decode/{row}/rans_direct/{best}", "decode/{row}/htscodecs/{best}", {{"", 1.5}}},
        {"tans / htscodecs", "decode/{row}/tans/{best}", "decode/{row}/htscodecs/{best}", {{"", 1.4}}},
        {"huffman / zstd -1", "decode/{row}/huffman/{best}", "decode/{row}/zstd_1", {{"", 1.5}}},
        {"rans / htscodecs, AVX2", "decode/{row}/rans/avx2", "decode/{row}/htscodecs/avx2", {{"", 1.3}}},
        {"encode rans / htscodecs", "encode/{row}/rans/{best}", "encode/{row}/htscodecs/{best}", {{"", 1}}},
        {"2 threads / 1", "decode/{row}/rans/{best}/2", "decode/{row}/rans/{best}", {{"", 1.8}}, true}}},
      {"bench_lossless",
       "MB of weights a second (times its peer)",
       {"bf16", "fp16", "fp8_e4m3", "fp8_e5m2", "fp32"},
       "decode/{row}/rans/{best}",
       {{"memcpy", "decode/{row}/memcpy"},
        {"rans / memcpy", "decode/{row}/rans/{best}", "decode/{row}/memcpy", {{"bf16", 0.4}}},
        {"rans pairs / memcpy", "decode/{row}/rans_pairs/{best}", "decode/{row}/memcpy"},
        {"rans / zstd -1", "decode/{row}/rans/{best}", "decode/{row}/zstd_1", {{"bf16", 3}}},
        {"tans / zstd -1", "decode/{row}/tans/{best}", "decode/{row}/zstd_1"},
        {"huffman / zstd -1", "decode/{row}/huffman/{best}", "decode/{row}/zstd_1"},
        {"gaps / zstd -1", "decode/{row}/huffman_gaps/{best}", "decode/{row}/zstd_1"},
        {"encode rans / zstd -1", "encode/{row}/rans/{best}", "encode/{row}/zstd_1"},
        {"2 threads / 1", "decode/{row}/rans/{best}/2", "decode/{row}/rans/{best}", {{"", 1.8}}, true}}},
      {"bench_quantize",
       "million weights a second (times its peer)",
       {"lambda_x10:39", "lambda_x10:145", "lambda_x10:580"},
       "",
       {{"row root / L-BFGS", "search/row_root/{row}/threads:1", "search/lbfgs/{row}/threads:1"},
        {"row root, 2 threads / 1", "search/row_root/{row}/threads:2", "search/row_root/{row}/threads:1", {}, true},
        {"entquant", "quantize/entquant/{row}/threads:1"},
        {"entquant, 2 threads / 1",
         "quantize/entquant/{row}/threads:2",
         "quantize/entquant/{row}/threads:1",
         {},
         true}}},
      {"bench_matmul",
       "million weights a second, weights from memory (times oneDNN's with weights in BF16)",
       {"4096x4096/batch:1", "4096x4096/batch:8", "4096x4096/batch:32", "4096x4096/batch:128", "14336x4096/batch:1",
        "14336x4096/batch:8", "14336x4096/batch:32", "14336x4096/batch:128"},
       "",
       {{"oneDNN", "product/onednn_bf16/{row}/threads:1"},
        {"OpenBLAS, FP32", "product/openblas_fp32/{row}/threads:1", "product/onednn_bf16/{row}/threads:1"},
        {"2.1 bits", "product/fp8_2.1_pairs/{row}/threads:1", "product/onednn_bf16/{row}/threads:1"},
        {"3 bits", "product/fp8_3_pairs/{row}/threads:1", "product/onednn_bf16/{row}/threads:1"},
        {"4 bits", "product/fp8_4_pairs/{row}/threads:1", "product/onednn_bf16/{row}/threads:1"},
        {"3 bits, single symbols", "product/fp8_3/{row}/threads:1", "product/onednn_bf16/{row}/threads:1"},
        {"oneDNN, Int8", "product/onednn_int8/{row}/threads:1", "product/onednn_bf16/{row}/threads:1"},
        {"3 bits, Int8 activations",
         "product/int8_3_pairs_w8a8/{row}/threads:1",
         "product/onednn_bf16/{row}/threads:1",
         {{"4096x4096/batch:8", 1}, {"14336x4096/batch:8", 1}}},
        {"3 bits, Int8 activations, single symbols", "product/int8_3_w8a8/{row}/threads:1",
         "product/onednn_bf16/{row}/threads:1"},
        {"lossless",
         "product/lossless/{row}/threads:1",
         "product/onednn_bf16/{row}/threads:1",
         {{"4096x4096/batch:1", 0.65}, {"14336x4096/batch:1", 0.65}}},
        {"3 bits, 2 threads / 1",
         "product/fp8_3_pairs/{row}/threads:2",
         "product/fp8_3_pairs/{row}/threads:1",
         {{"", 1.85}},
         true}}}};
  return all;
}

/// Returns a cell like "8447 (3.61 >= 2.6)": speed, ratio, goal.
std::string cell(const run& of, const column& shown, const std::string& row) {
  const auto ours = of.find(shown.ours, row);
  if (!ours) return "-";
  const std::string speed = tool::decimal(ours->speed / 1e6, 0);
  const auto peer = of.find(shown.peer, row);
  if (!peer) return speed;
  const double ratio = shown.threads ? ours->real_speed / peer->real_speed : ours->speed / peer->speed;
  std::string compared = tool::decimal(ratio, 2);
  const auto goal = shown.goals.contains(row) ? shown.goals.find(row) : shown.goals.find("");
  if (goal != shown.goals.end()) {
    compared += (ratio >= goal->second ? " >= " : " < ") + tool::significant(goal->second, 3);
  }
  return speed + " (" + compared + ")";
}

void print(const table& shown, const run& of) {
  std::cout << '\n'
            << shown.suite << ": " << shown.title << '\n'
            << of.conditions({"date", "commit", "machine", "compiler", "mib", "load_avg"}) << "\n\n";
  std::vector<std::string> headings = {""};
  if (!shown.bits.empty()) headings.emplace_back("bits");
  for (const column& one : shown.columns) headings.push_back(one.title);
  tool::table text(headings, 1);
  for (const std::string& row : shown.rows) {
    std::vector<std::string> cells = {row};
    if (!shown.bits.empty()) cells.push_back(tool::decimal(of.find(shown.bits, row).value_or(figure{}).bits, 3));
    for (const column& one : shown.columns) cells.push_back(cell(of, one, row));
    text.add(std::move(cells));
  }
  std::cout << text;
}

/// Returns a plot of speed against bits per code, for every coder and peer on the first table's streams.
tool::plot decode_speed(const run& of) {
  tool::plot chart{"Decoding on one thread",
                   of.conditions({"commit", "machine", "compiler", "mib"}),
                   "bits per code, everything counted",
                   "GB of codes a second",
                   {}};
  const std::pair<const char*, const char*> coders[] = {
      {"rANS", "rans/{best}"},       {"rANS, direct", "rans_direct/{best}"}, {"tANS", "tans/{best}"},
      {"Huffman", "huffman/{best}"}, {"gap arrays", "huffman_gaps/{best}"},  {"htscodecs", "htscodecs/{best}"},
      {"zstd -1", "zstd_1"}};
  for (const auto& [name, tail] : coders) {
    tool::plot_series series{name, {}};
    for (const std::string& row : tables().front().rows) {
      if (const auto found = of.find(std::string("decode/{row}/") + tail, row)) {
        series.points.push_back({found->bits, found->speed / 1e9});
      }
    }
    if (!series.points.empty()) chart.series.push_back(std::move(series));
  }
  return chart;
}

/// Returns a plot of speed against bits per byte for bytes that a device decodes, of the largest size measured, by each
/// coder and by the peers that a file in the folder lists. Each point is the fastest figure within a tenth of the
/// fewest bits. The plot is empty if there are no such figures.
tool::plot decode_speed_of_device(const std::filesystem::path& folder) {
  std::string gpu, commit;
  std::map<std::string, std::map<std::string, std::vector<tool::plot_point>>> series;
  const auto add = [&](const std::string& name, const std::string& work, double bits, double speed) {
    if (work.starts_with("bytes, ")) series[name][work].push_back({bits, speed});
  };
  std::vector<json> files;
  std::uint64_t most = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".json") continue;
    std::ifstream file(entry.path());
    json read = json::parse(file, nullptr, false);
    if (read.is_discarded() || !read.is_object() || !read.contains("gpu")) continue;
    for (const json& row : read.value("rows", json::array())) {
      if (row.at("verb") == "decode") most = (std::max)(most, row.at("bytes").get<std::uint64_t>());
    }
    files.push_back(std::move(read));
  }
  for (const json& file : files) {
    gpu = file.at("gpu");
    commit = file.value("commit", commit);
    for (const json& row : file.value("rows", json::array())) {
      if (row.at("verb") != "decode" || row.at("bytes") != most) continue;
      const std::string how = row.at("how");
      add("ecq, " + how.substr(0, how.find(',')), row.at("workload"), row.at("bits"), row.at("gb_per_s"));
    }
    for (const json& peer : file.value("peers", json::array())) {
      for (const json& row : peer.at("rows")) {
        add(peer.at("peer"), row.at("data"), row.at("bits"), row.at("decode_gb_per_s"));
      }
    }
  }
  tool::plot chart{"Decoding bytes on an " + gpu,
                   "commit " + commit + ", " + std::to_string(most >> 20) + " MiB",
                   "bits a byte, everything counted",
                   "GB of output a second",
                   {}};
  for (const auto& [name, points] : series) {
    if (points.size() < 2) continue;
    tool::plot_series line{name, {}};
    for (const auto& [work, all] : points) {
      const double fewest = std::ranges::min_element(all, {}, &tool::plot_point::x)->x;
      tool::plot_point best;
      for (const tool::plot_point& each : all) {
        if (each.x <= 1.1 * fewest && each.y > best.y) best = each;
      }
      line.points.push_back(best);
    }
    std::ranges::sort(line.points, {}, &tool::plot_point::x);
    chart.series.push_back(std::move(line));
  }
  return chart;
}

}  // namespace

int main(int count, char** arguments) try {
  if (count != 2) {
    std::cerr << "usage: bench_report <folder of the suites' JSON>\n";
    return 2;
  }
  const std::filesystem::path folder = arguments[1];
  for (const table& one : tables()) {
    std::ifstream file(folder / (one.suite + ".json"));
    if (!file) continue;
    const json read = json::parse(file, nullptr, false);
    if (read.is_discarded()) {
      std::cerr << "bench_report: " << one.suite << ".json is no JSON: was the suite interrupted?\n";
      return 1;
    }
    const run of(read);
    print(one, of);
    if (one.suite != "bench_entropy") continue;
    std::ofstream(folder / "decode_speed.svg") << to_svg(decode_speed(of));
    std::cout << "\nas a picture: " << (folder / "decode_speed.svg").string() << '\n';
  }
  if (const tool::plot chart = decode_speed_of_device(folder); !chart.series.empty()) {
    std::ofstream(folder / "device_speed.svg") << to_svg(chart);
    std::cout << "\nas a picture: " << (folder / "device_speed.svg").string() << '\n';
  }
  return 0;
} catch (const std::exception& failure) {
  std::cerr << "bench_report: " << failure.what() << '\n';
  return 1;
}
