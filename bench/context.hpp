#pragma once
/// \file
/// Context that every suite adds to its JSON, besides that of Google Benchmark: machine and compiler.

#include <benchmark/benchmark.h>

#include <fstream>
#include <string>

namespace ecq_bench {

/// Returns the processor's name as Linux reports it.
inline std::string machine() {
  std::ifstream lines("/proc/cpuinfo");
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

inline const bool context_added = [] {
  benchmark::AddCustomContext("machine", machine());
#if defined(__clang__)
  benchmark::AddCustomContext("compiler", "clang " __clang_version__);
#elif defined(__GNUC__)
  benchmark::AddCustomContext("compiler", "g++ " __VERSION__);
#endif
  return true;
}();

}  // namespace ecq_bench
