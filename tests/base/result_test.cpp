#include "ecq/base/result.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <new>
#include <string>
#include <type_traits>
#include <utility>

namespace {

using ecq::errc;
using ecq::error;
using ecq::result;

result<int> half(int value) {
  if (value % 2 != 0) return error(errc::invalid_argument, value, " is odd");
  return value / 2;
}

result<void> require_positive(int value) {
  if (value <= 0) return error(errc::limit_exceeded, "not positive");
  return {};
}

result<int> quarter_of_positive(int value) {
  ECQ_CHECK(require_positive(value));
  ECQ_TRY(once, half(value));
  ECQ_TRY(twice, half(once));
  return twice;
}

result<std::unique_ptr<int>> boxed(int value) {
  ECQ_TRY(halved, half(value));
  return std::make_unique<int>(halved);
}

result<void> check_only(int value) {
  ECQ_TRY(box, boxed(value));
  ECQ_CHECK(require_positive(*box));
  return {};
}

TEST(Result, HoldsAValue) {
  const auto outcome = half(6);
  ASSERT_TRUE(outcome);
  EXPECT_TRUE(outcome.has_value());
  EXPECT_EQ(*outcome, 3);
}

TEST(Result, HoldsAnError) {
  const auto outcome = half(7);
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code(), errc::invalid_argument);
  EXPECT_EQ(outcome.error().message(), "7 is odd");
  EXPECT_EQ(outcome.error().to_string(), "invalid argument: 7 is odd");
}

TEST(Result, ErrorsPassThroughTheMacros) {
  EXPECT_EQ(*quarter_of_positive(8), 2);
  EXPECT_EQ(quarter_of_positive(-4).error().code(), errc::limit_exceeded);
  EXPECT_EQ(quarter_of_positive(3).error().message(), "3 is odd");
  EXPECT_EQ(quarter_of_positive(6).error().message(), "3 is odd");
  EXPECT_TRUE(check_only(2));
  EXPECT_EQ(check_only(0).error().message(), "not positive");
}

TEST(Result, MoveOnlyValuesMoveOut) {
  auto outcome = boxed(8);
  ASSERT_TRUE(outcome);
  const std::unique_ptr<int> box = *std::move(outcome);
  EXPECT_EQ(*box, 4);
}

TEST(Result, GivesAnotherValueInsteadOfAnError) {
  EXPECT_EQ(half(6).value_or(1), 3);
  EXPECT_EQ(half(7).value_or(1), 1);
  const result<std::string> failed = error(errc::truncated, "end");
  EXPECT_EQ(failed.value_or("nothing"), "nothing");
  EXPECT_EQ(*boxed(8).value_or(nullptr), 4);
}

TEST(Result, AssignmentGoesBetweenValuesAndErrors) {
  const auto shared = std::make_shared<int>(5);
  result<std::shared_ptr<int>> first = shared;
  result<std::shared_ptr<int>> second = error(errc::io_error, "disk");
  EXPECT_EQ(shared.use_count(), 2);

  second = first;
  ASSERT_TRUE(second);
  EXPECT_EQ(shared.use_count(), 3);
  first = error(errc::corrupt, "bits");
  ASSERT_FALSE(first);
  EXPECT_EQ(first.error().message(), "bits");
  EXPECT_EQ(shared.use_count(), 2);
  first = std::move(second);
  ASSERT_TRUE(first);
  EXPECT_EQ(**first, 5);
  EXPECT_EQ(shared.use_count(), 2);
  const auto& itself = first;
  first = itself;
  EXPECT_EQ(**first, 5);
  EXPECT_EQ(shared.use_count(), 2);
}

TEST(Result, CopiesAreTheirOwn) {
  const result<std::string> word = std::string("a word that is longer than any short string");
  auto copy = word;
  copy->front() = 'A';
  EXPECT_EQ(word->front(), 'a');
  const result<std::string> failed = error(errc::truncated, "end");
  EXPECT_EQ(result<std::string>(failed).error().message(), "end");
  static_assert(std::is_copy_constructible_v<result<std::string>>);
  static_assert(!std::is_copy_constructible_v<result<std::unique_ptr<int>>>);
  static_assert(std::is_nothrow_move_constructible_v<result<std::unique_ptr<int>>>);
}

/// Value that counts its living instances and whose copy constructor may throw.
struct fragile {
  explicit fragile(int of) : number(of) { ++alive; }
  fragile(fragile&& other) noexcept : number(other.number) { ++alive; }
  fragile(const fragile& other) : number(other.number) {
    if (number < 0) throw std::bad_alloc();
    ++alive;
  }
  ~fragile() { --alive; }

  static inline int alive = 0;
  int number;
};

TEST(Result, KeepsWhatItHasIfACopyFails) {
  {
    result<fragile> kept = fragile(3);
    result<fragile> failed = error(errc::corrupt, "bits");
    const result<fragile> refuses = fragile(-1);
    EXPECT_EQ(fragile::alive, 2);
    EXPECT_THROW(kept = refuses, std::bad_alloc);
    EXPECT_THROW(failed = refuses, std::bad_alloc);
    EXPECT_THROW(static_cast<void>(result<fragile>(refuses)), std::bad_alloc);
    EXPECT_EQ(fragile::alive, 2);
    ASSERT_TRUE(kept);
    EXPECT_EQ(kept->number, 3);
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().message(), "bits");
  }
  EXPECT_EQ(fragile::alive, 0);
}

TEST(Result, VoidIsSuccessByDefault) {
  const result<void> done;
  EXPECT_TRUE(done);
  const result<void> failed = error(errc::io_error, "disk");
  EXPECT_FALSE(failed);
  EXPECT_EQ(failed.error().message(), "disk");
}

}  // namespace
