// ecq-mpi with several processes on this machine.

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "support/places.hpp"
#include "tool/tool.hpp"

namespace {

namespace fs = std::filesystem;
using tool_test::json;
using tool_test::outcome;
using tool_test::read_text;
using tool_test::Tool;

class Mpi : public Tool {
 protected:
  void SetUp() override {
    // Settings that Open MPI needs on a machine of few cores, perhaps as root. MPICH ignores them.
    for (const char* name :
         {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "OMPI_MCA_rmaps_base_oversubscribe"}) {
      ::setenv(name, "1", 1);
    }
    // A process that fails reports it before it ends, so there is nothing to wait for.
    ::setenv("OMPI_MCA_odls_base_sigkill_timeout", "0", 1);
    // Runs that begin at the same time get in each other's way if they create the same folder.
    fs::create_directories(path("mpi"));
    for (const char* name : {"OMPI_MCA_orte_tmpdir_base", "PRTE_MCA_prte_tmpdir_base"}) {
      ::setenv(name, path("mpi").c_str(), 1);
    }
    // A model of several files.
    const std::string whole = generated();
    fs::create_directories(path("whole"));
    fs::rename(whole, path("whole/model.safetensors"));
    ask({"compress", path("whole"), "-o", path("split"), "--lossless", "--max-shard-size", "300kB"});
    ask({"decompress", path("split"), "-o", model()});
    std::ofstream(model() + "/config.json") << "{}\n";
  }

  std::string model() const { return path("model"); }

  outcome run_with(int processes, std::vector<std::string> arguments) const {
    std::vector<std::string> words{ecq_test::mpi_count_option(), std::to_string(processes), ecq_test::mpi_program()};
    words.insert(words.end(), arguments.begin(), arguments.end());
    return run_program(ecq_test::mpi_starter(), words);
  }

  static std::map<std::string, std::string> files_of(const std::string& folder) {
    std::map<std::string, std::string> all;
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      if (entry.is_regular_file()) all[entry.path().lexically_relative(folder).string()] = read_text(entry.path());
    }
    return all;
  }
};

TEST_F(Mpi, EveryNumberOfProcessesWritesTheSameBytes) {
  tool_test::write_text(path("names"), R"({"model.layers.0.self_attn.q_proj.weight": [[0, 0], [1, 2]],
                                           "model.layers.1.mlp.down_proj.weight": [[3, 4]]})");
  const std::vector<std::vector<std::string>> ways = {
      {"--bits", "3"},
      {"--lossless"},
      {"--bits", "2.2", "--max-shard-size", "200kB", "--exact", path("names")},
      {"--method", "entrollm"},
      {"--method", "tcq8", "--bits", "2.5"}};
  for (const auto& way : ways) {
    std::vector<std::string> arguments{"compress", model(), "-o", path("alone")};
    arguments.insert(arguments.end(), way.begin(), way.end());
    fs::remove_all(path("alone"));
    const json alone = ask(arguments);
    const auto expected = files_of(path("alone"));
    EXPECT_GT(expected.size(), 4U);
    EXPECT_EQ(alone["totals"]["exact"] > 0, way.back() == path("names"));
    for (const int processes : {1, 2, 4}) {
      std::vector<std::string> same{model(), "-o", path("together"), "--json", "--threads", "1"};
      same.insert(same.end(), way.begin(), way.end());
      fs::remove_all(path("together"));
      const outcome result = run_with(processes, same);
      ASSERT_EQ(result.exit_code, 0) << result.err;
      const json answer = result.answer();
      ASSERT_TRUE(answer.is_object()) << result.out;
      EXPECT_EQ(answer["processes"], processes);
      for (const char* total :
           {"weights", "compressed_bytes", "file_bytes", "blocks", "passed_through", "lambda", "exact"}) {
        EXPECT_EQ(answer["totals"][total], alone["totals"][total]) << total;
      }
      EXPECT_TRUE(files_of(path("together")) == expected) << processes << way.front();
      EXPECT_EQ(answer["totals"].contains("joint_entropy"), processes == 1 && way.back() == "entrollm");
    }
  }
}

TEST_F(Mpi, AllFailTogether) {
  // One file is damaged, so one process fails; no file gets its name.
  const auto before = files_of(model());
  for (const auto& [name, content] : before) {
    if (!name.ends_with(".safetensors")) continue;
    std::string damaged = content;
    std::fill(damaged.begin() + static_cast<std::ptrdiff_t>(damaged.size() / 4), damaged.end(), '\xff');  // NaN
    tool_test::write_text(model() + "/" + name, damaged);
    const outcome result = run_with(3, {model(), "-o", path("out"), "--lambda", "10"});
    EXPECT_NE(result.exit_code, 0);
    EXPECT_EQ(result.out, "");
    EXPECT_NE(result.err.find("non-finite"), std::string::npos) << result.err;
    EXPECT_TRUE(!fs::exists(path("out")) || files_of(path("out")).empty()) << name;
    tool_test::write_text(model() + "/" + name, content);
  }
  for (const auto& wrong :
       std::vector<std::vector<std::string>>{{path("nothing"), "-o", path("out"), "--bits", "3"},
                                             {model(), "-o", path("one.safetensors"), "--bits", "3"},
                                             {model(), "-o", model(), "--bits", "3"},
                                             {model(), "--bits", "3"},
                                             {model(), "-o", path("out"), "--bitz", "3"}}) {
    const outcome result = run_with(2, wrong);
    EXPECT_NE(result.exit_code, 0);
    EXPECT_EQ(result.out, "");
    EXPECT_NE(result.err.find("ecq-mpi: "), std::string::npos) << result.err;
    EXPECT_EQ(result.err.find("ecq-mpi: "), result.err.rfind("ecq-mpi: ")) << result.err;  // reported once
  }
  // A file that only one process lacks: the others do not wait for it.
  const std::string names = path("names.");
  tool_test::write_text(names + "0", "{}");
  const std::string script = "exec " + ecq_test::mpi_program() + " " + model() + " -o " + path("out") +
                             " --bits 3 --exact " + names + "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}";
  const outcome alone =
      run_program(ecq_test::mpi_starter(), {ecq_test::mpi_count_option(), "2", "/bin/sh", "-c", script});
  EXPECT_NE(alone.exit_code, 0);
  EXPECT_NE(alone.err.find("process 1 of 2"), std::string::npos) << alone.err;
  const outcome help = run_with(2, {"--help"});
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_EQ(help.out.find("--max-shard-size"), help.out.rfind("--max-shard-size"));
}

}  // namespace
