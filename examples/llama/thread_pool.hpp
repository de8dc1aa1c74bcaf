#pragma once
/// \file
/// Threads that stay: products of one token are too short to start threads for each.

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace llama {

/// Threads that run one loop after another, the caller's among them.
class thread_pool {
 public:
  /// `threads` of them, the caller's included; 0: as many as the machine has.
  explicit thread_pool(unsigned threads = 0) {
    const unsigned wanted = threads != 0 ? threads : (std::max)(1U, std::thread::hardware_concurrency());
    for (unsigned worker = 1; worker < wanted; ++worker) {
      try {
        threads_.emplace_back([this, worker] { serve(worker); });
      } catch (const std::system_error&) {
        break;  // fewer threads than asked for still finish the work
      }
    }
  }
  thread_pool(const thread_pool&) = delete;
  thread_pool& operator=(const thread_pool&) = delete;
  ~thread_pool() {
    {
      const std::scoped_lock lock(guard_);
      stopping_ = true;
    }
    called_.notify_all();
    for (std::thread& one : threads_) one.join();
  }

  std::size_t size() const noexcept { return threads_.size() + 1; }

  /// Calls `body(index, worker)` for every index below `count`, in no particular order; `worker`, below size(), is the
  /// number of the thread. `work` is about how many multiplications all calls make: few are made without other threads,
  /// as waking them would take longer. `body` must not throw. One thread alone may call this.
  template <class Body>
  void run(std::size_t count, std::size_t work, const Body& body) {
    constexpr std::size_t worth_waking = std::size_t{1} << 18;
    if (count <= 1 || work < worth_waking || threads_.empty()) {
      for (std::size_t index = 0; index < count; ++index) body(index, std::size_t{0});
      return;
    }
    {
      const std::scoped_lock lock(guard_);
      body_ = std::addressof(body);
      call_ = [](const void* one, std::size_t index, std::size_t worker) {
        (*static_cast<const Body*>(one))(index, worker);
      };
      count_ = count;
      next_.store(0, std::memory_order_relaxed);
      working_ = threads_.size();
      ++loop_;
    }
    called_.notify_all();
    take_part(0);
    std::unique_lock lock(guard_);
    finished_.wait(lock, [&] { return working_ == 0; });
  }

 private:
  void take_part(std::size_t worker) {
    for (std::size_t index = 0; (index = next_.fetch_add(1, std::memory_order_relaxed)) < count_;) {
      call_(body_, index, worker);
    }
  }

  void serve(std::size_t worker) {
    std::size_t seen = 0;
    for (std::unique_lock lock(guard_);;) {
      called_.wait(lock, [&] { return stopping_ || loop_ != seen; });
      if (stopping_) return;
      seen = loop_;
      lock.unlock();
      take_part(worker);
      lock.lock();
      if (--working_ == 0) finished_.notify_one();
    }
  }

  std::mutex guard_;
  std::condition_variable called_, finished_;
  const void* body_ = nullptr;
  void (*call_)(const void* body, std::size_t index, std::size_t worker) = nullptr;
  std::size_t count_ = 0;
  std::size_t loop_ = 0;     ///< counts the loops
  std::size_t working_ = 0;  ///< threads that have not finished the loop
  bool stopping_ = false;
  std::atomic<std::size_t> next_{0};
  std::vector<std::thread> threads_;
};

}  // namespace llama
