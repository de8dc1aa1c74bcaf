#pragma once
// Runs the built tool, and inspects its answers and the files that it leaves behind.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "support/places.hpp"

namespace tool_test {

namespace fs = std::filesystem;
using json = nlohmann::json;

inline std::string read_text(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void write_text(const fs::path& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

struct outcome {
  int exit_code = -1;  ///< 128 + number if a signal killed it
  std::string out, err;

  json answer() const { return json::parse(out, nullptr, false); }
};

/// A running tool, or another program; everything it prints goes to files in `folder`. It is killed after two minutes.
class process {
 public:
  process(const fs::path& folder, const std::vector<std::string>& arguments, rlim_t file_size_limit = RLIM_INFINITY,
          int stderr_descriptor = -1, int stdout_descriptor = -1, const std::string& program = ecq_test::ecq_program())
      : out_(folder / "tool.stdout"), err_(folder / "tool.stderr") {
    std::vector<std::string> words{program};
    words.insert(words.end(), arguments.begin(), arguments.end());
    std::vector<char*> pointers;
    for (std::string& word : words) pointers.push_back(word.data());
    pointers.push_back(nullptr);
    id_ = ::fork();
    if (id_ != 0) return;
    const int out =
        stdout_descriptor >= 0 ? stdout_descriptor : ::open(out_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    const int err =
        stderr_descriptor >= 0 ? stderr_descriptor : ::open(err_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ::dup2(out, STDOUT_FILENO);
    ::dup2(err, STDERR_FILENO);
    const rlimit limit{file_size_limit, file_size_limit};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    ::alarm(120);
    ::execv(program.c_str(), pointers.data());
    ::_exit(127);
  }

  pid_t id() const { return id_; }

  outcome wait() const {
    int status = 0;
    while (::waitpid(id_, &status, 0) < 0 && errno == EINTR) {
    }
    outcome result;
    result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    result.out = read_text(out_);
    result.err = read_text(err_);
    return result;
  }

 private:
  fs::path out_, err_;
  pid_t id_ = -1;
};

/// A folder for the checkpoints of one test, and another one, apart from it, for the output of the tool.
class Tool : public testing::Test {
 protected:
  Tool() {
    std::string name = (fs::temp_directory_path() / "ecq_tool_XXXXXX").string();
    root_ = ::mkdtemp(name.data());
    fs::create_directories(root_ / "work");
    fs::create_directories(root_ / "log");
  }
  ~Tool() override {
    std::error_code ignored;
    fs::permissions(root_ / "work", fs::perms::owner_all, ignored);
    fs::remove_all(root_, ignored);
  }

  std::string path(const std::string& name) const { return (root_ / "work" / name).string(); }

  process start(const std::vector<std::string>& arguments, rlim_t file_size_limit = RLIM_INFINITY,
                int stderr_descriptor = -1, int stdout_descriptor = -1) const {
    return {root_ / "log", arguments, file_size_limit, stderr_descriptor, stdout_descriptor};
  }

  outcome run(const std::vector<std::string>& arguments, rlim_t file_size_limit = RLIM_INFINITY) const {
    return start(arguments, file_size_limit).wait();
  }

  outcome run_program(const std::string& program, const std::vector<std::string>& arguments) const {
    return process(root_ / "log", arguments, RLIM_INFINITY, -1, -1, program).wait();
  }

  /// Runs a command that must succeed, with --json, and returns its answer.
  json ask(std::vector<std::string> arguments) const {
    arguments.emplace_back("--json");
    const outcome result = run(arguments);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(result.err, "");
    const json answer = result.answer();
    EXPECT_TRUE(answer.is_object()) << result.out;
    return answer;
  }

  /// Returns the names in the test's folder, sorted.
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(root_ / "work")) names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
  }

  std::string generated(const std::string& preset = "tiny") const {
    const std::string name = path("model.safetensors");
    const outcome result = run({"generate", name, "--preset", preset, "--quiet"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return name;
  }

 private:
  fs::path root_;
};

/// Expects the one line of every failure, "ecq: <what>: <where>", and nothing on stdout.
inline void expect_failure(const outcome& result, int exit_code, const std::vector<std::string>& mentions) {
  EXPECT_EQ(result.exit_code, exit_code) << result.err;
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(result.err.rfind("ecq: ", 0), 0U) << result.err;
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  for (const std::string& words : mentions) EXPECT_NE(result.err.find(words), std::string::npos) << result.err;
}

struct raw_tensor {
  std::string name, type;
  std::vector<std::uint64_t> shape;
  std::string bytes;
};

/// Writes a safetensors file, by its public description alone.
inline void write_safetensors(const fs::path& path, const std::vector<raw_tensor>& tensors) {
  json header = json::object();
  std::string body;
  for (const raw_tensor& tensor : tensors) {
    header[tensor.name] = {{"dtype", tensor.type},
                           {"shape", tensor.shape},
                           {"data_offsets", {body.size(), body.size() + tensor.bytes.size()}}};
    body += tensor.bytes;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  std::string size(8, '\0');
  for (std::size_t byte = 0; byte < 8; ++byte) size[byte] = static_cast<char>(text.size() >> (8 * byte) & 0xffU);
  write_text(path, size + text + body);
}

/// Returns `values` as little-endian FP32.
inline std::string f32_bytes(const std::vector<float>& values) {
  std::string bytes;
  for (const float value : values) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    for (unsigned byte = 0; byte < 4; ++byte) bytes += static_cast<char>(bits >> (8 * byte) & 0xffU);
  }
  return bytes;
}

/// Returns the numbers of an F32 or BF16 tensor of a safetensors file, read from the file alone.
inline std::vector<float> read_values(const fs::path& path, const std::string& name) {
  const std::string file = read_text(path);
  std::uint64_t header_size = 0;
  for (std::size_t byte = 0; byte < 8; ++byte) {
    header_size |= static_cast<std::uint64_t>(static_cast<unsigned char>(file[byte])) << (8 * byte);
  }
  const json entry = json::parse(file.substr(8, header_size)).at(name);
  const std::size_t width = entry.at("dtype") == "F32" ? 4 : 2;
  const std::size_t first = 8 + header_size + entry.at("data_offsets").at(0).get<std::size_t>();
  const std::size_t end = 8 + header_size + entry.at("data_offsets").at(1).get<std::size_t>();
  std::vector<float> values;
  for (std::size_t at = first; at < end; at += width) {
    std::uint32_t bits = 0;
    for (std::size_t byte = 0; byte < width; ++byte) {
      bits |= static_cast<std::uint32_t>(static_cast<unsigned char>(file[at + byte])) << (8 * (byte + 4 - width));
    }
    float value = 0;
    std::memcpy(&value, &bits, sizeof value);
    values.push_back(value);
  }
  return values;
}

}  // namespace tool_test
