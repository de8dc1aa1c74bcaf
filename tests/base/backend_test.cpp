#include "ecq/base/backend.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <new>
#include <string>
#include <vector>

namespace {

using ecq::cpu;
using ecq::errc;
using ecq::error;
using ecq::parallel_for;
using ecq::result;

TEST(ParallelFor, VisitsEveryIndexOnce) {
  for (const unsigned threads : {0U, 1U, 2U, 3U, 8U}) {
    for (const std::size_t count : {0U, 1U, 2U, 7U, 1000U}) {
      std::vector<std::atomic<int>> visits(count);
      const auto done = parallel_for(cpu{.threads = threads}, count, [&](std::size_t index) -> result<void> {
        visits[index].fetch_add(1);
        return {};
      });
      EXPECT_TRUE(done);
      for (const auto& visit : visits) EXPECT_EQ(visit.load(), 1);
    }
  }
}

TEST(ParallelFor, ReturnsTheErrorOfTheLowestIndex) {
  for (const unsigned threads : {1U, 2U, 5U}) {
    for (int repetition = 0; repetition < 50; ++repetition) {
      const auto outcome = parallel_for(cpu{.threads = threads}, 200, [](std::size_t index) -> result<void> {
        if (index % 30 == 17) return error(errc::corrupt, std::to_string(index));
        return {};
      });
      ASSERT_FALSE(outcome);
      EXPECT_EQ(outcome.error().message(), "17");
    }
  }
}

TEST(ParallelFor, OutOfMemoryIsAnError) {
  for (const unsigned threads : {1U, 3U}) {
    const auto outcome = parallel_for(cpu{.threads = threads}, 10, [](std::size_t index) -> result<void> {
      if (index == 4) throw std::bad_alloc();
      return {};
    });
    ASSERT_FALSE(outcome);
    EXPECT_EQ(outcome.error().code(), errc::out_of_memory);
  }
}

TEST(Cpu, ThreadCount) {
  EXPECT_EQ(cpu{}.thread_count(), 1U);
  EXPECT_EQ((cpu{.threads = 7}.thread_count()), 7U);
  EXPECT_GE((cpu{.threads = 0}.thread_count()), 1U);
}

}  // namespace
