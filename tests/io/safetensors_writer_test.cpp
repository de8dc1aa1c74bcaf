#include "ecq/io/safetensors_writer.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "support/files.hpp"

namespace {

using ecq::errc;
using ecq::safetensors_file;
using ecq::safetensors_writer;
using ecq::tensor_declaration;
using ecq_test::as_bytes;
using ecq_test::as_text;
using ecq_test::temporary_folder;

using shape = std::vector<std::uint64_t>;

TEST(SafetensorsWriter, WritesWhatTheReaderReads) {
  const temporary_folder folder;
  const ecq::string_map metadata{{"format", "pt"}, {"quote\"", "line\nbreak \xc3\xa4"}};
  auto writer = safetensors_writer::create(folder / "out",
                                           {{"stream", "U8"},
                                            {"matrix", "F32", shape{2, 1}},
                                            {"scalar", "BOOL", shape{}},
                                            {"none", "I64", shape{0, 7}},
                                            {"scales", "BF16"}},
                                           metadata);
  ASSERT_TRUE(writer) << writer.error().to_string();
  ASSERT_TRUE(writer->write("matrix", as_bytes("12345678")));
  ASSERT_TRUE(writer->begin("stream"));
  for (int piece = 0; piece < 100; ++piece) ASSERT_TRUE(writer->append(as_bytes("piece")));
  ASSERT_TRUE(writer->end());
  ASSERT_TRUE(writer->write("none", {}));
  ASSERT_TRUE(writer->write("scales", as_bytes("abcd")));
  ASSERT_TRUE(writer->write("scalar", as_bytes("!")));
  EXPECT_FALSE(std::filesystem::exists(folder / "out"));
  ASSERT_TRUE(writer->commit());
  EXPECT_EQ(folder.count(), 1U);

  const auto file = safetensors_file::open(folder / "out");
  ASSERT_TRUE(file) << file.error().to_string();
  EXPECT_EQ(file->metadata(), metadata);
  EXPECT_EQ(file->header_bytes().size() % 64, 0U);
  EXPECT_EQ(file->size_bytes(), writer->data_begin() + writer->data_size());
  ASSERT_EQ(file->tensors().size(), 5U);
  EXPECT_EQ(as_text(file->bytes(*file->find("matrix"))), "12345678");
  EXPECT_EQ(file->find("stream")->shape, shape{500});
  EXPECT_EQ(file->find("scales")->shape, shape{2});
  EXPECT_EQ(file->find("scales")->dtype, "BF16");
  EXPECT_EQ(file->find("none")->shape, (shape{0, 7}));
  EXPECT_EQ(as_text(file->bytes(*file->find("scalar"))), "!");
}

TEST(SafetensorsWriter, NoTensorsAtAll) {
  const temporary_folder folder;
  auto writer = safetensors_writer::create(folder / "out", {});
  ASSERT_TRUE(writer);
  ASSERT_TRUE(writer->commit());
  EXPECT_TRUE(safetensors_file::open(folder / "out"));
}

TEST(SafetensorsWriter, SealShowsTheHeaderThatIsWritten) {
  const temporary_folder folder;
  auto writer =
      safetensors_writer::create(folder / "out", {{"last", "U8", shape{2}}, {"first", "U8"}}, {{"k", "12345"}});
  ASSERT_TRUE(writer);
  ASSERT_TRUE(writer->write("first", as_bytes("abc")));
  const auto header = writer->seal({{"k", "123"}});
  ASSERT_TRUE(header) << header.error().to_string();
  const std::string sealed = as_text(*header);
  EXPECT_FALSE(writer->seal({}));
  ASSERT_TRUE(writer->write("last", as_bytes("de")));
  ASSERT_TRUE(writer->commit());
  const auto file = safetensors_file::open(folder / "out");
  ASSERT_TRUE(file) << file.error().to_string();
  EXPECT_EQ(as_text(file->header_bytes()), sealed);
  EXPECT_EQ(as_text(file->bytes(*file->find("last"))), "de");
  EXPECT_EQ(*ecq::find_value(file->metadata(), "k"), "123");
}

TEST(SafetensorsWriter, RefusesDeclarationsThatNoFileCanHold) {
  const temporary_folder folder;
  const auto code = [&](std::vector<tensor_declaration> declarations, ecq::string_map metadata = {}) {
    const auto writer = safetensors_writer::create(folder / "out", std::move(declarations), std::move(metadata));
    return writer ? errc::ok : writer.error().code();
  };
  constexpr std::uint64_t huge = (std::numeric_limits<std::uint64_t>::max)();
  EXPECT_EQ(code({{"a", "U8", shape{1}}, {"a", "U8", shape{1}}}), errc::invalid_argument);
  EXPECT_EQ(code({{"__metadata__", "U8", shape{1}}}), errc::invalid_argument);
  EXPECT_EQ(code({{"\xff", "U8", shape{1}}}), errc::invalid_argument);
  EXPECT_EQ(code({{"a", "F99", shape{1}}}), errc::invalid_argument);
  EXPECT_EQ(code({{"a", "F4"}}), errc::invalid_argument);
  EXPECT_EQ(code({{"a", "F4", shape{3}}}), errc::invalid_argument);
  EXPECT_EQ(code({{"a", "F32", shape{huge, huge}}}), errc::invalid_argument);
  EXPECT_EQ(code({{"a", "U8", shape(65, 1)}}), errc::invalid_argument);
  EXPECT_EQ(code({}, {{"a", "\xff"}}), errc::invalid_argument);
  EXPECT_EQ(code({}, {{"a", ""}, {"a", ""}}), errc::invalid_argument);
  EXPECT_EQ(code({}, {{"a", std::string(100'000'000, 'x')}}), errc::limit_exceeded);
  EXPECT_EQ(code({}, {{"a", std::string(17'000'000, '\x01')}}), errc::limit_exceeded);  // six bytes each in a header
  EXPECT_EQ(folder.count(), 0U);
}

TEST(SafetensorsWriter, RefusesDataThatDoNotFitTheDeclarations) {
  const temporary_folder folder;
  auto writer = safetensors_writer::create(folder / "out", {{"a", "F32", shape{1}}, {"b", "BF16"}, {"c", "U8"}});
  ASSERT_TRUE(writer);
  EXPECT_FALSE(writer->write("nobody", {}));
  EXPECT_FALSE(writer->append(as_bytes("x")));
  EXPECT_FALSE(writer->end());
  ASSERT_TRUE(writer->begin("a"));
  EXPECT_FALSE(writer->begin("b"));
  EXPECT_FALSE(writer->append(as_bytes("12345")));
  ASSERT_TRUE(writer->append(as_bytes("123")));
  EXPECT_FALSE(writer->end());
  EXPECT_FALSE(writer->commit());
  ASSERT_TRUE(writer->append(as_bytes("4")));
  ASSERT_TRUE(writer->end());
  EXPECT_FALSE(writer->write("a", as_bytes("1234")));
  ASSERT_TRUE(writer->begin("b"));
  ASSERT_TRUE(writer->append(as_bytes("x")));
  EXPECT_FALSE(writer->end());
  ASSERT_TRUE(writer->append(as_bytes("y")));
  ASSERT_TRUE(writer->end());
  const auto early = writer->commit();
  ASSERT_FALSE(early);
  EXPECT_NE(early.error().message().find("'c'"), std::string::npos);
  ASSERT_TRUE(writer->write("c", as_bytes("z")));
  ASSERT_TRUE(writer->commit());
}

}  // namespace
