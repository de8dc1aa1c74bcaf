#pragma once
/// \file
/// Pool of threads for work that is too short to start threads for.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "ecq/base/config.hpp"
#include "ecq/base/start_thread.hpp"

namespace ecq {

namespace detail {

/// Waits until `value` differs from `old`. The thread stays awake for `patience`, because waking it takes tens of
/// microseconds, and then sleeps. While awake, it yields its core to other threads that want it.
template <class Value>
void wait_for_change(const std::atomic<Value>& value, Value old, std::chrono::microseconds patience) noexcept {
  using clock = std::chrono::steady_clock;
  constexpr int looks_at_once = 32;
  for (const clock::time_point end = clock::now() + patience; clock::now() < end; std::this_thread::yield()) {
    for (int i = 0; i < looks_at_once; ++i) {
      if (value.load(std::memory_order_acquire) != old) return;
#if ECQ_X86
      __builtin_ia32_pause();
#endif
    }
  }
  value.wait(old, std::memory_order_acquire);
}

}  // namespace detail

/// Threads that wait for work between calls: `ecq::cpu{.pool = &pool}`. A call of a millisecond has no time to start
/// threads. Several threads may use a pool; while it is busy, the others do their work alone.
class worker_pool {
 public:
  /// `threads` includes the caller's thread; 0: as many as the machine has. The pool is smaller if the system gives
  /// fewer threads. After their part of a call, threads stay awake for `patience`, a second at most, in case another
  /// call follows. The products of a language model's layers follow each other within the default.
  explicit worker_pool(unsigned threads = 0, std::chrono::microseconds patience = std::chrono::microseconds(100))
      : patience_((std::min<std::chrono::microseconds>)(patience, std::chrono::seconds(1))) {
    const unsigned wanted = threads != 0 ? threads : std::thread::hardware_concurrency();
    threads_.reserve(wanted);
    while (threads_.size() + 1 < wanted) {
      if (!detail::start_thread(threads_, [this, worker = threads_.size() + 1] { serve(worker); })) break;
    }
  }
  worker_pool(const worker_pool&) = delete;
  worker_pool& operator=(const worker_pool&) = delete;
  ~worker_pool() {
    work_ = nullptr;
    announce();
    for (std::thread& one : threads_) one.join();
  }

  /// Returns the number of threads, the caller's included.
  std::size_t thread_count() const noexcept { return threads_.size() + 1; }

  /// Calls `work(context, worker)` in every thread, with worker 0 in the caller's, and returns once all calls have
  /// returned. If the pool is busy, only worker 0 runs. `work` must not throw.
  void run(void (*work)(void* context, std::size_t worker), void* context) noexcept {
    const std::unique_lock only_caller(busy_, std::try_to_lock);
    if (!only_caller.owns_lock() || threads_.empty()) return work(context, 0);
    work_ = work;
    context_ = context;
    running_.store(threads_.size(), std::memory_order_relaxed);
    announce();
    work(context, 0);
    for (std::size_t left = running_.load(std::memory_order_acquire); left != 0;
         left = running_.load(std::memory_order_acquire)) {
      detail::wait_for_change(running_, left, patience_);
    }
  }

 private:
  void announce() noexcept {
    calls_.fetch_add(1, std::memory_order_release);
    calls_.notify_all();
  }

  void serve(std::size_t worker) noexcept {
    for (std::uint32_t seen = 0;;) {
      detail::wait_for_change(calls_, seen, patience_);
      seen = calls_.load(std::memory_order_acquire);
      if (work_ == nullptr) return;
      work_(context_, worker);
      if (running_.fetch_sub(1, std::memory_order_release) == 1) running_.notify_one();
    }
  }

  std::chrono::microseconds patience_;
  std::mutex busy_;
  void (*work_)(void* context, std::size_t worker) = nullptr;  ///< null: threads end
  void* context_ = nullptr;
  std::atomic<std::uint32_t> calls_{0};
  std::atomic<std::size_t> running_{0};
  std::vector<std::thread> threads_;
};

}  // namespace ecq
