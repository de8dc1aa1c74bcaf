#include "session.hpp"

#include <algorithm>
#include <cstdio>
#include <string_view>

namespace ecq_bench {

namespace {

std::string row_name(const subject& about) { return about.verb + ' ' + about.workload + ' ' + about.how; }

std::string quoted(std::string_view text) {
  std::string made = "\"";
  for (const char one : text) {
    if (one == '"' || one == '\\') made += '\\';
    made += static_cast<unsigned char>(one) < 0x20 ? ' ' : one;
  }
  return made + '"';
}

}  // namespace

session::session(options chosen) : options_(std::move(chosen)) {}

double session::elapsed() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begun_).count();
}

bool session::wanted(const subject& about) {
  const std::string name = row_name(about);
  if (!options_.only.empty() && name.find(options_.only) == std::string::npos) return false;
  const auto before = spent_.find(name);
  const double expected = before == spent_.end() ? 0
                                                 : before->second.second * static_cast<double>(about.bytes) /
                                                       static_cast<double>(before->second.first);
  if (!lost_ && elapsed() + expected <= options_.seconds) return true;
  left_out_.emplace_back(name + ", " + std::to_string(about.bytes >> 20) + " MiB",
                         lost_ ? "the device was lost before" : "no time left");
  return false;
}

void session::spent(const subject& about, double seconds) { spent_[row_name(about)] = {about.bytes, seconds}; }

void session::add(const subject& about, ecq::result<figure> found) {
  if (!found) {
    const std::string why = found.error().to_string();
    const ecq::errc code = found.error().code();
    // Small devices have no room for the largest sizes, which is no failure of what is measured.
    const bool known = code == ecq::errc::unsupported || code == ecq::errc::out_of_memory;
    left_out_.emplace_back(row_name(about) + ", " + std::to_string(about.bytes >> 20) + " MiB", why);
    if (!known) {
      std::fprintf(stderr, "bench_cuda: %s: %s\n", row_name(about).c_str(), why.c_str());
      failed_ = true;
      // A kernel's fault fails all that comes after it in the process, whose fault it is not.
      lost_ = options_.lost != nullptr && options_.lost();
    }
    return;
  }
  if (rows_.empty()) {
    std::printf("%-10s %-16s %-34s %5s %7s %8s %8s %7s %5s %6s\n", "", "what", "how", "MiB", "bits", "GB/s", "G/s",
                "of copy", "regs", "shared");
  }
  int registers = 0;
  std::size_t shared = 0;
  for (const kernel_facts& one : found->kernels) {
    registers = (std::max)(registers, one.registers);
    shared = (std::max)(shared, one.shared);
  }
  const double of_copy = copies_[about.bytes] / found->seconds;
  rows_.push_back({about, *found, of_copy});
  std::printf("%-10s %-16s %-34s %5zu %7.3f %8.1f %8.1f %7.3f %5d %6zu\n", about.verb.c_str(), about.workload.c_str(),
              about.how.c_str(), about.bytes >> 20, found->bits,
              static_cast<double>(about.bytes) * 1e-9 / found->seconds,
              static_cast<double>(found->elements) * 1e-9 / found->seconds, of_copy, registers, shared);
  std::fflush(stdout);
}

void session::write_json() {
  if (options_.json.empty()) return;
  // Under its name the file is complete at any time, whenever a run may be ended.
  const std::string unfinished = options_.json + ".part";
  std::FILE* const file = std::fopen(unfinished.c_str(), "w");
  if (file == nullptr) {
    std::fprintf(stderr, "bench_cuda: cannot write %s\n", unfinished.c_str());
    failed_ = true;
    return;
  }
  std::fprintf(file, "{\n");
  for (const auto& [key, text] : options_.notes) {
    std::fprintf(file, "  %s: %s,\n", quoted(key).c_str(), quoted(text).c_str());
  }
  std::fprintf(file, "  \"copies\": [");
  const char* comma = "\n";
  for (const auto& [bytes, seconds] : copies_) {
    if (seconds == 0) continue;  // it could not be measured
    std::fprintf(file, "%s    {\"bytes\": %zu, \"gb_per_s\": %.2f}", comma, bytes,
                 static_cast<double>(bytes) * 1e-9 / seconds);
    comma = ",\n";
  }
  std::fprintf(file, "\n  ],\n  \"rows\": [");
  comma = "\n";
  for (const row_of_table& one : rows_) {
    std::fprintf(file,
                 "%s    {\"verb\": %s, \"workload\": %s, \"how\": %s, \"bytes\": %zu, \"elements\": %llu, \"bits\": "
                 "%.4f, \"microseconds\": %.2f, \"gb_per_s\": %.2f, \"of_copy\": %.4f, \"kernels\": [",
                 comma, quoted(one.about.verb).c_str(), quoted(one.about.workload).c_str(),
                 quoted(one.about.how).c_str(), one.about.bytes, static_cast<unsigned long long>(one.found.elements),
                 one.found.bits, one.found.seconds * 1e6,
                 static_cast<double>(one.about.bytes) * 1e-9 / one.found.seconds, one.of_copy);
    for (std::size_t i = 0; i < one.found.kernels.size(); ++i) {
      const kernel_facts& kernel = one.found.kernels[i];
      std::fprintf(file, "%s{\"name\": %s, \"registers\": %d, \"shared\": %zu, \"spilled\": %zu}", i == 0 ? "" : ", ",
                   quoted(kernel.name).c_str(), kernel.registers, kernel.shared, kernel.spilled);
    }
    std::fprintf(file, "]}");
    comma = ",\n";
  }
  std::fprintf(file, "\n  ],\n  \"left_out\": [");
  comma = "\n";
  for (const auto& [name, why] : left_out_) {
    std::fprintf(file, "%s    {\"row\": %s, \"why\": %s}", comma, quoted(name).c_str(), quoted(why).c_str());
    comma = ",\n";
  }
  std::fprintf(file, "\n  ],\n  \"seconds\": %.1f\n}\n", elapsed());
  const bool written = std::ferror(file) == 0;
  if (std::fclose(file) == 0 && written && std::rename(unfinished.c_str(), options_.json.c_str()) == 0) return;
  std::fprintf(stderr, "bench_cuda: cannot write %s\n", options_.json.c_str());
  failed_ = true;
}

}  // namespace ecq_bench
