#include "ecq/io/safetensors.hpp"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/files.hpp"

namespace {

using ecq::errc;
using ecq::safetensors_file;
using ecq_test::as_bytes;
using ecq_test::as_text;
using ecq_test::safetensors_text;
using ecq_test::temporary_folder;
using ecq_test::write_file;

ecq::result<ecq::safetensors_header> parse(const std::string& file) { return ecq::parse_safetensors(as_bytes(file)); }

errc code_of(const std::string& file) {
  const auto header = parse(file);
  if (header) return errc::ok;
  EXPECT_FALSE(header.error().message().empty());
  return header.error().code();
}

std::string message_of(const std::string& file) {
  const auto header = parse(file);
  return header ? "" : header.error().message();
}

/// Returns the member of a header that describes a tensor.
std::string tensor(std::string_view name, std::string_view dtype, std::string_view shape, std::string_view offsets) {
  std::string text = "\"";
  text.append(name).append(R"(":{"dtype":")").append(dtype).append(R"(","shape":[)").append(shape);
  return text.append(R"(],"data_offsets":[)").append(offsets).append("]}");
}

TEST(Safetensors, EveryDtypeHasItsSize) {
  for (const auto& [name, bits] : ecq::safetensors_dtypes) {
    const std::string bytes = std::to_string(bits);  // bytes of 8 elements
    EXPECT_EQ(code_of(safetensors_text("{" + tensor("t", name, "2,4", "0," + bytes) + "}", std::string(bits, 'x'))),
              errc::ok)
        << name;
    EXPECT_EQ(code_of(safetensors_text("{" + tensor("t", name, "2,5", "0," + bytes) + "}", std::string(bits, 'x'))),
              errc::corrupt)
        << name;
  }
  for (const auto type : ecq::all_dtypes) {
    if (type == ecq::dtype::uint4) continue;
    const auto* found = ecq::find_safetensors_dtype(ecq::safetensors_name(type));
    ASSERT_NE(found, nullptr);
    EXPECT_EQ(found->bits, 8 * ecq::size_of(type));
    EXPECT_EQ(ecq::dtype_from_safetensors(found->name), type);
  }
  EXPECT_EQ(ecq::dtype_from_safetensors(""), std::nullopt);
  EXPECT_EQ(ecq::dtype_from_safetensors("I64"), std::nullopt);
}

TEST(Safetensors, ReadsAFile) {
  const temporary_folder folder;
  // Written out of order, with an empty tensor, a scalar, escapes and trailing white space.
  const std::string header = "{" + tensor("second", "U8", "3", "4,7") + "," + tensor("fir\\u0073t", "F32", "", "0,4") +
                             "," + R"("__metadata__":{"z":"1","a":"\u00e4"},)" + tensor("none", "I64", "0,9", "7,7") +
                             "}   ";
  write_file(folder / "file", safetensors_text(header, "abcdefg"));
  const auto file = safetensors_file::open(folder / "file");
  ASSERT_TRUE(file) << file.error().to_string();
  ASSERT_EQ(file->tensors().size(), 3U);
  EXPECT_EQ(file->tensors()[0].name, "first");
  EXPECT_EQ(file->tensors()[0].dtype, "F32");
  EXPECT_TRUE(file->tensors()[0].shape.empty());
  EXPECT_EQ(file->tensors()[1].name, "second");
  EXPECT_EQ(file->tensors()[2].shape, (std::vector<std::uint64_t>{0, 9}));
  EXPECT_EQ(as_text(file->bytes(file->tensors()[0])), "abcd");
  EXPECT_EQ(as_text(file->bytes(file->tensors()[1])), "efg");
  EXPECT_TRUE(file->bytes(file->tensors()[2]).empty());
  file->release(file->tensors()[1]);
  file->release(file->tensors()[2]);
  EXPECT_EQ(as_text(file->bytes(file->tensors()[1])), "efg");
  EXPECT_EQ(file->metadata(), (ecq::string_map{{"z", "1"}, {"a", "\xc3\xa4"}}));
  EXPECT_EQ(file->find("second"), &file->tensors()[1]);
  EXPECT_EQ(file->find("nothing"), nullptr);
  EXPECT_EQ(file->find(""), nullptr);
  EXPECT_EQ(as_text(file->header_bytes()), safetensors_text(header));
}

TEST(Safetensors, SmallestFiles) {
  EXPECT_EQ(code_of(safetensors_text("{}")), errc::ok);
  EXPECT_EQ(code_of(safetensors_text("{}      ")), errc::ok);
  EXPECT_EQ(code_of(""), errc::truncated);
  EXPECT_EQ(code_of("1234567"), errc::truncated);
  EXPECT_EQ(code_of(std::string(8, '\0')), errc::corrupt);
}

TEST(Safetensors, LyingHeaderLengths) {
  const std::string good = safetensors_text("{}");
  const auto with_length = [&](std::uint64_t length) {
    std::string file = good;
    for (std::size_t index = 0; index < 8; ++index) file[index] = static_cast<char>((length >> (8 * index)) & 0xFFU);
    return file;
  };
  EXPECT_EQ(code_of(with_length(3)), errc::truncated);
  EXPECT_EQ(code_of(with_length(100'000'000)), errc::truncated);
  EXPECT_EQ(code_of(with_length(100'000'001)), errc::limit_exceeded);
  EXPECT_EQ(code_of(with_length(std::uint64_t{1} << 63)), errc::limit_exceeded);
  EXPECT_EQ(code_of(with_length(~std::uint64_t{0})), errc::limit_exceeded);
  EXPECT_EQ(code_of(with_length(~std::uint64_t{0} - 7)), errc::limit_exceeded);
  EXPECT_EQ(code_of(with_length(1)), errc::corrupt);
}

TEST(Safetensors, FilesOfOtherKindsAreNamed) {
  const std::pair<std::string, std::string> files[] = {
      {"version https://git-lfs.github.com/spec/v1\noid sha256:0123\nsize 42\n", "`git lfs pull`"},
      {std::string("PK\x03\x04\0\0\x08\x08", 8), "ZIP archive, as written by PyTorch"},
      {std::string("\x80\x02\x8a\nl\xfc\x9c\x46\xf9 j", 11), "Python pickle, as written by PyTorch"},
      {"\x80\x04\x95 frame", "Python pickle;"},
      {std::string("GGUF\x03\0\0\0\x23", 9), "GGUF file; docs/using.md"},
      {"\x89HDF\r\n\x1a\n", "HDF5"},
      {std::string("\x93NUMPY\1\0v", 9), "NumPy array"},
      {"<!DOCTYPE html>", "HTML page"},
      {"<html lang=\"en\">", "HTML page"},
      {"{\"weight_map\": {}}", "JSON"},
  };
  for (const auto& [start, words] : files) {
    const auto opened = ecq::parse_safetensors(std::as_bytes(std::span(start)));
    ASSERT_FALSE(opened) << words;
    EXPECT_EQ(opened.error().code(), errc::unsupported) << words;
    EXPECT_NE(opened.error().message().find(words), std::string::npos) << opened.error().to_string();
  }
}

TEST(Safetensors, LyingOffsetsAndShapes) {
  struct lie {
    std::string members;
    std::size_t data;
    errc code;
  };
  const std::string huge = "18446744073709551615";
  const lie lies[] = {
      {tensor("t", "U8", "4", "0,4"), 3, errc::truncated},
      {tensor("t", "U8", "4", "0,4"), 5, errc::corrupt},
      {tensor("t", "U8", "4", "1,5"), 5, errc::corrupt},
      {tensor("t", "U8", "4", "4,0"), 4, errc::corrupt},
      {tensor("t", "U8", "4", "0,3"), 4, errc::corrupt},
      {tensor("t", "U8", "4", "0"), 4, errc::corrupt},
      {tensor("t", "U8", "4", "0,4,8"), 4, errc::limit_exceeded},
      {tensor("t", "U8", "4", "0,4.0"), 4, errc::corrupt},
      {tensor("t", "U8", "4", "0,-4"), 4, errc::corrupt},
      {tensor("t", "U8", "4.0", "0,4"), 4, errc::corrupt},
      {tensor("t", "U8", "-4", "0,4"), 4, errc::corrupt},
      {tensor("t", "U8", "4e0", "0,4"), 4, errc::corrupt},
      {tensor("t", "U8", "\"4\"", "0,4"), 4, errc::corrupt},
      {tensor("t", "U8", "null", "0,4"), 4, errc::corrupt},
      {tensor("t", "U8", huge + "," + huge, "0,1"), 1, errc::corrupt},
      {tensor("t", "F64", "2305843009213693952", "0,0"), 0, errc::corrupt},  // 2^61 x 8 bytes = 2^64
      {tensor("t", "U8", "4294967296,4294967296", "0,0"), 0, errc::corrupt},
      {tensor("t", "F32", "1000000000,1000000000", "0,4000000000000000000"), 4, errc::truncated},
      {tensor("t", "U8", "18446744073709551616", "0,0"), 0, errc::corrupt},
      {tensor("t", "U8", huge, "0," + huge), 0, errc::corrupt},
      {tensor("t", "F32", "1", huge + ",3"), 4, errc::corrupt},
      {tensor("t", "F4", "3", "0,1"), 1, errc::corrupt},
      {tensor("t", "F99", "4", "0,4"), 4, errc::unsupported},
      {tensor("t", "u8", "4", "0,4"), 4, errc::unsupported},
      {tensor("t", "", "4", "0,4"), 4, errc::unsupported},
      {tensor("a", "U8", "4", "0,4") + "," + tensor("b", "U8", "4", "3,7"), 7, errc::corrupt},
      {tensor("a", "U8", "4", "0,4") + "," + tensor("b", "U8", "4", "0,4"), 4, errc::corrupt},
      {tensor("a", "U8", "4", "0,4") + "," + tensor("b", "U8", "4", "5,9"), 9, errc::corrupt},
      {tensor("a", "U8", "4", "0,4") + "," + tensor("a", "U8", "4", "4,8"), 8, errc::corrupt},
      {tensor("a", "U8", "4", "0,4") + "," + tensor("\\u0061", "U8", "4", "4,8"), 8, errc::corrupt},
      {tensor("a", "U8", "0", "9,9"), 0, errc::corrupt},
      {"", 1, errc::corrupt},
      {R"("t":{"dtype":"U8","shape":[4]})", 4, errc::corrupt},
      {R"("t":{"shape":[4],"data_offsets":[0,4]})", 4, errc::corrupt},
      {R"("t":{"dtype":"U8","data_offsets":[0,4]})", 4, errc::corrupt},
      {R"("t":{"dtype":"U8","shape":[4],"data_offsets":[0,4],"extra":1})", 4, errc::corrupt},
      {R"("t":{"dtype":"U8","dtype":"U8","shape":[4],"data_offsets":[0,4]})", 4, errc::corrupt},
      {R"("t":{"dtype":8,"shape":[4],"data_offsets":[0,4]})", 4, errc::corrupt},
      {R"("t":[])", 0, errc::corrupt},
      {R"("t":null)", 0, errc::corrupt},
      {R"("__metadata__":{"a":1})", 0, errc::corrupt},
      {R"("__metadata__":{"a":{}})", 0, errc::corrupt},
      {R"("__metadata__":{"a":"x","a":"y"})", 0, errc::corrupt},
      {R"("__metadata__":[])", 0, errc::corrupt},
      {R"("__metadata__":null)", 0, errc::corrupt},
      {R"("__metadata__":{},"__metadata__":{})", 0, errc::corrupt},
  };
  for (const lie& each : lies) {
    EXPECT_EQ(code_of(safetensors_text("{" + each.members + "}", std::string(each.data, 'x'))), each.code)
        << each.members;
  }
  EXPECT_NE(message_of(safetensors_text("{" + tensor("layer.7", "F99", "4", "0,4") + "}", "1234")).find("layer.7"),
            std::string::npos);
  EXPECT_NE(message_of(safetensors_text("{" + tensor("t", "F99", "4", "0,4") + "}", "1234")).find("F99"),
            std::string::npos);
}

TEST(Safetensors, BadJson) {
  for (const std::string_view header :
       {"", "[]", " {}", "{", "{}}", "{},", "null", "{\"a\"}", "{'a':1}", "{\"a\":}",
        "{\"__metadata__\":{\"a\":\"\xff\"}}", "{\"__metadata__\":{\"a\":\"\\ud800\"}}", "{}x"}) {
    EXPECT_EQ(code_of(safetensors_text(header)), errc::corrupt) << header;
  }
  EXPECT_EQ(code_of(safetensors_text(std::string("{}\0", 3))), errc::corrupt);
}

TEST(Safetensors, NestingAndNumbersAreBounded) {
  EXPECT_EQ(code_of(safetensors_text("{\"t\":" + std::string(1'000'000, '['))), errc::corrupt);
  std::string objects = "{";
  for (int level = 0; level < 100'000; ++level) objects += "\"a\":{";
  EXPECT_EQ(code_of(safetensors_text(objects)), errc::corrupt);
  std::string ones = "1";
  for (int axis = 0; axis < 63; ++axis) ones += ",1";
  EXPECT_EQ(code_of(safetensors_text("{" + tensor("t", "U8", ones, "0,1") + "}", "x")), errc::ok);
  EXPECT_EQ(code_of(safetensors_text("{" + tensor("t", "U8", ones + ",1", "0,1") + "}", "x")), errc::limit_exceeded);
}

TEST(Safetensors, TruncatedOrChangedAnywhereIsSurvived) {
  const std::string file = safetensors_text(
      "{" + tensor("a", "F32", "2,1", "0,8") + "," + tensor("b", "U8", "3", "8,11") + R"(,"__metadata__":{"k":"v"}})",
      "12345678abc");
  ASSERT_EQ(code_of(file), errc::ok);
  for (std::size_t size = 0; size < file.size(); ++size) EXPECT_NE(code_of(file.substr(0, size)), errc::ok) << size;
  for (std::size_t at = 0; at < file.size(); ++at) {
    for (int value = 0; value < 256; ++value) {
      std::string changed = file;
      changed[at] = static_cast<char>(value);
      const auto header = parse(changed);
      if (!header) continue;
      std::uint64_t covered = 0;
      for (const auto& entry : header->tensors) covered += entry.size_bytes();
      EXPECT_EQ(covered + header->data_begin, file.size());
    }
  }
}

TEST(Safetensors, ErrorsNameTheFile) {
  const temporary_folder folder;
  write_file(folder / "bad", "nonsense, and more of it");
  const auto file = safetensors_file::open(folder / "bad");
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().code(), errc::limit_exceeded);
  EXPECT_NE(file.error().message().find((folder / "bad").string()), std::string::npos);
}

}  // namespace
