// Models in folders, parts of them, and layers that are compressed differently.

#include <sys/resource.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tool/tool.hpp"

namespace {

using tool_test::json;
using tool_test::read_text;
using tool_test::Tool;
using tool_test::write_text;

class FolderTool : public Tool {
 protected:
  /// Makes a folder with one model, its configuration and a file in a subfolder.
  std::string model_folder() const {
    const std::string folder = path("model");
    std::filesystem::create_directories(folder + "/tokenizer");
    std::filesystem::copy_file(generated(), folder + "/model.safetensors");
    std::ofstream(folder + "/config.json") << "{}\n";
    std::ofstream(folder + "/tokenizer/vocab.txt") << "the of\n";
    return folder;
  }
};

TEST_F(FolderTool, TakesAndMakesFolders) {
  const std::string model = model_folder(), packed = path("packed"), back = path("back");
  ask({"compress", model, "-o", packed, "--lossless"});
  EXPECT_EQ(ask({"verify", packed, "--against", model})["same_file"], true);
  EXPECT_NE(run({"verify", packed, "--against", model}).out.find("the same file, byte for byte"), std::string::npos);
  EXPECT_GT(ask({"inspect", packed})["tensors"].size(), 0U);
  ask({"decompress", packed, "-o", back});
  for (const std::string name : {"/model.safetensors", "/config.json", "/tokenizer/vocab.txt"}) {
    EXPECT_TRUE(read_text(back + name) == read_text(model + name)) << name;
  }
  // The name of a file asks for a file.
  ask({"compress", model, "-o", path("one.safetensors"), "--bits", "3"});
  EXPECT_TRUE(std::filesystem::is_regular_file(path("one.safetensors")));
  EXPECT_EQ(run({"compress", model, "-o", model, "--bits", "3"}).exit_code, 1);
}

/// The soft limit of open files, which programs inherit.
class few_open_files {
 public:
  explicit few_open_files(rlim_t most) {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit few{most, before_.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &few);
  }
  few_open_files(const few_open_files&) = delete;
  few_open_files& operator=(const few_open_files&) = delete;
  ~few_open_files() { ::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

TEST_F(FolderTool, HasMoreFilesOpenThanShellsAllow) {
  const std::string model = model_folder(), packed = path("packed"), back = path("back");
  const few_open_files few(16);
  ask({"compress", model, "-o", packed, "--lossless", "--max-shard-size", "8KB"});
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(packed)) files += entry.is_regular_file() ? 1U : 0U;
  EXPECT_GT(files, 20U);
  ask({"decompress", packed, "-o", back});
  EXPECT_EQ(ask({"verify", packed, "--against", back})["identical"], true);
}

/// The working directory, which programs inherit.
class working_directory {
 public:
  explicit working_directory(const std::filesystem::path& folder) : before_(std::filesystem::current_path()) {
    std::filesystem::current_path(folder);
  }
  working_directory(const working_directory&) = delete;
  working_directory& operator=(const working_directory&) = delete;
  ~working_directory() { std::filesystem::current_path(before_); }

