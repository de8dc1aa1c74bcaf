// The command line: help, version, wrong options, the progress bar.

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <string>
#include <vector>

#include "support/places.hpp"
#include "tool/tool.hpp"

namespace {

using tool_test::expect_failure;
using tool_test::Tool;

const std::vector<std::string> commands{"compress", "lambda", "decompress", "inspect", "verify", "compare", "generate"};

TEST_F(Tool, Helps) {
  const auto general = run({"--help"});
  EXPECT_EQ(general.exit_code, 0);
  EXPECT_EQ(general.err, "");
  for (const std::string& command : commands) {
    EXPECT_NE(general.out.find("\n  " + command), std::string::npos) << command;
    const auto help = run({command, "--help"});
    EXPECT_EQ(help.exit_code, 0) << command;
    EXPECT_EQ(help.err, "");
    for (const std::string option : {"--json", "--quiet", "--threads", "--help", "--version"}) {
      EXPECT_NE(help.out.find(option), std::string::npos) << command << " " << option;
    }
  }
}

TEST_F(Tool, SaysItsVersion) {
  EXPECT_EQ(run({"--version"}).out.rfind("ecq ", 0), 0U);
  for (const std::string& command : commands) {
    const auto version = run({command, "--version"});
    EXPECT_EQ(version.exit_code, 0) << command;
    EXPECT_EQ(version.out, run({"--version"}).out);
  }
}

TEST_F(Tool, RefusesAWrongCommandLine) {
  const std::vector<std::vector<std::string>> wrong{
      {"compress"},
      {"compress", "in"},
      {"compress", "in", "-o", "out", "--bits", "three"},
      {"compress", "in", "-o", "out", "--lambda", "-1"},
      {"compress", "in", "-o", "out", "--lambda", "nan"},
      {"compress", "in", "-o", "out", "--bits", "nan"},
      {"compress", "in", "-o", "out", "--bits", "1.2"},
      {"compress", "in", "-o", "out", "--bits", "6.6"},
      {"compress", "in", "-o", "out", "--bits", "3", "--lambda", "2"},
      {"compress", "in", "-o", "out", "--lambda", "2", "--per-tensor"},
      {"compress", "in", "-o", "out", "--format", "fp4"},
      {"compress", "in", "-o", "out", "--chunk", "1000"},
      {"compress", "in", "-o", "out", "--chunk", "some"},
      {"compress", "in", "-o", "out", "--threads", "-1"},
      {"compress", "in", "-o", "out", "--frobnicate"},
      {"compress", "in", "-o", "out", "--block-pattern", "(("},
      {"compress", "in", "-o", "out", "--method", "magic"},
      {"compress", "in", "-o", "out", "--width", "4"},
      {"compress", "in", "-o", "out", "--method", "entrollm", "--width", "5"},
      {"compress", "in", "-o", "out", "--method", "entrollm", "--bits", "3"},
      {"compress", "in", "-o", "out", "--method", "entrollm", "--lambda", "3"},
      {"compress", "in", "-o", "out", "--method", "entrollm", "--format", "int8"},
      {"compress", "in", "-o", "out", "--method", "entrollm", "--per-tensor"},
      {"compress", "in", "-o", "out", "--method", "entrollm", "--lossless"},
      {"compress", "in", "-o", "out", "--method", "tcq7"},
      {"compress", "in", "-o", "out", "--method", "tcq8", "--format", "fp8_e5m2"},
      {"compress", "in", "-o", "out", "--method", "tcq8", "--per-tensor"},
      {"lambda", "in", "--method", "tcq8", "--format", "int8"},
      {"lambda", "in", "--method", "entrollm"},
      {"compress", "in", "-o", "out", "--pairs"},
      {"compress", "in", "-o", "out", "--max-shard-size", "0"},
      {"compress", "in", "-o", "out", "--max-shard-size", "-1"},
      {"compress", "in", "-o", "out", "--max-shard-size", "18446744073709551616"},
      {"compress", "in", "-o", "out", "--for", "speed"},
      {"decompress", "in", "-o", "out", "--dtype", "int8"},
      {"compare", "in", "--bits", "4,x"},
      {"compare", "in", "--bits", "9"},
      {"compare", "in", "--methods", "entquant,magic"},
      {"generate", "out", "--preset", "nothing-like-this"},
      {"generate", "out", "--seed", "minus one"},
      {"generate", "out", "--seed", "010"},
      {"generate", "out", "--seed", "-1"},
      {"generate", "out", "--seed", "18446744073709551616"},
      {"compare", "in", "--max-weights", "-1"},
      {"generate"},
      {"inspect", "a", "b"},
      {"inspect", "a", "--svg", "b"},
      {"inspect", "a", "--details"},
  };
  for (const auto& arguments : wrong) {
    std::string line;
    for (const std::string& word : arguments) line += word + " ";
    SCOPED_TRACE(line);
    expect_failure(run(arguments), 2, {"invalid option: "});
  }
}

TEST_F(Tool, ExplainsItselfWhenCalledWithNothing) {
  const auto answer = run({});
  EXPECT_EQ(answer.exit_code, 2) << "a script whose command is empty has to notice";
  EXPECT_EQ(answer.out, run({"--help"}).out);
  EXPECT_EQ(answer.err, "");
}

TEST_F(Tool, GuessesWhatWasMeant) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> wrong{
      {{"comprss", "in", "-o", "out"}, "invalid command: comprss: did you mean compress? (see ecq --help)"},
      {{"dekompress", "in"}, "dekompress: did you mean decompress?"},
      {{"insepct", "in"}, "insepct: did you mean inspect?"},
      {{"explode"}, "invalid command: explode: no such command (see ecq --help)"},
      {{"compress", "in", "-o", "out", "--bit", "3"},
       "invalid option: --bit: did you mean --bits? (see ecq compress --help)"},
      {{"compress", "in", "--bit=3"}, "--bit: did you mean --bits?"},
      {{"compress", "in", "--ouptut", "out"}, "--ouptut: did you mean --output?"},
      {{"compress", "in", "-o", "out", "--lossles"}, "--lossles: did you mean --lossless?"},
      {{"inspect", "in", "--exp"}, "--exp: did you mean --exponents? (see ecq inspect --help)"},
      {{"verify", "in", "--agianst", "in"}, "--agianst: did you mean --against? (see ecq verify --help)"},
      {{"compress", "in", "-o", "out", "--frobnicate"}, "--frobnicate: no such option (see ecq compress --help)"},
      {{"--frobnicate"}, "invalid option: --frobnicate: no such option (see ecq --help)"},
      {{"--verison"}, "--verison: did you mean --version? (see ecq --help)"},
      {{"--json", "inspect", "in"}, "--json belongs after the command (see ecq inspect --help)"},
  };
  for (const auto& [arguments, words] : wrong) expect_failure(run(arguments), 2, {words});
}

