// Bad input, full disks and signals: one line, the right exit code, and nothing left behind.

#include <cmath>
#include <cstring>
#include <limits>

#include "tool/tool.hpp"

namespace {

using tool_test::expect_failure;
using tool_test::f32_bytes;
using tool_test::outcome;
using tool_test::process;
using tool_test::read_text;
using tool_test::Tool;
using tool_test::write_safetensors;
using tool_test::write_text;

TEST_F(Tool, RefusesFilesThatAreNone) {
  write_text(path("empty"), "");
  write_text(path("noise"), std::string(1000, '\x5a'));
  write_text(path("short"), "abc");
  write_text(path("index.json"), "{\"weight_map\": {\"a\": \"gone.safetensors\"}}");
  const std::string model = generated();
  const std::string whole = read_text(model);
  write_text(path("truncated"), whole.substr(0, whole.size() - 1));
  std::filesystem::create_directory(path("folder"));
  const auto before = files();
  for (const std::string name : {"missing", "folder", "empty", "noise", "short", "truncated", "index.json"}) {
    SCOPED_TRACE(name);
    const std::string input = path(name);
    expect_failure(run({"compress", input, "-o", path("out")}), 1, {input});
    expect_failure(run({"decompress", input, "-o", path("out")}), 1, {input});
    expect_failure(run({"inspect", input}), 1, {input});
    expect_failure(run({"inspect", input, "--exponents", "--svg", path("plot")}), 1, {input});
    expect_failure(run({"verify", input}), 1, {input});
    expect_failure(run({"compare", input}), 1, {input});
  }
  expect_failure(run({"inspect", path("missing"), "--json"}), 1, {"not found"});
  EXPECT_EQ(files(), before);
}

TEST_F(Tool, DecompressesAndVerifiesOnlyWhatWasCompressed) {
  const std::string model = generated();
  expect_failure(run({"decompress", model, "-o", path("out")}), 1, {model});
  expect_failure(run({"verify", model}), 1, {model});
  const std::string packed = path("packed");
  ask({"compress", model, "-o", packed});
  expect_failure(run({"compress", packed, "-o", path("out")}), 1, {packed});
}

TEST_F(Tool, NoticesEveryDamageItIsShown) {
  const std::string model = generated(), packed = path("packed");
  ask({"compress", model, "-o", packed});
  const std::string whole = read_text(packed);
  for (std::size_t step = 0; step < 24; ++step) {
    std::string damaged = whole;
    const std::size_t at = whole.size() * step / 24 + step % 8;
    damaged[at] = static_cast<char>(damaged[at] ^ (1 << step % 8));
    write_text(path("damaged"), damaged);
    SCOPED_TRACE("byte " + std::to_string(at));
    const outcome checked = run({"verify", path("damaged"), "--against", model});
    expect_failure(checked, 1, {});
  }
}

TEST_F(Tool, NeverWritesOverItsInput) {
  const std::string model = generated();
  const std::string before = read_text(model);
  std::filesystem::create_symlink(model, path("link"));
  for (const std::string& output : {model, path("./model.safetensors"), path("link")}) {
    expect_failure(run({"compress", model, "-o", output}), 1, {output});
  }
  ask({"compress", model, "-o", path("packed")});
  expect_failure(run({"decompress", path("packed"), "-o", path("packed")}), 1, {"packed"});
  expect_failure(run({"compare", model, "--svg", model}), 1, {model});
  expect_failure(run({"inspect", model, "--exponents", "--svg", model}), 1, {model});
  EXPECT_TRUE(read_text(model) == before);
}

TEST_F(Tool, NeverWritesOverAPartOfItsInput) {
  namespace fs = std::filesystem;
  const std::string index = path("model.safetensors.index.json"), one = path("one.safetensors");
  fs::rename(generated(), one);
  std::string weight_map;
  const auto listed = ask({"inspect", one});
  for (const auto& tensor : listed["tensors"]) {
    weight_map += (weight_map.empty() ? "" : ",") + tensor["name"].dump() + ":\"one.safetensors\"";
  }
  write_text(index, "{\"weight_map\":{" + weight_map + "}}");
  fs::create_symlink(index, path("link"));
  fs::create_hard_link(one, path("hard"));
  fs::create_directory_symlink(".", path("folder"));
  const std::string before = read_text(index), weights = read_text(one);
  const auto names = files();
  for (const std::string& output : {index, one, path("link"), path("hard"), path("folder/one.safetensors")}) {
    for (const std::string& input : {index, path("")}) {
      expect_failure(run({"compress", input, "-o", output}), 1, {output, "input"});
      expect_failure(run({"compare", input, "--methods", "rtn", "--svg", output}), 1, {output, "input"});
      expect_failure(run({"inspect", input, "--exponents", "--svg", output}), 1, {output, "input"});
    }
  }
  EXPECT_TRUE(read_text(index) == before);
  EXPECT_TRUE(read_text(one) == weights);
  EXPECT_EQ(files(), names);
}

TEST_F(Tool, WritesThroughSymbolicLinks) {
  const std::string model = generated();
  std::filesystem::create_symlink("packed", path("link"));
  ask({"compress", model, "-o", path("link")});
  EXPECT_TRUE(std::filesystem::is_symlink(path("link")));
  EXPECT_FALSE(std::filesystem::is_symlink(path("packed")));
  ask({"verify", path("packed")});
  expect_failure(run({"compress", model, "-o", "/dev/null"}), 1, {"/dev/null", "a character device"});
}

TEST_F(Tool, SaysWhereItCannotWrite) {
  const std::string model = generated();
  ask({"compress", model, "-o", path("packed")});
  const auto before = files();
  const std::string nowhere = path("no/such/folder/out");
  expect_failure(run({"compress", model, "-o", nowhere}), 1, {nowhere});
  expect_failure(run({"decompress", path("packed"), "-o", nowhere}), 1, {nowhere});
  expect_failure(run({"generate", nowhere, "--preset", "tiny"}), 1, {nowhere});
  expect_failure(run({"compare", model, "--methods", "rtn", "--svg", nowhere}), 1, {nowhere});
  expect_failure(run({"inspect", model, "--exponents", "--svg", nowhere}), 1, {nowhere});
  expect_failure(run({"compress", model, "-o", path("")}), 1, {path("")});  // a folder
  EXPECT_EQ(files(), before);
}

TEST_F(Tool, ReplacesOldOutputOnlyByWholeOutput) {
  const std::string model = generated();
  write_text(path("out"), "precious");
  const outcome full = run({"compress", model, "-o", path("out")}, 20000);
  expect_failure(full, 1, {path("out")});
  EXPECT_EQ(read_text(path("out")), "precious");
  EXPECT_EQ(files(), (std::vector<std::string>{"model.safetensors", "out"}));
  ask({"compress", model, "-o", path("out")});
  EXPECT_NE(read_text(path("out")), "precious");
}

TEST_F(Tool, SurvivesAFullDisk) {
  const std::string model = generated();
  ask({"compress", model, "-o", path("packed")});
  const auto before = files();
  for (const rlim_t limit : {1000U, 20000U} /* what is said on stderr goes to a file, too */) {
    SCOPED_TRACE(limit);
    expect_failure(run({"compress", model, "-o", path("out")}, limit), 1, {path("out")});
    expect_failure(run({"decompress", path("packed"), "-o", path("out")}, limit), 1, {path("out")});
    expect_failure(run({"generate", path("out"), "--preset", "tiny"}, limit), 1, {path("out")});
    EXPECT_EQ(files(), before);
  }
}

TEST_F(Tool, NamesTheWeightThatIsNoNumber) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    std::vector<float> weights(32 * 48);
    for (std::size_t index = 0; index < weights.size(); ++index) {
      weights[index] = std::sin(static_cast<float>(index)) * 0.01F;
    }
    const std::string good = f32_bytes(weights);
    weights[7 * 48 + 5] = bad;
    write_safetensors(path("model"), {{"layers.0.bad", "F32", {32, 48}, f32_bytes(weights)},
                                      {"layers.0.good", "F32", {32, 48}, good}});
    const outcome refused = run({"compress", path("model"), "-o", path("out"), "--lambda", "4"});
    expect_failure(refused, 1, {"non-finite", "layers.0.bad", "row 7", "column 5"});
    EXPECT_EQ(files(), std::vector<std::string>{"model"});

