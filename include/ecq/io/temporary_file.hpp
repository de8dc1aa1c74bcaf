#pragma once
/// \file
/// Temporary files: their names and their removal.

#include <array>
#include <atomic>
#include <filesystem>
#include <string>

#include "ecq/base/config.hpp"

namespace ecq {

namespace detail {

/// Slot for the name of one unfinished file, or of a folder made for such files, which a signal handler can read
/// without allocation or locks. Slots are reused and never freed.
struct unfinished_file {
  enum class state : int { vacant, changing, listed };
  std::atomic<state> current{state::vacant};
  std::array<char, 4096> path{};
  unfinished_file* next = nullptr;
};
static_assert(std::atomic<unfinished_file::state>::is_always_lock_free);
static_assert(std::atomic<unfinished_file*>::is_always_lock_free);

/// List of all slots, the last one made first.
inline constinit std::atomic<unfinished_file*> unfinished_files{nullptr};

/// Lists `path` and returns its slot. Returns null if there is no memory for one or the path is too long; then only the
/// destructor will remove the file.
unfinished_file* list_unfinished(const std::string& path) noexcept;

void unlist_finished(unfinished_file* slot) noexcept;

}  // namespace detail

/// Removes the temporary file of every output_file of this process that is neither committed nor destroyed, and the
/// folders that its output_folders made, if they are then empty. Async-signal-safe: call it from a handler of SIGINT or
/// SIGTERM before leaving with _exit.
void remove_unfinished_files() noexcept;

/// Object that exists while finished files get their names. Several of them may belong together, and an interruption
/// would leave a mixture of two runs. A signal handler calls now() and, if it is true, returns, so that the program
/// goes on to its end.
class finishing_output {
 public:
  finishing_output() noexcept { ++count(); }
  finishing_output(const finishing_output&) = delete;
  finishing_output& operator=(const finishing_output&) = delete;
  ~finishing_output() { --count(); }

  /// Whether a finishing_output exists. Async-signal-safe.
  static bool now() noexcept { return count() != 0; }

 private:
  static std::atomic<int>& count() noexcept {
    static constinit std::atomic<int> existing{0};
    return existing;
  }
};

namespace detail {

/// Returns "<final name>.<16 hex digits>.partial" in the same folder, so that rename() stays within one file system.
std::filesystem::path temporary_name(const std::filesystem::path& path);

#if ECQ_POSIX

/// Locks a new temporary file until its last descriptor is closed, by its owner or by the end of the process. Returns
/// false if remove_abandoned_files() of another run came in between and has removed, or is about to remove, the file.
bool lock_temporary(int descriptor, const std::filesystem::path& path) noexcept;

/// Removes the temporary files for `path` that a killed run left behind: those on which nobody holds a lock.
void remove_abandoned_files(const std::filesystem::path& path);

#endif

}  // namespace detail
}  // namespace ecq

#if ECQ_HEADER_ONLY
#include "ecq/io/temporary_file-inl.hpp"
#endif
