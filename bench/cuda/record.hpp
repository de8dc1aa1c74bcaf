#pragma once
/// \file
/// Results of a run of the benchmarks, kept by a process that never touches the device. If a kernel ruins the process
/// that measures, the figures before it stay, and those after it are measured in a new process.

#include <chrono>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ecq_bench {

/// Returns `text` as JSON.
std::string json_text(std::string_view text);

/// Kinds of reports of the process that measures. Each report is a line: the kind, then its text.
enum class told : char {
  note = 'n',      ///< a member of the file's JSON object
  copy = 'c',      ///< a JSON object: the speed of a copy
  begun = 'b',     ///< the name of a row, which will now be measured
  row = 'r',       ///< the JSON object of that row
  left_out = 'l',  ///< the reason why that row has no figures
  failed = 'f'     ///< the reason, if it is an error
};
using teller = std::function<void(told kind, const std::string& text)>;

/// All reports, and the file to which they go.
class record {
 public:
  /// `json` is the name of a file, or empty.
  explicit record(std::string json) : json_(std::move(json)) {}

  /// Keeps a report and writes the file, which is complete at any time: runs may be ended at any moment.
  void tell(told kind, const std::string& text);
  /// Ends the row that was begun, if one was, with the error `why`.
  void abandon(const std::string& why);

  bool failed() const { return failed_; }
  bool in_row() const { return !current_.empty(); }
  /// Returns the names of rows that were begun: no later process measures them again.
  const std::set<std::string>& begun() const { return begun_; }

 private:
  void write();

  std::string json_;
  std::vector<std::string> notes_, copies_, rows_, left_out_;
  std::set<std::string> begun_;
  std::string current_;
  bool failed_ = false;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// Result of `measure`: it has met all rows, or the device takes no more work.
enum class ending { complete, device_lost };

/// Calls `measure(tell)` in a process of its own. Calls it again in a new process whenever one is lost (by a signal,
/// with the device, or because it reported nothing for `silence`), as long as each process begins at least one row that
/// none before it had begun.
void measure_in_processes(record& kept, std::chrono::milliseconds silence,
                          const std::function<ending(const teller&)>& measure);

}  // namespace ecq_bench