    expect_failure(run({"lambda", path("model")}), 1, {"non-finite"});
    EXPECT_GT(ask({"lambda", path("model"), "--bits", "5", "--keep-non-finite"})["lambda"], 0.0);
    const auto kept = ask({"compress", path("model"), "-o", path("out"), "--lambda", "4", "--keep-non-finite"});
    ASSERT_EQ(kept["tensors"].size(), 1U);
    EXPECT_EQ(kept["tensors"][0]["name"], "layers.0.good");
    EXPECT_EQ(kept["totals"]["non_finite"], 1);
    ask({"decompress", path("out"), "-o", path("back")});
    EXPECT_EQ(f32_bytes(tool_test::read_values(path("back"), "layers.0.bad")), f32_bytes(weights));
    for (const auto& name : {"out", "back"}) std::filesystem::remove(path(name));
  }
}

TEST_F(Tool, SaysWhyNoTensorIsSelected) {
  const std::string numbers(4 * 8 * 16, '\1');
  std::vector<float> bad(8 * 16, 0.5F);
  bad[3] = std::numeric_limits<float>::infinity();
  write_safetensors(path("model"), {{"layers.0.a", "I32", {8, 16}, numbers},
                                    {"layers.0.b", "F32", {8}, f32_bytes(std::vector<float>(8))}});
  const outcome of_type = run({"compress", path("model"), "-o", path("out"), "--lambda", "4"});
  expect_failure(of_type, 1, {"none of 2 tensors", "I32 is not a weight type"});
  write_safetensors(path("model"), {{"layers.0.a", "F32", {8, 16}, f32_bytes(bad)}});
  const outcome of_values = run({"compress", path("model"), "-o", path("out"), "--lambda", "4", "--keep-non-finite"});
  expect_failure(of_values, 1, {"none of 1 tensors", "1 contain NaN or infinity"});
}

