#pragma once
/// \file
/// Definition of the loop over tasks on the CPU.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "ecq/base/backend.hpp"
#include "ecq/base/config.hpp"
#include "ecq/base/out_of_memory.hpp"
#include "ecq/base/result.hpp"
#include "ecq/base/worker_pool.hpp"

namespace ecq {

ECQ_INLINE unsigned cpu::thread_count() const noexcept {
  if (pool != nullptr) return static_cast<unsigned>(pool->thread_count());
  return threads != 0 ? threads : (std::max)(1U, std::thread::hardware_concurrency());
}

namespace detail {

/// Threads joined at the end of a scope. (libc++ has no std::jthread before version 20.)
struct joined_threads {
  joined_threads() = default;
  joined_threads(const joined_threads&) = delete;
  joined_threads& operator=(const joined_threads&) = delete;
  ~joined_threads() {
    for (std::thread& one : all) one.join();
  }

  std::vector<std::thread> all;
};

ECQ_INLINE result<void> run_tasks(const cpu& backend, std::size_t count, void* task,
                                  result<void> (*call)(void* task, std::size_t index)) {
  const auto guarded = [&](std::size_t index) -> result<void> {
    const auto failed = [] { return error(errc::out_of_memory, "allocation failed"); };
    return or_out_of_memory(failed, [&] { return call(task, index); });
  };
  const std::size_t workers = (std::min)(static_cast<std::size_t>(backend.thread_count()), count);
  if (workers <= 1) {
    for (std::size_t index = 0; index < count; ++index) ECQ_CHECK(guarded(index));
    return {};
  }
  std::atomic<std::size_t> next{0};
  std::atomic<std::size_t> first_failure{count};
  std::vector<result<void>> failures(workers);
  std::vector<std::size_t> failed_at(workers, count);
  const auto work = [&](std::size_t worker) {
    while (worker < workers) {
      const std::size_t index = next.fetch_add(1, std::memory_order_relaxed);
      if (index >= count || index > first_failure.load(std::memory_order_relaxed)) return;
      auto outcome = guarded(index);
      if (outcome) continue;
      failures[worker] = std::move(outcome);
      failed_at[worker] = index;
      std::size_t seen = first_failure.load(std::memory_order_relaxed);
      while (index < seen && !first_failure.compare_exchange_weak(seen, index, std::memory_order_relaxed)) {
      }
      return;
    }
  };
  if (backend.pool != nullptr) {
    backend.pool->run([](void* body, std::size_t worker) { (*static_cast<decltype(work)*>(body))(worker); },
                      const_cast<void*>(static_cast<const void*>(&work)));
  } else {
    joined_threads pool;
    pool.all.reserve(workers - 1);
    for (std::size_t worker = 1; worker < workers; ++worker) {
      if (!start_thread(pool.all, work, worker)) break;  // fewer threads than asked for still finish the work
    }
    work(0);
  }
  const auto worst = std::min_element(failed_at.begin(), failed_at.end());
  if (*worst == count) return {};
  return std::move(failures[static_cast<std::size_t>(worst - failed_at.begin())]);
}

}  // namespace detail

}  // namespace ecq