TEST_F(Tool, NamesTheHelpOfTheCommand) {
  for (const std::string& command : commands) {
    expect_failure(run({command}), 2, {"(see ecq " + command + " --help)"});
    expect_failure(run({command, "a", "b", "c"}), 2, {"(see ecq " + command + " --help)"});
    expect_failure(run({command, "a", "--threads", "many"}), 2, {"--threads", "(see ecq " + command + " --help)"});
  }
}

TEST_F(Tool, DoesNotWriteToStandardOutput) {
  const std::string model = generated();
  const auto before = files();
  for (const auto& arguments : std::vector<std::vector<std::string>>{{"compress", model, "-o", "-"},
                                                                     {"decompress", model, "--output", "-"},
                                                                     {"generate", "-"},
                                                                     {"compare", model, "--svg", "-"},
                                                                     {"inspect", model, "--exponents", "--svg", "-"}}) {
    expect_failure(run(arguments), 2, {"standard output", "name a file"});
  }
  EXPECT_EQ(files(), before);
}

TEST_F(Tool, IsQuietWhenNobodyReadsOn) {
  const std::string model = generated();
  for (const bool ignored : {false, true}) {  // whether SIGPIPE is ignored when the tool starts
    for (const auto& arguments : std::vector<std::vector<std::string>>{
             {"inspect", model}, {"inspect", model, "--json"}, {"--help"}, {"compress", model, "-o", path("packed")}}) {
      int ends[2];
      ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
      ::close(ends[0]);
      const auto before = std::signal(SIGPIPE, ignored ? SIG_IGN : SIG_DFL);
      const auto running = start(arguments, RLIM_INFINITY, -1, ends[1]);
      std::signal(SIGPIPE, before);
      ::close(ends[1]);
      const auto stopped = running.wait();
      EXPECT_EQ(stopped.exit_code, 141) << arguments[0];
      EXPECT_EQ(stopped.err, "");
    }
    EXPECT_EQ(files(), (std::vector<std::string>{"model.safetensors", "packed"}));
    EXPECT_EQ(run({"verify", path("packed")}).exit_code, 0);
  }
}

TEST_F(Tool, DrawsProgressOnTerminalsAlone) {
  const std::string model = generated();
  for (const bool quiet : {false, true}) {
    const int terminal = ::posix_openpt(O_RDWR | O_NOCTTY);
    if (terminal < 0 || ::grantpt(terminal) != 0 || ::unlockpt(terminal) != 0) GTEST_SKIP() << "no pseudo-terminals";
    const int other = ::open(::ptsname(terminal), O_RDWR | O_NOCTTY);
    ASSERT_GE(other, 0);
    std::vector<std::string> arguments{"compress", model, "-o", path("out"), "--json"};
    if (quiet) arguments.emplace_back("--quiet");
    const auto result = start(arguments, RLIM_INFINITY, other).wait();
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_TRUE(result.answer().is_object()) << result.out;
    ::close(other);
    std::string drawn;
    std::array<char, 4096> some;
    // A read returns the bytes that have arrived so far. It fails after the last one, as nobody writes any more.
    for (ssize_t count = 0; (count = ::read(terminal, some.data(), some.size())) > 0;) {
      drawn.append(some.data(), static_cast<std::size_t>(count));
    }
    ::close(terminal);
    if (quiet) {
      EXPECT_EQ(drawn, "");
    } else {
      EXPECT_NE(drawn.find(" %"), std::string::npos) << drawn;
      EXPECT_EQ(drawn.substr(drawn.size() - 4), "\r\x1b[K") << "the bar is gone at the end";
    }
  }
}

TEST_F(Tool, FailsWhenItsAnswerCannotBeWritten) {
  const std::string model = generated();
  if (::access("/dev/full", W_OK) != 0) GTEST_SKIP() << "no /dev/full";
  const std::string command = "'" + ecq_test::ecq_program() + "' inspect '" + model + "' > /dev/full 2>/dev/null";
  const int status = std::system(command.c_str());
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 1);
}

}  // namespace
