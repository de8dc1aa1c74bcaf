#include "ecq/base/error.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <string>
#include <string_view>

namespace {

using ecq::errc;
using ecq::error;

TEST(Error, MessagesConsistOfTextsAndNumbers) {
  const std::string name = "layer.0";
  const std::string_view format = "bf16";
  const error failed(errc::corrupt, "tensor '", name, "': ", std::uint8_t{7}, " scales of ", format, ", not ", 256);
  EXPECT_EQ(failed.code(), errc::corrupt);
  EXPECT_EQ(failed.message(), "tensor 'layer.0': 7 scales of bf16, not 256");
  EXPECT_EQ(error(errc::corrupt, name + "!").message(), "layer.0!");
}

TEST(Error, CodeAndMessageMakeALine) {
  EXPECT_EQ(error(errc::io_error, "disk").to_string(), "input/output error: disk");
}

TEST(Error, ContextConsistsOfPartsToo) {
  EXPECT_EQ(error(errc::corrupt, "tag 9").within("chunk ", 3, " of ", 8).message(), "chunk 3 of 8: tag 9");
}

TEST(Error, ContextGoesInFront) {
  EXPECT_EQ(error(errc::corrupt, "tag 9").within("chunk 3").within("model.ecq").message(), "model.ecq: chunk 3: tag 9");
}

TEST(Error, HostileNamesStayVisibleAndOnOneLine) {
  const error failed = error(errc::corrupt, "tensor 'a\nb\x1b[2J'").within("'\xe2\x80\x8bgpj.exe'");
  EXPECT_EQ(failed.message(), R"('\u200bgpj.exe': tensor 'a\x0ab\x1b[2J')");
}

TEST(Error, EveryCodeHasItsOwnName) {
  std::set<std::string_view> names;
  for (int code = static_cast<int>(errc::ok); code <= static_cast<int>(errc::device_error); ++code) {
    const std::string_view name = to_string(static_cast<errc>(code));
    EXPECT_NE(name, "unknown error") << code;
    EXPECT_TRUE(names.insert(name).second) << name;
  }
  EXPECT_EQ(to_string(static_cast<errc>(255)), "unknown error");
}

}  // namespace
