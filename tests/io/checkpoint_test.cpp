#include "ecq/io/checkpoint.hpp"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "support/files.hpp"

namespace {

using ecq::checkpoint;
using ecq::errc;
using ecq_test::as_text;
using ecq_test::safetensors_text;
using ecq_test::temporary_folder;
using ecq_test::write_file;

constexpr std::string_view index_name = "model.safetensors.index.json";

/// Returns a file of U8 tensors, one byte each, and one metadata entry.
std::string shard(const std::vector<std::string>& names, std::string_view bytes, const std::string& key = "shared") {
  std::string header = "{\"__metadata__\":{\"" + key + "\":\"" + std::string(bytes) + "\"}";
  for (std::size_t at = 0; at < names.size(); ++at) {
    header += ",\"" + names[at] + R"(":{"dtype":"U8","shape":[1],"data_offsets":[)" + std::to_string(at) + "," +
              std::to_string(at + 1) + "]}";
  }
  return safetensors_text(header + "}", bytes);
}

errc code_of(const std::filesystem::path& path, std::string_view mentions) {
  const auto model = checkpoint::open(path);
  if (model) return errc::ok;
  EXPECT_NE(model.error().message().find(mentions), std::string::npos) << model.error().message();
  return model.error().code();
}

TEST(Checkpoint, OneFileOrItsFolder) {
  const temporary_folder folder;
  write_file(folder / "weights.safetensors", shard({"b", "a"}, "xy"));
  write_file(folder / "config.json", "{}");
  for (const auto& path : {folder / "weights.safetensors", folder.path()}) {
    const auto model = checkpoint::open(path);
    ASSERT_TRUE(model) << model.error().to_string();
    ASSERT_EQ(model->tensors().size(), 2U);
    EXPECT_EQ(model->tensors()[0].name, "b");
    EXPECT_EQ(as_text(model->bytes(*model->find("a"))), "y");
    EXPECT_EQ(model->find("c"), nullptr);
    EXPECT_EQ(model->size_bytes(), std::filesystem::file_size(folder / "weights.safetensors"));
  }
}

TEST(Checkpoint, ShardsAreOneModelInTheOrderOfTheIndex) {
  const temporary_folder folder;
  std::filesystem::create_directory(folder / "part");
  write_file(folder / "1.safetensors", shard({"a", "c"}, "13", "first"));
  write_file(folder / "part/2.safetensors", shard({"b", "d"}, "24"));
  write_file(folder / index_name,
             R"({"metadata":{"total_size":4.0,"x":[null]},"weight_map":{"d":"part/2.safetensors","a":"1.safetensors",)"
             R"("b":"part/2.safetensors","c":"1.safetensors"}})");
  for (const auto& path : {folder / index_name, folder.path()}) {
    const auto model = checkpoint::open(path);
    ASSERT_TRUE(model) << model.error().to_string();
    std::string names, bytes;
    for (const auto& tensor : model->tensors()) {
      names += tensor.name;
      bytes += as_text(model->bytes(tensor));
      model->release(tensor);
      model->release(tensor, model->bytes(tensor));
    }
    EXPECT_EQ(names, "dabc");
    EXPECT_EQ(bytes, "4123");
    EXPECT_EQ(model->shards().size(), 2U);
    EXPECT_EQ(model->metadata(), (ecq::string_map{{"shared", "24"}, {"first", "13"}}));
  }
}

TEST(Checkpoint, FirstMetadataWins) {
  const temporary_folder folder;
  write_file(folder / "1.safetensors", shard({"a"}, "1"));
  write_file(folder / "2.safetensors", shard({"b"}, "2"));
  write_file(folder / index_name, R"({"weight_map":{"b":"2.safetensors","a":"1.safetensors"}})");
  const auto model = checkpoint::open(folder.path());
  ASSERT_TRUE(model);
  EXPECT_EQ(model->metadata(), (ecq::string_map{{"shared", "2"}}));
}

TEST(Checkpoint, IndexesThatLie) {
  const temporary_folder folder;
  write_file(folder / "1.safetensors", shard({"a", "c"}, "13"));
  write_file(folder / "2.safetensors", shard({"b", "c"}, "24"));
  const auto index = folder / index_name;
  const auto code = [&](std::string_view weight_map, std::string_view mentions) {
    write_file(index, "{\"weight_map\":{" + std::string(weight_map) + "}}");
    return code_of(folder.path(), mentions);
  };
  EXPECT_EQ(code(R"("a":"1.safetensors","c":"1.safetensors")", ""), errc::ok);
  EXPECT_EQ(code(R"("a":"1.safetensors")", "'c'"), errc::corrupt);
  EXPECT_EQ(code(R"("a":"1.safetensors","c":"1.safetensors","z":"1.safetensors")", "'z'"), errc::not_found);
  EXPECT_EQ(code(R"("a":"1.safetensors","c":"1.safetensors","b":"2.safetensors")", "'c'"), errc::corrupt);
  EXPECT_EQ(code(R"("a":"1.safetensors","a":"1.safetensors","c":"1.safetensors")", "'a'"), errc::corrupt);
  EXPECT_EQ(code(R"("a":"3.safetensors")", "3.safetensors"), errc::not_found);
  EXPECT_EQ(code(R"("a":1)", "JSON"), errc::corrupt);
  EXPECT_EQ(code("", "empty"), errc::corrupt);
  const std::string absolute = (folder / "1.safetensors").string();
  for (const std::string& path : {absolute, std::string("../1.safetensors"), std::string("x/../1.safetensors"),
                                  std::string("x/.."), std::string(".."), std::string(""), std::string("x/")}) {
    EXPECT_EQ(code("\"a\":\"" + path + "\"", "'a'"), errc::corrupt) << path;
  }
  EXPECT_EQ(code(R"("a":".")", "directory"), errc::io_error);
  for (const std::string_view text : {"{}", "[]", "x", "{\"weight_map\":[]}", "{\"weight_map\":{}} x"}) {
    write_file(index, text);
    EXPECT_EQ(code_of(index, index.string()), errc::corrupt) << text;
  }
  write_file(index, "");
  EXPECT_EQ(code_of(index, index.string()), errc::truncated);
}

TEST(Checkpoint, NamesWithNul) {
  const temporary_folder folder;
  write_file(folder / "1.safetensors", shard({"a"}, "1"));
  const auto code = [&](std::string_view weight_map) {
    write_file(folder / index_name, "{\"weight_map\":{" + std::string(weight_map) + "}}");
    return code_of(folder.path(), "NUL");
  };
  EXPECT_EQ(code(R"("a":"1.safetensors")"), errc::ok);
  EXPECT_EQ(code(R"("a":"1.safetensors\u0000.bin")"), errc::corrupt) << "the system would open 1.safetensors";
  EXPECT_EQ(code(R"("a":"\u00001.safetensors")"), errc::corrupt);
  // Tensors may have such names, which are not passed to the system.
  write_file(folder / "2.safetensors", shard({std::string("a\\u0000")}, "1"));
  EXPECT_EQ(code(R"("a\u0000":"2.safetensors")"), errc::ok);
}

TEST(Checkpoint, KnowsItsFiles) {
  const temporary_folder folder;
  write_file(folder / "1.safetensors", shard({"a"}, "1"));
  write_file(folder / "2.safetensors", shard({"b"}, "2"));
  write_file(folder / index_name, R"({"weight_map":{"b":"2.safetensors","a":"1.safetensors"}})");
  using paths = std::vector<std::filesystem::path>;
  const auto model = checkpoint::open(folder.path());
  ASSERT_TRUE(model) << model.error().to_string();
  EXPECT_EQ(model->files(), (paths{folder / index_name, folder / "2.safetensors", folder / "1.safetensors"}));
  const auto single = checkpoint::open(folder / "1.safetensors");
  ASSERT_TRUE(single) << single.error().to_string();
  EXPECT_EQ(single->files(), paths{folder / "1.safetensors"});
}

TEST(Checkpoint, FoldersThatLeaveAChoice) {
  const temporary_folder folder;
  EXPECT_EQ(code_of(folder.path(), "has no .safetensors file"), errc::not_found);
  for (const char* const part : {"vae", "unet", "tokenizer", ".cache"})
    std::filesystem::create_directory(folder / part);
  for (const char* const part : {"vae", "unet", ".cache"}) write_file(folder / part / "w.safetensors", "x");
  EXPECT_EQ(code_of(folder.path(), "no .safetensors file; name one of its folders that have one: 'unet', 'vae'"),
            errc::not_found);
  EXPECT_EQ(code_of(folder / "missing", "missing"), errc::not_found);
  write_file(folder / "pytorch_model.bin", "x");
  EXPECT_EQ(code_of(folder.path(), "no .safetensors file, but 'pytorch_model.bin'; docs/using.md shows how to convert"),
            errc::not_found);
  write_file(folder / "1.safetensors", shard({"a"}, "1"));
  write_file(folder / "2.safetensors", shard({"a"}, "1"));
  EXPECT_EQ(code_of(folder.path(), "0 indexes and 2 .safetensors files; name the one to read: "), errc::not_found);
}

TEST(Checkpoint, TensorsAsWeights) {
  const temporary_folder folder;
  const auto member = [](std::string_view name, std::string_view rest) {
    return "\"" + std::string(name) + "\":{" + std::string(rest) + "}";
  };
  // 1.5 and -2 as BF16, at an odd address.
  write_file(folder / "m.safetensors",
             safetensors_text("{" + member("odd", R"("dtype":"U8","shape":[1],"data_offsets":[0,1])") + "," +
                                  member("w", R"("dtype":"BF16","shape":[1,2,1],"data_offsets":[1,5])") + "," +
                                  member("v", R"("dtype":"F8_E4M3","shape":[2],"data_offsets":[5,7])") + "," +
                                  member("s", R"("dtype":"F32","shape":[],"data_offsets":[7,11])") + "," +
                                  member("none", R"("dtype":"F32","shape":[3,0],"data_offsets":[11,11])") + "}",
                              std::string("x\xc0\x3f\x00\xc0\x38\xb8"
                                          "1234",
                                          11)));
  const auto model = checkpoint::open(folder.path());
  ASSERT_TRUE(model) << model.error().to_string();
  const auto weights = [&](std::string_view name) {
    return ecq::as_weights(*model->find(name), model->bytes(*model->find(name)));
  };
  const auto matrix = weights("w");
  ASSERT_TRUE(matrix);
  EXPECT_EQ(matrix->rows(), 1U);
  EXPECT_EQ(matrix->columns(), 2U);
  float row[2];
  matrix->load(0, 0, row);
  EXPECT_EQ(row[0], 1.5F);
  EXPECT_EQ(row[1], -2.0F);
  const auto vector = weights("v");
  ASSERT_TRUE(vector);
  EXPECT_EQ(vector->rows(), 2U);
  EXPECT_EQ(vector->columns(), 1U);
  vector->load(1, 0, std::span(row, 1));
  EXPECT_EQ(row[0], -1.0F);
  ASSERT_TRUE(weights("none"));
  EXPECT_TRUE(weights("none")->empty());
  EXPECT_EQ(weights("odd").error().code(), errc::unsupported);
  EXPECT_EQ(weights("s").error().code(), errc::invalid_argument);
}

}  // namespace
