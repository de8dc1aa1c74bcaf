#pragma once
/// \file
/// A run of the benchmarks: what was asked for, the time that is left, and the figures.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ecq/result.hpp"

namespace ecq_bench {

struct kernel_facts {
  std::string name;
  int registers = 0;        ///< of a thread
  std::size_t shared = 0;   ///< bytes of a block, static and dynamic
  std::size_t spilled = 0;  ///< bytes of local memory of a thread
};

/// What one row of the table is about.
struct subject {
  std::string verb;      ///< "decode", "dequantise", ...
  std::string workload;  ///< what is decoded
  std::string how;       ///< by which coder, in pairs or not, chunks of how many symbols
  std::size_t bytes;     ///< of weights: what decoding writes or encoding reads
};

struct figure {
  std::uint64_t elements = 0;
  double bits = 0;     ///< an element, everything counted
  double seconds = 0;  ///< of one call, the median
  std::vector<kernel_facts> kernels;
};

class session {
 public:
  struct options {
    std::vector<std::size_t> mib = {8, 64, 512, 2048};
    double seconds = 240;                                    ///< that all may take
    std::string json;                                        ///< the file that figures go to, or none
    std::string only;                                        ///< what has to stand in "verb workload how"
    std::vector<std::pair<std::string, std::string>> notes;  ///< as they are into the JSON
    bool (*lost)() = nullptr;                                ///< whether the device takes no work any more
  };

  explicit session(options chosen);

  /// Measures unless the time will not do, by what the same row took at a smaller size; prints the row, and writes all
  /// so far as JSON, since the next kernel may be one that never ends. What `measure` finds unsupported, or has no room
  /// for, is left out and noted; any other error fails the session. Nothing is measured on a device that is lost.
  template <class Measure>
  void row(const subject& about, Measure&& measure) {
    if (!wanted(about)) return;
    const double begun = elapsed();
    add(about, measure());
    spent(about, elapsed() - begun);
    write_json();
  }

  /// The time of a copy of `bytes` on the device, once known.
  double& copy_seconds(std::size_t bytes) { return copies_[bytes]; }

  void note(const std::string& key, const std::string& text) { options_.notes.emplace_back(key, text); }
  const options& chosen() const { return options_; }
  double elapsed() const;
  bool failed() const { return failed_; }

  /// All figures so far.
  void write_json();

 private:
  bool wanted(const subject& about);
  void add(const subject& about, ecq::result<figure> found);
  void spent(const subject& about, double seconds);

  struct row_of_table {
    subject about;
    figure found;
    double of_copy;
  };

  options options_;
  std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
  std::map<std::string, std::pair<std::size_t, double>> spent_;  ///< by row: bytes and seconds when last measured
  std::map<std::size_t, double> copies_;
  std::vector<row_of_table> rows_;
  std::vector<std::pair<std::string, std::string>> left_out_;
  bool failed_ = false;
  bool lost_ = false;
};

}  // namespace ecq_bench