TEST_F(Tool, ReplacesNoFileThatSaysSomethingOfWeights) {
  write_safetensors(path("model"), {{"layers.0.a", "F32", {8, 16}, f32_bytes(std::vector<float>(128, 0.5F))}});
  for (const auto& [option, content] :
       {std::pair("--exact", R"({"layers.0.a": [[0, 0]]})"), std::pair("--sensitivity", R"({"layers.0.a": 1})")}) {
    tool_test::write_text(path("file"), content);
    expect_failure(run({"compress", path("model"), "-o", path("file"), "--lambda", "4", option, path("file")}), 1,
                   {"would replace the input"});
    EXPECT_EQ(tool_test::read_text(path("file")), content);
  }
}

TEST_F(Tool, KeepsHostileNamesOnOneLine) {
  const float bad = std::numeric_limits<float>::quiet_NaN();
  write_safetensors(path("model"), {{"a\nb\x1b[2J", "F32", {1, 1}, f32_bytes({bad})}});
  expect_failure(run({"compress", path("model"), "-o", path("out"), "--lambda", "4"}), 1, {"a\\x0ab\\x1b[2J"});
  const auto listed = run({"inspect", path("model")});
  EXPECT_EQ(listed.out.find('\x1b'), std::string::npos);
}

TEST_F(Tool, ShowsWhatHidesInNames) {
  // In parts, so that no tool that looks at these sources sees the direction marks either.
  const std::string hidden =
      std::string("a\xc2\x9b\x32J\xe2\x80") + "\xaegpj.\xe2\x81" + "\xa6\xd8\x9c\xe2\x80\x8b.\xff";
  const std::string shown = R"(a\u009b2J\u202egpj.\u2066\u061c\u200b.\xff)";
  const std::string name = hidden.substr(0, hidden.size() - 1);  // names of tensors are UTF-8, names of files any bytes
  const float bad = std::numeric_limits<float>::quiet_NaN();
  write_safetensors(path("model"), {{name, "F32", {1, 1}, f32_bytes({bad})}});
  expect_failure(run({"compress", path("model"), "-o", path("out"), "--lambda", "4"}), 1,
                 {shown.substr(0, shown.size() - 4)});
  expect_failure(run({"inspect", path(hidden)}), 1, {shown});
  expect_failure(run({"inspect", path("model"), hidden}), 2, {shown});
  expect_failure(run({hidden}), 2, {shown});
  for (const std::string option : {"--quiet", "--json"}) {
    const outcome listed = run({"inspect", path("model"), option});
    EXPECT_EQ(listed.exit_code, 0) << listed.err;
    EXPECT_TRUE(std::all_of(listed.out.begin(), listed.out.end(), [](char character) {
      return character == '\n' || (character >= 0x20 && character < 0x7f);
    })) << listed.out;
    EXPECT_NE(listed.out.find(R"(\u202egpj)"), std::string::npos) << listed.out;
  }
  EXPECT_EQ(ask({"inspect", path("model")})["tensors"][0]["name"], name) << "JSON says what the name is";
}