 private:
  std::filesystem::path before_;
};

TEST_F(FolderTool, TakesAnIndexWithoutItsFolder) {
  const std::string model = model_folder(), index = "model.safetensors.index.json";
  ask({"compress", model, "-o", path("packed"), "--lossless", "--max-shard-size", "100KB"});
  {
    const working_directory here(path("packed"));
    ask({"decompress", index, "-o", "../plain"});
    EXPECT_EQ(ask({"verify", index, "--against", "../plain"})["identical"], true);
  }
  const working_directory here(path("plain"));
  ask({"compress", index, "-o", "../again", "--bits", "3"});
  EXPECT_TRUE(std::filesystem::exists(path("again/tokenizer/vocab.txt")));
  ask({"compress", index, "-o", "../one.safetensors", "--bits", "3"});
  EXPECT_GT(ask({"lambda", index})["lambda"].get<double>(), 0);
  for (const std::string into : {".", "below", ".."}) {
    EXPECT_EQ(run({"compress", index, "-o", into, "--bits", "3"}).exit_code, 1) << into;
  }
  const std::string shard = json::parse(read_text(index))["weight_map"]["model.norm.weight"];
  ask({"compress", shard, "-o", "shard.ecq.safetensors", "--lossless"});
}

// A folder takes the place of a file that is copied, so that the copy fails.
TEST_F(FolderTool, KeepsAnEarlierResultIfACopyFails) {
  const std::string model = model_folder(), packed = path("packed"), plain = path("plain");
  ask({"compress", model, "-o", packed, "--bits", "4"});
  ask({"decompress", packed, "-o", plain});
  const std::string good = read_text(packed + "/model.safetensors");
  write_text(model + "/vocab.txt", "one more file");
  std::filesystem::create_directories(packed + "/vocab.txt");
  tool_test::expect_failure(run({"compress", model, "-o", packed, "--bits", "2"}), 1, {"vocab.txt"});
  EXPECT_TRUE(read_text(packed + "/model.safetensors") == good);
  std::filesystem::remove(packed + "/vocab.txt");
  write_text(packed + "/vocab.txt", "one more file");
  std::filesystem::create_directories(plain + "/vocab.txt");
  const auto written = std::filesystem::last_write_time(plain + "/model.safetensors");
  tool_test::expect_failure(run({"decompress", packed, "-o", plain}), 1, {"vocab.txt"});
  EXPECT_EQ(std::filesystem::last_write_time(plain + "/model.safetensors"), written);
}

TEST_F(FolderTool, ReplacesNoFileOfItsInputThroughALink) {
  const std::string model = model_folder(), packed = path("packed");
  for (const std::string name : {"config.json", "tokenizer/vocab.txt"}) {
    std::filesystem::remove_all(packed);
    std::filesystem::create_directories(packed);
    std::filesystem::create_symlink(model + "/" + name, packed + "/config.json");
    const std::string before = read_text(model + "/" + name);
    tool_test::expect_failure(run({"compress", model, "-o", packed, "--bits", "3"}), 1, {"would replace the input"});
    EXPECT_EQ(read_text(model + "/" + name), before);
  }
  std::filesystem::remove_all(packed);
  ask({"compress", model, "-o", packed, "--bits", "3"});
  std::filesystem::create_directories(path("plain"));
  std::filesystem::create_symlink(packed + "/config.json", path("plain/config.json"));
  const std::string marked = read_text(packed + "/config.json");
  tool_test::expect_failure(run({"decompress", packed, "-o", path("plain")}), 1, {"would replace the input"});
  EXPECT_EQ(read_text(packed + "/config.json"), marked);
}

TEST_F(FolderTool, ComparesItsIndexWithItsFiles) {
  const std::string model = model_folder(), packed = path("packed"), index = packed + "/model.safetensors.index.json";
  ask({"compress", model, "-o", packed, "--bits", "3", "--max-shard-size", "100KB"});
  EXPECT_GT(ask({"inspect", packed, "--exponents"})["tensors"].size(), 0U);
  tool_test::expect_failure(run({"compare", packed}), 1, {"is already compressed"});
  tool_test::expect_failure(run({"decompress", index, "-o", path("one.safetensors")}), 1, {"must be a folder"});
  const json right = json::parse(read_text(index));
  const std::string norm = "model.norm.weight", query = "model.layers.0.self_attn.q_proj.weight";
  for (int way = 0; way < 3; ++way) {
    json wrong = right;
    if (way == 0) std::swap(wrong["weight_map"][norm], wrong["weight_map"][query]);
    if (way == 1) wrong["weight_map"].erase(norm);
    if (way == 2) wrong["weight_map"]["absent"] = wrong["weight_map"][norm];
    write_text(index, wrong.dump());
    for (const std::vector<std::string>& call : {std::vector<std::string>{"verify", packed},
                                                 {"inspect", packed},
                                                 {"decompress", packed, "-o", path("plain")}}) {
      tool_test::expect_failure(run(call), 1, {"corrupt", "index.json"});
    }
    EXPECT_FALSE(std::filesystem::exists(path("plain")));
  }
  json lost = right;  // a whole file
  const std::string shard = right["weight_map"][norm];
  for (const auto& [name, file] : right["weight_map"].items()) {
    if (file == shard) lost["weight_map"].erase(name);
  }
  write_text(index, lost.dump());
  tool_test::expect_failure(run({"decompress", packed, "-o", path("plain")}), 1, {shard, "not listed in the index"});
  EXPECT_EQ(run({"verify", packed, "--against", ""}).exit_code, 2);
}

TEST_F(FolderTool, PartsShareALambda) {
  const std::string model = model_folder(), parts = path("parts"), whole = path("whole");
  const json found = ask({"lambda", model, "--bits", "3"});
  const double lambda = found["lambda"].get<double>();
  EXPECT_GT(lambda, 1);
  EXPECT_EQ(std::stod(run({"lambda", model, "--bits", "3"}).out), lambda);
  const json compressed = ask({"compress", model, "-o", whole, "--lambda", std::to_string(lambda)});
  EXPECT_NEAR(compressed["totals"]["bits_per_weight"].get<double>(), 3.0, 0.1);
  for (const char* part : {"1/2", "0/2"}) {
    ask({"compress", model, "-o", parts, "--lambda", std::to_string(lambda), "--part", part});
  }
  for (const std::string name : {"/model.safetensors", "/config.json"}) {
    EXPECT_TRUE(read_text(parts + name) == read_text(whole + name)) << name;
  }
  for (const char* part :
       {"2/2", "0", "/", "a/b", "-1/2", "0/0", "0/-1", " 0/2", "0x0/2", "0/", "0/99999999999999999999999"}) {
    EXPECT_EQ(run({"compress", model, "-o", parts, "--lambda", "5", "--part", part}).exit_code, 2) << part;
  }
  EXPECT_EQ(run({"compress", model, "-o", parts, "--bits", "3", "--part", "0/2"}).exit_code, 1);
  EXPECT_EQ(run({"compress", generated(), "-o", path("x"), "--lambda", "5", "--part", "0/2"}).exit_code, 1);
}

// A folder that is given by mistake often has files of the same names.
TEST_F(FolderTool, ReplacesNoOtherModel) {
  const std::string model = model_folder(), other = path("other"), packed = path("packed"), restored = path("restored");
  std::filesystem::create_directory(other);
  const std::string header = R"({"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})";
  const std::string before = std::string{static_cast<char>(header.size()), 0, 0, 0, 0, 0, 0, 0} + header + "?";
  write_text(other + "/model.safetensors", before);
  EXPECT_EQ(run({"compress", model, "-o", other, "--lambda", "5"}).exit_code, 1);
  for (int times = 0; times < 2; ++times) ask({"compress", model, "-o", packed, "--lambda", "5"});  // its own result
  EXPECT_EQ(run({"decompress", packed, "-o", other}).exit_code, 1);
  EXPECT_TRUE(read_text(other + "/model.safetensors") == before);
  for (int times = 0; times < 2; ++times) ask({"decompress", packed, "-o", restored});
  const std::string again = path("again");
  ask({"compress", model, "-o", again, "--lambda", "9"});
  EXPECT_EQ(run({"decompress", packed, "-o", again}).exit_code, 1);
}

