#pragma once
/// \file
/// The threads of a decoder, and loops on them.

#include <atomic>
#include <cstddef>

#include "ecq/base/backend.hpp"
#include "ecq/base/worker_pool.hpp"

namespace llama {

/// Pool of permanent threads, the caller's among them. The products of one token are too short to start threads for
/// each.
class thread_pool {
 public:
  /// Makes a pool of `threads` threads, the caller's included; 0: as many as the machine has.
  explicit thread_pool(unsigned threads = 0) : workers_(threads) {}

  std::size_t size() const noexcept { return workers_.thread_count(); }

  /// Returns a backend that runs verbs of ecq on these threads.
  ecq::cpu backend() noexcept { return {.pool = &workers_}; }

  /// Calls `body(index, worker)` for every index below `count`, in no particular order; `worker`, below size(), is the
  /// number of the thread. `work` is the approximate number of multiplications of all calls: if it is small, no other
  /// threads are woken, because that would take longer. `body` must not throw.
  template <class Body>
  void run(std::size_t count, std::size_t work, const Body& body) {
    constexpr std::size_t worth_waking = std::size_t{1} << 18;
    if (count <= 1 || work < worth_waking) {
      for (std::size_t index = 0; index < count; ++index) body(index, std::size_t{0});
      return;
    }
    struct loop {
      const Body& body;
      std::size_t count;
      std::atomic<std::size_t> next{0};
    } shared{body, count};
    workers_.run(
        [](void* context, std::size_t worker) {
          auto& own = *static_cast<loop*>(context);
          for (std::size_t index = 0; (index = own.next.fetch_add(1, std::memory_order_relaxed)) < own.count;) {
            own.body(index, worker);
          }
        },
        &shared);
  }

 private:
  ecq::worker_pool workers_;
};

}  // namespace llama