TEST_F(Tool, EndsABlockPatternThatNeverWould) {
  write_safetensors(path("model"), {{std::string(200, 'a') + "!", "F32", {8, 8}, std::string(256, '\0')}});
  expect_failure(run({"compress", path("model"), "-o", path("out"), "--lambda", "4", "--block-pattern", "(a+)+$"}), 1,
                 {"block pattern '(a+)+$'", "takes too long"});
}

/// Writes weights that take about a second to compress.
void write_large_model(const std::string& path) {
  std::vector<float> weights(2048 * 1024);
  for (std::size_t index = 0; index < weights.size(); ++index) {
    weights[index] = static_cast<float>(index * 7919 % 65537) * 1e-6F - 0.03F;
  }
  write_safetensors(path, {{"layers.0.a", "F32", {2048, 1024}, f32_bytes(weights)},
                           {"layers.1.a", "F32", {2048, 1024}, f32_bytes(weights)}});
}

TEST_F(Tool, IgnoresSignalsThatItWasStartedToIgnore) {
  const std::string model = path("model");
  write_large_model(model);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const auto before = std::signal(signal, SIG_IGN);
    const process running = start({"compress", model, "-o", path("out"), "--lambda", "5", "--threads", "1"});
    std::signal(signal, before);
    for (int tries = 0; tries < 10000 && files().size() < 2; ++tries) {
      std::this_thread::sleep_for(std::chrono::microseconds(500));
    }
    EXPECT_EQ(files().size(), 2U) << "the signal comes before the tool has said how it handles it";
    ::kill(running.id(), signal);
    const outcome done = running.wait();
    EXPECT_EQ(done.exit_code, 0) << done.err;
    EXPECT_EQ(files(), (std::vector<std::string>{"model", "out"}));
    std::filesystem::remove(path("out"));
  }
}

TEST_F(Tool, RemovesWhatAKilledRunLeft) {
  const process running = start({"generate", path("out"), "--preset", "demo", "--threads", "1"});
  for (int tries = 0; tries < 10000 && files().empty(); ++tries) {
    std::this_thread::sleep_for(std::chrono::microseconds(500));
  }
  ::kill(running.id(), SIGKILL);
  EXPECT_EQ(running.wait().exit_code, 128 + SIGKILL);
  EXPECT_EQ(files().size(), 1U) << "a temporary file, not yet the output";
  EXPECT_EQ(run({"generate", path("out"), "--preset", "tiny", "--quiet"}).exit_code, 0);
  EXPECT_EQ(files(), std::vector<std::string>{"out"});
}

TEST_F(Tool, LeavesNothingBehindWhenInterrupted) {
  const std::string model = path("model");
  write_large_model(model);
  ask({"compress", model, "-o", path("packed"), "--lambda", "5"});
  const auto before = files();
  const auto partial = [&] {
    const auto names = files();
    return std::any_of(names.begin(), names.end(),
                       [](const std::string& name) { return name.find("partial") != std::string::npos; });
  };
  for (const int signal : {SIGINT, SIGTERM}) {
    for (const auto& arguments : std::vector<std::vector<std::string>>{
             {"compress", model, "-o", path("out"), "--lambda", "5", "--threads", "1"},
             {"decompress", path("packed"), "-o", path("out"), "--threads", "1"},
             {"generate", path("out"), "--preset", "demo", "--threads", "1"}}) {
      SCOPED_TRACE(arguments[0] + " " + std::to_string(signal));
      const process running = start(arguments);
      for (int tries = 0; tries < 10000 && !partial(); ++tries) {
        std::this_thread::sleep_for(std::chrono::microseconds(500));
      }
      EXPECT_TRUE(partial()) << "the signal comes before there is something to remove";
      ::kill(running.id(), signal);
      const outcome stopped = running.wait();
      expect_failure(stopped, 130, {"interrupted"});
      EXPECT_EQ(files(), before);
    }
  }
}

}  // namespace
