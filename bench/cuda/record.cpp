#include "record.hpp"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>
#if defined(__linux__)
#include <sys/prctl.h>
#endif

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace ecq_bench {

std::string json_text(std::string_view text) {
  std::string made = "\"";
  for (const char one : text) {
    if (one == '"' || one == '\\') made += '\\';
    made += static_cast<unsigned char>(one) < 0x20 ? ' ' : one;
  }
  return made + '"';
}

void record::tell(told kind, const std::string& text) {
  switch (kind) {
    case told::note:  // each process reports its device
      if (std::find(notes_.begin(), notes_.end(), text) == notes_.end()) notes_.push_back(text);
      break;
    case told::copy: copies_.push_back(text); break;
    case told::begun:
      current_ = text;
      begun_.insert(text);
      return;
    case told::row:
      rows_.push_back(text);
      current_.clear();
      break;
    case told::failed:
      failed_ = true;
      std::fprintf(stderr, "bench_cuda: %s: %s\n", current_.c_str(), text.c_str());
      [[fallthrough]];
    case told::left_out:
      left_out_.push_back("{\"row\": " + json_text(current_) + ", \"why\": " + json_text(text) + "}");
      current_.clear();
      break;
  }
  write();
}

void record::abandon(const std::string& why) {
  if (!in_row()) current_ = "between rows";
  tell(told::failed, why);
}

void record::write() {
  if (json_.empty()) return;
  const std::string unfinished = json_ + ".part";
  std::FILE* const file = std::fopen(unfinished.c_str(), "w");
  bool written = file != nullptr;
  if (written) {
    std::fprintf(file, "{\n");
    for (const std::string& note : notes_) std::fprintf(file, "  %s,\n", note.c_str());
    for (const auto& [name, all] : {std::pair("copies", &copies_), {"rows", &rows_}, {"left_out", &left_out_}}) {
      std::fprintf(file, "  \"%s\": [", name);
      const char* comma = "\n    ";
      for (const std::string& one : *all) {
        std::fprintf(file, "%s%s", comma, one.c_str());
        comma = ",\n    ";
      }
      std::fprintf(file, "%s],\n", all->empty() ? "" : "\n  ");
    }
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start_;
    std::fprintf(file, "  \"seconds\": %.1f\n}\n", elapsed.count());
    written = std::fflush(file) == 0 && std::ferror(file) == 0;
    written = std::fclose(file) == 0 && written && std::rename(unfinished.c_str(), json_.c_str()) == 0;
  }
  if (written) return;
  // Reported once: the table on standard output goes on.
  if (!failed_) std::fprintf(stderr, "bench_cuda: cannot write %s: %s\n", json_.c_str(), std::strerror(errno));
  failed_ = true;
}

namespace {

[[noreturn]] void measure_and_exit(int to, const std::function<ending(const teller&)>& measure) {
#if defined(__linux__)
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // ending the run ends this process, too
#endif
  const ending how = measure([to](told kind, const std::string& text) {
    std::string line(1, static_cast<char>(kind));
    for (const char one : text) line += one == '\n' ? ' ' : one;
    line += '\n';
    for (std::string_view left = line; !left.empty();) {
      const ssize_t sent = write(to, left.data(), left.size());
      if (sent > 0) left.remove_prefix(static_cast<std::size_t>(sent));
      if (sent < 0 && errno != EINTR) _exit(EXIT_FAILURE);
    }
  });
  std::fflush(nullptr);
  // Not by exit(): the clean-up by a lost device's runtime may hang.
  _exit(static_cast<int>(how));
}

/// Reads the reports of the process until it ends. Returns false if it was silent for too long.
bool listen(record& kept, int from, std::chrono::milliseconds silence) {
  std::string unread;
  for (;;) {
    pollfd waiting = {from, POLLIN, 0};
    const int ready = poll(&waiting, 1, static_cast<int>(silence.count()));
    if (ready == 0) return false;
    char some[4096];
    const ssize_t got = ready < 0 ? -1 : read(from, some, sizeof some);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return true;
    unread.append(some, static_cast<std::size_t>(got));
    for (std::size_t end; (end = unread.find('\n')) != std::string::npos; unread.erase(0, end + 1)) {
      kept.tell(static_cast<told>(unread[0]), unread.substr(1, end - 1));
    }
  }
}

}  // namespace

void measure_in_processes(record& kept, std::chrono::milliseconds silence,
                          const std::function<ending(const teller&)>& measure) {
  for (;;) {
    const std::size_t begun_before = kept.begun().size();
    int ends[2];
    if (pipe(ends) != 0) return kept.abandon(std::string("no pipe: ") + std::strerror(errno));
    std::fflush(nullptr);
    const pid_t process = fork();
    if (process < 0) return kept.abandon(std::string("no process: ") + std::strerror(errno));
    if (process == 0) {
      close(ends[0]);
      measure_and_exit(ends[1], measure);
    }
    close(ends[1]);
    const bool heard = listen(kept, ends[0], silence);
    if (!heard) kill(process, SIGKILL);
    close(ends[0]);
    int status = 0;
    while (waitpid(process, &status, 0) < 0 && errno == EINTR) continue;

    if (!heard) {
      kept.abandon("no answer for " + std::to_string(silence.count() / 1000) + " s");
    } else if (WIFSIGNALED(status)) {
      kept.abandon(std::string("ended by a signal: ") + strsignal(WTERMSIG(status)));
    } else if (WEXITSTATUS(status) != static_cast<int>(ending::device_lost)) {
      if (WEXITSTATUS(status) != static_cast<int>(ending::complete)) kept.abandon("the process failed");
      return;
    }
    if (kept.begun().size() == begun_before) return kept.abandon("the device takes no work");
    std::fprintf(stderr, "bench_cuda: on with the next row, in a new process\n");
  }
}

}  // namespace ecq_bench
