// A run of the device benchmarks survives whatever a kernel does to the measuring process.

#include "../../bench/cuda/record.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

namespace {

using ecq_bench::ending;
using ecq_bench::record;
using ecq_bench::teller;
using ecq_bench::told;

constexpr std::chrono::milliseconds silence(500);

class BenchRecord : public testing::Test {
 protected:
  void SetUp() override {
    file_ = std::filesystem::temp_directory_path() / ("ecq_record_" + std::to_string(getpid()) + ".json");
  }
  void TearDown() override { std::filesystem::remove(file_); }

  std::string file() const { return file_.string(); }
  nlohmann::json read() const { return nlohmann::json::parse(std::ifstream(file_)); }

  /// Returns the record of rows 1 to 5. One call of `measure(number)` measures each row and returns whether the device
  /// is still there.
  template <class Measure>
  nlohmann::json after(Measure&& measure) const {
    record kept(file());
    measure_in_processes(kept, silence, [&](const teller& tell) {
      for (int number = 1; number <= 5; ++number) {
        const std::string name = "row " + std::to_string(number);
        if (kept.begun().contains(name)) continue;
        tell(told::begun, name);
        if (!measure(number)) {
          tell(told::failed, "a fault");
          return ending::device_lost;
        }
        tell(told::row, "{\"number\": " + std::to_string(number) + "}");
      }
      return ending::complete;
    });
    nlohmann::json found = read();
    found["failed"] = kept.failed();
    return found;
  }

  /// Expects figures for all rows but the third, and for the third the reason why it has none.
  static void expect_all_but_three(const nlohmann::json& found, const std::string& why) {
    std::vector<int> numbers;
    for (const auto& row : found["rows"]) numbers.push_back(row["number"]);
    EXPECT_EQ(numbers, (std::vector{1, 2, 4, 5}));
    ASSERT_EQ(found["left_out"].size(), 1U);
    EXPECT_EQ(found["left_out"][0]["row"], "row 3");
    EXPECT_NE(found["left_out"][0]["why"].get<std::string>().find(why), std::string::npos) << found["left_out"];
    EXPECT_TRUE(found["failed"]);
  }

 private:
  std::filesystem::path file_;
};

TEST_F(BenchRecord, HasAllRowsWhereNothingFails) {
  const auto found = after([](int) { return true; });
  EXPECT_EQ(found["rows"].size(), 5U);
  EXPECT_TRUE(found["left_out"].empty());
  EXPECT_FALSE(found["failed"]);
}

TEST_F(BenchRecord, LosesTheRowThatLosesTheDevice) {
  expect_all_but_three(after([](int number) { return number != 3; }), "a fault");
}

TEST_F(BenchRecord, LosesTheRowThatEndsItsProcess) {
  const auto crash = [](int number) {
    if (number == 3) std::raise(SIGKILL);
    return true;
  };
  expect_all_but_three(after(crash), "signal");
}

TEST_F(BenchRecord, GivesUpTheRowThatNeverEnds) {
  const auto hang = [](int number) {
    while (number == 3) usleep(100000);
    return true;
  };
  expect_all_but_three(after(hang), "no answer");
}

TEST_F(BenchRecord, EndsWhereNoProcessGetsAnywhere) {
  record kept(file());
  int calls = 0;
  measure_in_processes(kept, silence, [&](const teller&) {
    ++calls;  // counts in the measuring process only; here it stays 0
    return ending::device_lost;
  });
  EXPECT_EQ(calls, 0);
  EXPECT_TRUE(kept.failed());
  EXPECT_EQ(read()["left_out"][0]["why"], "the device takes no work");
}

TEST_F(BenchRecord, SaysOnceWhatEachProcessSays) {
  record kept(file());
  for (int i = 0; i < 2; ++i) kept.tell(told::note, "\"gpu\": " + ecq_bench::json_text("a \"device\"\n"));
  EXPECT_EQ(read()["gpu"], "a \"device\" ");
}

TEST_F(BenchRecord, GoesOnWhereItsFileCannotBeWritten) {
  record kept("/dev/null/figures.json");
  kept.tell(told::begun, "row");
  kept.tell(told::row, "{}");
  EXPECT_TRUE(kept.failed());
}

}  // namespace
