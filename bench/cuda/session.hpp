#pragma once
/// \file
/// The session of the process that measures: rows that were asked for, the time that is left, and the table.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ecq/base/result.hpp"
#include "record.hpp"

namespace ecq_bench {

struct kernel_facts {
  std::string name;
  int registers = 0;        ///< registers per thread
  std::size_t shared = 0;   ///< bytes per block, static and dynamic
  std::size_t spilled = 0;  ///< bytes of local memory per thread
};

/// Subject of one row of the table.
struct subject {
  std::string verb;      ///< "decode", "dequantise", ...
  std::string workload;  ///< what is decoded
  std::string how;       ///< by which coder, in pairs or not, chunks of how many symbols
  std::size_t bytes;     ///< of weights, which decoding writes or encoding reads
};

/// Returns "verb workload how".
std::string row_name(const subject& about);

struct figure {
  std::uint64_t elements = 0;
  double bits = 0;     ///< per element, everything counted
  double seconds = 0;  ///< median time of one call
  std::vector<kernel_facts> kernels;
};

class session {
 public:
  struct options {
    std::vector<std::size_t> mib = {8, 64, 512, 2048};
    std::chrono::steady_clock::time_point end;  ///< rows that would take longer are left out
    std::string only;                           ///< text that "verb workload how, N MiB" has to contain
    bool (*skipped)(const subject&) = nullptr;  ///< whether a row is measured elsewhere
    bool (*lost)() = nullptr;                   ///< whether the device takes no more work
  };

  /// Rows whose names are in `done` are not measured again, nor is any row twice.
  session(options chosen, std::set<std::string> done, teller tell);

  /// Measures, prints and reports a row, unless the time left is too short, judged by the time of the same row at a
  /// smaller size. If `measure` finds the row unsupported, or has no room for it, the row is left out; any other error
  /// is a failure. Nothing is measured on a device that is lost.
  template <class Measure>
  void row(const subject& about, Measure&& measure) {
    if (!wanted(about)) return;
    const auto begun = std::chrono::steady_clock::now();
    add(about, measure());
    spent_[row_name(about)] = {about.bytes, std::chrono::steady_clock::now() - begun};
  }

  /// Returns the time of a copy of `bytes` on the device in seconds; 0 if it is not known.
  double copy_seconds(std::size_t bytes) const;
  void know_copy(std::size_t bytes, double seconds);

  void note(const std::string& key, const std::string& text);
  const options& chosen() const { return options_; }
  void choose(std::string only) { options_.only = std::move(only); }
  bool lost() const { return lost_; }
  /// Returns the number of rows so far that were asked for by name, measured or not.
  std::size_t met() const { return met_; }

 private:
  bool wanted(const subject& about);
  void add(const subject& about, ecq::result<figure> found);

  using spending = std::pair<std::size_t, std::chrono::steady_clock::duration>;

  options options_;
  std::set<std::string> done_;
  teller tell_;
  std::map<std::string, spending> spent_;  ///< by row: bytes and time when last measured
  std::map<std::size_t, double> copies_;
  std::size_t met_ = 0;
  bool headed_ = false;
  bool lost_ = false;
};

}  // namespace ecq_bench
