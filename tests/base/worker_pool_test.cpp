// A pool's permanent threads do the same work as threads that are started for each task.

#include "ecq/base/worker_pool.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <thread>
#include <vector>

#include "ecq/base/backend.hpp"

namespace {

TEST(WorkerPool, EveryThreadIsCalledOnceACall) {
  using std::chrono::microseconds;
  for (const unsigned threads : {1U, 2U, 5U}) {
    // Threads that are asleep when they are called, threads that are awake, and threads that never sleep during a test.
    for (const microseconds patience : {microseconds(0), microseconds(100), microseconds::max()}) {
      ecq::worker_pool pool(threads, patience);
      ASSERT_EQ(pool.thread_count(), threads);
      std::vector<int> calls(threads);
      for (int call = 1; call <= 100; ++call) {
        pool.run([](void* all, std::size_t worker) { ++(*static_cast<std::vector<int>*>(all))[worker]; }, &calls);
        EXPECT_EQ(calls, std::vector<int>(threads, call));
      }
    }
  }
}

TEST(WorkerPool, RunsTheTasksOfABackend) {
  ecq::worker_pool pool(3);
  const ecq::cpu backend{.threads = 1, .pool = &pool};
  EXPECT_EQ(backend.thread_count(), 3U);
  for (const std::size_t count : {0U, 1U, 2U, 1000U}) {
    std::vector<std::atomic<int>> done(count);
    ASSERT_TRUE(ecq::parallel_for(backend, count, [&](std::size_t index) -> ecq::result<void> {
      ++done[index];
      return {};
    }));
    for (const auto& one : done) EXPECT_EQ(one, 1);
  }
  const auto failed = ecq::parallel_for(backend, 100, [](std::size_t index) -> ecq::result<void> {
    if (index < 40) return {};
    return ecq::error(ecq::errc::corrupt, "task ", index);
  });
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().message(), "task 40");
}

// A thread that finds the pool busy does its work itself: for calls within calls and for calls by several threads.
TEST(WorkerPool, MayBeUsedWhileItIsBusy) {
  ecq::worker_pool pool(2);
  const ecq::cpu backend{.pool = &pool};
  std::atomic<int> sum{0};
  const auto nested = [&](std::size_t) -> ecq::result<void> {
    return ecq::parallel_for(backend, 10, [&](std::size_t) -> ecq::result<void> {
      ++sum;
      return {};
    });
  };
  ASSERT_TRUE(ecq::parallel_for(backend, 10, nested));
  EXPECT_EQ(sum, 100);
  std::vector<std::thread> others;
  for (int other = 0; other < 4; ++other) {
    others.emplace_back([&] { EXPECT_TRUE(ecq::parallel_for(backend, 25, nested)); });
  }
  for (std::thread& other : others) other.join();
  EXPECT_EQ(sum, 1100);
}

}  // namespace