TEST_F(FolderTool, SaysWhatIsWrongWithAFolder) {
  const std::string packed = path("packed");
  ask({"compress", model_folder(), "-o", packed, "--lambda", "5"});
  const auto compared = run({"compare", packed});
  EXPECT_EQ(compared.exit_code, 1);
  EXPECT_NE(compared.err.find("already compressed"), std::string::npos) << compared.err;
  const auto restored = run({"decompress", packed, "-o", path("one.safetensors")});
  EXPECT_EQ(restored.exit_code, 1);
  EXPECT_NE(restored.err.find("named like a file"), std::string::npos) << restored.err;
}

TEST_F(FolderTool, FallbackKeepsLayersAtEightBits) {
  const std::string packed = path("packed.safetensors");
  const json compressed = ask({"compress", generated(), "-o", packed, "--bits", "2.5", "--fallback", "*down_proj*"});
  EXPECT_GT(compressed["totals"]["by_fallback"].get<int>(), 0);
  double bits = 0, weights = 0;
  for (const json& tensor : compressed["tensors"]) {
    const auto count = tensor["weights"].get<double>();
    if (tensor["name"].get<std::string>().find("down_proj") != std::string::npos) {
      EXPECT_GT(tensor["bits_per_weight"].get<double>(), 5) << tensor;
    } else {
      bits += count * tensor["bits_per_weight"].get<double>();
      weights += count;
    }
  }
  EXPECT_NEAR(bits / weights, 2.5, 0.02);
  EXPECT_EQ(compressed["totals"]["unmatched"], json::array());
  EXPECT_EQ(compressed["totals"]["without_effect"], json::array());
}

TEST_F(FolderTool, TellsWhichPatternsMatchNothing) {
  const std::vector<std::string> with = {"compress",  generated(), "-o",         path("packed.safetensors"),
                                         "--lambda",  "5",         "--exclude",  "typo*",
                                         "--exclude", "*q_proj*",  "--fallback", "*.w4"};
  EXPECT_EQ(ask(with)["totals"]["unmatched"], (json{"typo*", "*.w4"}));
  EXPECT_NE(run(with).out.find("no match         for the pattern 'typo*'"), std::string::npos);
}

// Vectors are never compressed, and excluded tensors have no fallback.
TEST_F(FolderTool, TellsWhichPatternsHaveNoEffect) {
  const std::vector<std::string> with = {"compress",   generated(), "-o",        path("packed.safetensors"),
                                         "--lambda",   "5",         "--include", "*norm*",
                                         "--include",  "*q_proj*",  "--exclude", "*up_proj*",
                                         "--fallback", "*up_proj*"};
  const json totals = ask(with)["totals"];
  EXPECT_EQ(totals["without_effect"], (json{"*norm*", "*up_proj*"}));
  EXPECT_EQ(totals["unmatched"], json::array());
  EXPECT_NE(run(with).out.find("no effect        of the pattern '*norm*'"), std::string::npos);
}

}  // namespace
