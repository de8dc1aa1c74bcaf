#pragma once
/// \file
/// What a run of the benchmarks has found, kept by a process that never touches the device: whatever a kernel does to
/// the process that measures, the figures before it stay, and those after it are measured in a new process.

#include <chrono>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ecq_bench {

/// `text` as JSON.
std::string json_text(std::string_view text);

/// What the process that measures tells, each a line: the kind, then its text.
enum class told : char {
  note = 'n',      ///< a member of the file's JSON object
  copy = 'c',      ///< a JSON object: how long a copy takes
  begun = 'b',     ///< the name of a row, which is measured now
  row = 'r',       ///< the JSON object of that row
  left_out = 'l',  ///< why that row has no figures
  failed = 'f'     ///< the same where that is an error
};
using teller = std::function<void(told kind, const std::string& text)>;

/// All that was told, and the file that it goes to.
class record {
 public:
  /// `json` names a file, or nothing.
  explicit record(std::string json) : json_(std::move(json)) {}

  /// Keeps it, and writes the file, which is complete at any time: its runs may be ended whenever somebody likes.
  void tell(told kind, const std::string& text);
  /// The row that was begun, if one was, ended by `why`, which is an error.
  void abandon(const std::string& why);

  bool failed() const { return failed_; }
  bool in_row() const { return !current_.empty(); }
  /// Rows that were begun, by name: no later process measures them again.
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

/// What `measure` returns when it has met all rows, and when the device takes no work any more.
enum class ending { complete, device_lost };

/// Calls `measure(tell)` in a process of its own, and again as often as one is lost (by a signal, with the device, or
/// since it told nothing for `silence`) while each one begins at least a row that none before had begun.
void measure_in_processes(record& kept, std::chrono::milliseconds silence,
                          const std::function<ending(const teller&)>& measure);

}  // namespace ecq_bench
