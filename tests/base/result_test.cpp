#include "ecq/base/result.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <string_view>

namespace {

using ecq::errc;
using ecq::error;
using ecq::result;

result<int> half(int value) {
  if (value % 2 != 0) return error(errc::invalid_argument, std::to_string(value) + " is odd");
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

TEST(Result, VoidIsSuccessByDefault) {
  const result<void> done;
  EXPECT_TRUE(done);
  const result<void> failed = error(errc::io_error, "disk");
  EXPECT_FALSE(failed);
  EXPECT_EQ(failed.error().message(), "disk");
}

TEST(Error, ContextGoesInFront) {
  EXPECT_EQ(error(errc::corrupt, "tag 9").within("chunk 3").within("model.ecq").message(), "model.ecq: chunk 3: tag 9");
}

TEST(Error, EveryCodeHasItsOwnName) {
  std::set<std::string_view> names;
  for (int code = static_cast<int>(errc::ok); code <= static_cast<int>(errc::io_error); ++code) {
    const std::string_view name = to_string(static_cast<errc>(code));
    EXPECT_NE(name, "unknown error") << code;
    EXPECT_TRUE(names.insert(name).second) << name;
  }
  EXPECT_EQ(to_string(static_cast<errc>(255)), "unknown error");
}

}  // namespace
