#pragma once
/// \file
/// Progress bar of a command, on stderr if that is a terminal.

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>

#include "ecq/checkpoint/progress.hpp"
#include "text.hpp"

namespace tool {

/// A line with stage, share, rate, time left and current item. It is redrawn at most ten times a second and erased with
/// the bar. Draws nothing with `quiet` or when stderr is not a terminal.
class progress_bar {
 public:
  /// `unit` is the unit of the steps, such as B for bytes.
  explicit progress_bar(bool quiet, std::string unit = "B")
      : shown_(!quiet && ::isatty(STDERR_FILENO) != 0), unit_(std::move(unit)) {}
  progress_bar(const progress_bar&) = delete;
  progress_bar& operator=(const progress_bar&) = delete;
  ~progress_bar() { clear(); }

  /// Returns a callback for the library. It refers to this bar.
  ecq::progress_callback callback() {
    return [this](const ecq::progress& step) {
      update(step);
      return true;
    };
  }

  void update(const ecq::progress& step) {
    if (!shown_) return;
    const auto now = clock::now();
    if (step.stage != stage_) {
      stage_ = step.stage;
      started_ = now;
      started_at_ = step.done;
    } else if (now - drawn_ < std::chrono::milliseconds(100)) {
      return;
    }
    drawn_ = now;
    draw(step, std::chrono::duration<double>(now - started_).count());
  }

  void clear() {
    if (drawn_ == clock::time_point{}) return;
    std::fputs("\r\x1b[K", stderr);
    std::fflush(stderr);
    drawn_ = {};
  }

 private:
  using clock = std::chrono::steady_clock;

  void draw(const ecq::progress& step, double seconds) const {
    const double share = step.total == 0 ? 0.0 : static_cast<double>(step.done) / static_cast<double>(step.total);
    constexpr std::size_t cells = 24;
    const auto filled = static_cast<std::size_t>((std::min)(share, 1.0) * static_cast<double>(cells));
    std::string line = printable(step.stage) + " [" + std::string(filled, '#') + std::string(cells - filled, '.') +
                       "] " + decimal(100 * share, 0) + " %";
    const double done = static_cast<double>(step.done - (std::min)(step.done, started_at_));
    if (seconds > 0.5 && done > 0) {
      const double rate = done / seconds;
      const double left = static_cast<double>(step.total - (std::min)(step.total, step.done)) / rate;
      line += "  " + scaled(rate, unit_ + "/s") + "  ETA " + duration(left);
    }
    line += "  " + printable(step.current);
    ::winsize window{};
    std::size_t width = 80;
    if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col > 0) width = window.ws_col;
    if (line.size() >= width) line.resize(width - 1);
    std::fprintf(stderr, "\r\x1b[K%s", line.c_str());
    std::fflush(stderr);
  }

  bool shown_;
  std::string unit_;
  std::string stage_;
  clock::time_point started_{};
  clock::time_point drawn_{};
  std::uint64_t started_at_ = 0;
};

/// Measures the seconds since it was made.
class stopwatch {
 public:
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - started_).count(); }

 private:
  std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
};

}  // namespace tool
