#include "session.hpp"

#include <algorithm>
#include <cstdarg>
#include <cstdio>

namespace ecq_bench {

namespace {

[[gnu::format(printf, 1, 2)]] std::string formatted(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  char text[256];
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  return text;
}

double per_second(std::size_t bytes, double seconds) { return static_cast<double>(bytes) * 1e-9 / seconds; }

std::string json_of(const subject& about, const figure& found, double of_copy) {
  std::string made = "{\"verb\": " + json_text(about.verb) + ", \"workload\": " + json_text(about.workload) +
                     ", \"how\": " + json_text(about.how);
  made += formatted(", \"bytes\": %zu, \"elements\": %llu, \"bits\": %.4f, \"microseconds\": %.2f", about.bytes,
                    static_cast<unsigned long long>(found.elements), found.bits, found.seconds * 1e6);
  made += formatted(", \"gb_per_s\": %.2f, \"of_copy\": %.4f, \"kernels\": [", per_second(about.bytes, found.seconds),
                    of_copy);
  const char* comma = "";
  for (const kernel_facts& kernel : found.kernels) {
    made += comma + ("{\"name\": " + json_text(kernel.name));
    made += formatted(", \"registers\": %d, \"shared\": %zu, \"spilled\": %zu}", kernel.registers, kernel.shared,
                      kernel.spilled);
    comma = ", ";
  }
  return made + "]}";
}

}  // namespace

std::string row_name(const subject& about) { return about.verb + ' ' + about.workload + ' ' + about.how; }

session::session(options chosen, std::set<std::string> done, teller tell)
    : options_(std::move(chosen)), done_(std::move(done)), tell_(std::move(tell)) {}

bool session::wanted(const subject& about) {
  const std::string name = row_name(about);
  const std::string full = name + ", " + std::to_string(about.bytes >> 20) + " MiB";
  if (!options_.only.empty() && full.find(options_.only) == std::string::npos) return false;
  ++met_;
  if (done_.contains(full) || (options_.skipped != nullptr && options_.skipped(about))) return false;
  if (lost_) return false;  // the next process begins this row
  done_.insert(full);
  tell_(told::begun, full);
  std::chrono::steady_clock::duration expected{};
  if (const auto before = spent_.find(name); before != spent_.end()) {
    const auto& [bytes, took] = before->second;
    expected = std::chrono::duration_cast<std::chrono::steady_clock::duration>(
        took * (static_cast<double>(about.bytes) / static_cast<double>(bytes)));
  }
  if (std::chrono::steady_clock::now() + expected <= options_.end) return true;
  tell_(told::left_out, "no time left");
  return false;
}

double session::copy_seconds(std::size_t bytes) const {
  const auto known = copies_.find(bytes);
  return known == copies_.end() ? 0 : known->second;
}

void session::know_copy(std::size_t bytes, double seconds) {
  copies_[bytes] = seconds;
  tell_(told::copy, formatted("{\"bytes\": %zu, \"gb_per_s\": %.2f}", bytes, per_second(bytes, seconds)));
}

void session::note(const std::string& key, const std::string& text) {
  tell_(told::note, json_text(key) + ": " + json_text(text));
}

void session::add(const subject& about, ecq::result<figure> found) {
  if (!found) {
    const std::string why = found.error().to_string();
    const ecq::errc code = found.error().code();
    // Small devices have no room for the largest sizes. That is not a failure.
    const bool known = code == ecq::errc::unsupported || code == ecq::errc::out_of_memory;
    tell_(known ? told::left_out : told::failed, why);
    // After a kernel's fault, everything else in the process fails as well, without a fault of its own.
    lost_ = !known && options_.lost != nullptr && options_.lost();
    return;
  }
  if (!headed_) {
    std::printf("%-10s %-24s %-34s %5s %7s %8s %8s %7s %5s %6s\n", "", "what", "how", "MiB", "bits", "GB/s", "G/s",
                "of copy", "regs", "shared");
    headed_ = true;
  }
  int registers = 0;
  std::size_t shared = 0;
  for (const kernel_facts& one : found->kernels) {
    registers = (std::max)(registers, one.registers);
    shared = (std::max)(shared, one.shared);
  }
  const double of_copy = copy_seconds(about.bytes) / found->seconds;
  std::printf("%-10s %-24s %-34s %5zu %7.3f %8.1f %8.1f %7.3f %5d %6zu\n", about.verb.c_str(), about.workload.c_str(),
              about.how.c_str(), about.bytes >> 20, found->bits, per_second(about.bytes, found->seconds),
              static_cast<double>(found->elements) * 1e-9 / found->seconds, of_copy, registers, shared);
  std::fflush(stdout);
  tell_(told::row, json_of(about, *found, of_copy));
}

}  // namespace ecq_bench
