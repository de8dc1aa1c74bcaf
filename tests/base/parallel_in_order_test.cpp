#include "ecq/base/parallel_in_order.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <new>
#include <thread>
#include <vector>

namespace {

using ecq::cpu;
using ecq::errc;
using ecq::parallel_in_order;
using namespace std::chrono_literals;

TEST(ParallelInOrder, TakesWhatWasMadeByAscendingIndex) {
  for (const unsigned threads : {0U, 1U, 2U, 3U, 8U}) {
    for (const std::size_t count : {0U, 1U, 2U, 7U, 1000U}) {
      std::vector<std::atomic<int>> visits(count);
      std::vector<std::size_t> taken;
      const auto done = parallel_in_order<std::vector<std::size_t>>(
          cpu{.threads = threads}, count,
          [&](std::size_t index, std::vector<std::size_t>& made) {
            visits[index].fetch_add(1);
            made.assign(index % 5, index);
          },
          [&](std::size_t index, const std::vector<std::size_t>& made) {
            EXPECT_EQ(made, std::vector<std::size_t>(index % 5, index));
            taken.push_back(index);
          });
      EXPECT_TRUE(done);
      for (const auto& visit : visits) EXPECT_EQ(visit.load(), 1);
      ASSERT_EQ(taken.size(), count);
      for (std::size_t index = 0; index < count; ++index) EXPECT_EQ(taken[index], index);
    }
  }
}

struct counted {
  static inline std::atomic<int> alive{0};
  static inline std::atomic<int> built{0};

  counted() {
    ++alive;
    ++built;
  }
  counted(const counted&) = delete;
  counted& operator=(const counted&) = delete;
  ~counted() { --alive; }
};

TEST(ParallelInOrder, HasTwoItemsAThreadAtMost) {
  for (const unsigned threads : {1U, 2U, 5U}) {
    counted::built = 0;
    const auto nothing = [](std::size_t, const counted&) {};
    EXPECT_TRUE(parallel_in_order<counted>(cpu{.threads = threads}, 500, nothing, nothing));
    EXPECT_LE(counted::built.load(), static_cast<int>(2 * threads));
    EXPECT_EQ(counted::alive.load(), 0);
  }
}

TEST(ParallelInOrder, MakesNothingFarAheadOfWhatIsTaken) {
  constexpr std::size_t threads = 3;
  std::atomic<std::size_t> begun{0};
  std::atomic<std::size_t> taken{0};
  EXPECT_TRUE(parallel_in_order<int>(
      cpu{.threads = threads}, 300,
      [&](std::size_t index, int&) {
        EXPECT_LT(index, taken.load() + 2 * threads);
        begun.fetch_add(1);
        // Gives the other threads time to run ahead, in case they do.
        for (int i = 0; index == 0 && i < 20 && begun.load() <= 2 * threads; ++i) std::this_thread::sleep_for(1ms);
      },
      [&](std::size_t, const int&) { taken.fetch_add(1); }));
  EXPECT_EQ(taken.load(), 300U);
}

TEST(ParallelInOrder, OutOfMemoryIsAnErrorAndNobodyWaitsForIt) {
  for (const unsigned threads : {1U, 2U, 5U}) {
    for (const bool while_taking : {false, true}) {
      for (const std::size_t failing : {0U, 1U, 40U, 99U}) {
        std::size_t taken = 0;
        const auto outcome = parallel_in_order<int>(
            cpu{.threads = threads}, 100,
            [&](std::size_t index, int&) {
              if (!while_taking && index == failing) throw std::bad_alloc();
            },
            [&](std::size_t index, const int&) {
              if (while_taking && index == failing) throw std::bad_alloc();
              ++taken;
            });
        ASSERT_FALSE(outcome);
        EXPECT_EQ(outcome.error().code(), errc::out_of_memory);
        EXPECT_LE(taken, failing);
      }
    }
  }
}

}  // namespace
