// The command line: help, version, wrong options, the progress bar.

#include <fcntl.h>
#include <stdlib.h>

#include "tool/tool.hpp"

namespace {

using tool_test::expect_failure;
using tool_test::Tool;

const std::vector<std::string> commands{"compress", "decompress", "inspect", "verify", "compare", "generate"};

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
      {},
      {"explode"},
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
      {"compress", "in", "-o", "out", "--pairs"},
      {"decompress", "in", "-o", "out", "--dtype", "int8"},
      {"compare", "in", "--bits", "4,x"},
      {"compare", "in", "--bits", "9"},
      {"compare", "in", "--methods", "entquant,magic"},
      {"generate", "out", "--preset", "nothing-like-this"},
      {"generate", "out", "--seed", "minus one"},
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
    ::fcntl(terminal, F_SETFL, O_NONBLOCK);
    std::string drawn(65536, '\0');
    const ssize_t count = ::read(terminal, drawn.data(), drawn.size());
    drawn.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
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
  const std::string command = std::string("'") + ECQ_TOOL_PATH + "' inspect '" + model + "' > /dev/full 2>/dev/null";
  const int status = std::system(command.c_str());
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 1);
}

}  // namespace
