#include "ecq/io/output_file.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <string>
#include <utility>
#include <vector>

#include "support/files.hpp"

namespace {

using ecq::errc;
using ecq::output_file;
using ecq_test::as_bytes;
using ecq_test::read_file;
using ecq_test::temporary_folder;
using ecq_test::write_file;

TEST(OutputFile, AppearsWholeOnCommit) {
  const temporary_folder folder;
  write_file(folder / "out", "old");
  auto file = output_file::create(folder / "out");
  ASSERT_TRUE(file) << file.error().to_string();
  ASSERT_TRUE(file->append(as_bytes("....")));
  ASSERT_TRUE(file->append(as_bytes("")));
  ASSERT_TRUE(file->append(as_bytes("data")));
  ASSERT_TRUE(file->rewrite(0, as_bytes("head")));
  EXPECT_EQ(file->size(), 8U);
  EXPECT_EQ(read_file(folder / "out"), "old");
  output_file moved = std::move(*file);
  ASSERT_TRUE(moved.append(as_bytes("!")));
  ASSERT_TRUE(moved.commit());
  EXPECT_EQ(read_file(folder / "out"), "headdata!");
  EXPECT_EQ(folder.count(), 1U);
}

TEST(OutputFile, LeavesNothingUnlessCommitted) {
  const temporary_folder folder;
  {
    auto file = output_file::create(folder / "out");
    ASSERT_TRUE(file);
    ASSERT_TRUE(file->append(as_bytes("data")));
    EXPECT_EQ(folder.count(), 1U);
    EXPECT_FALSE(std::filesystem::exists(folder / "out"));
  }
  EXPECT_EQ(folder.count(), 0U);
}

TEST(OutputFile, SeveralAtOnceInOneFolder) {
  const temporary_folder folder;
  std::vector<output_file> files;
  for (int index = 0; index < 40; ++index) {  // more than the signal handler can list
    auto file = output_file::create(folder / "out");
    ASSERT_TRUE(file) << file.error().to_string();
    ASSERT_TRUE(file->append(as_bytes(std::to_string(index))));
    files.push_back(std::move(*file));
  }
  EXPECT_EQ(folder.count(), 40U);
  ASSERT_TRUE(files[7].commit());
  files.clear();
  EXPECT_EQ(read_file(folder / "out"), "7");
  EXPECT_EQ(folder.count(), 1U);
}

TEST(OutputFile, LongNamesWork) {
  const temporary_folder folder;
  const std::string name(255, 'n');
  auto file = output_file::create(folder / name);
  ASSERT_TRUE(file) << file.error().to_string();
  ASSERT_TRUE(file->commit());
  EXPECT_TRUE(std::filesystem::exists(folder / name));
}

TEST(OutputFile, RefusesNamesThatCannotBeWritten) {
  const temporary_folder folder;
  const auto refused = [&](const std::filesystem::path& path) {
    const auto file = output_file::create(path);
    return !file && file.error().code() == errc::io_error &&
           file.error().message().find(path.string()) != std::string::npos;
  };
  EXPECT_TRUE(refused(folder.path()));
  EXPECT_TRUE(refused(folder / "missing/out"));
  EXPECT_TRUE(refused("/dev/full"));  // renaming over a device would replace it
  EXPECT_TRUE(refused("/dev/null"));
  EXPECT_TRUE(refused(""));
  write_file(folder / "file", "x");
  EXPECT_TRUE(refused(folder / "file/out"));
  if (::geteuid() != 0) {
    ASSERT_EQ(::chmod(folder.path().c_str(), 0500), 0);
    EXPECT_TRUE(refused(folder / "out"));
    ASSERT_EQ(::chmod(folder.path().c_str(), 0700), 0);
  }
  EXPECT_EQ(folder.count(), 1U);
}

/// Runs `body` in a child process and returns its exit code, or minus the signal that ended it.
template <class Body>
int in_child(Body&& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

TEST(OutputFile, FullDiskIsAnErrorThatNamesTheFile) {
  const temporary_folder folder;
  const int code = in_child([&] {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{10'000, 10'000};
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return 1;
    auto file = output_file::create(folder / "out");
    if (!file || !file->append(as_bytes(std::string(9'000, 'x')))) return 2;
    const auto outcome = file->append(as_bytes(std::string(9'000, 'x')));
    if (outcome || outcome.error().code() != errc::io_error) return 3;
    if (outcome.error().message().find((folder / "out").string()) == std::string::npos) return 4;
    return 0;
  });
  EXPECT_EQ(code, 0);
  // The child left without destructors, as a crash would: the final name is free all the same.
  EXPECT_FALSE(std::filesystem::exists(folder / "out"));
}

void clean_and_leave(int) {
  ecq::remove_unfinished_files();
  ::_exit(42);
}

TEST(OutputFile, SignalHandlerRemovesWhatIsUnfinishedAndNothingElse) {
  const temporary_folder folder;
  const int code = in_child([&] {
    ::signal(SIGTERM, clean_and_leave);
    auto done = output_file::create(folder / "done");
    auto first = output_file::create(folder / "first");
    auto second = output_file::create(folder / "second");
    if (!done || !first || !second) return 1;
    if (!done->append(as_bytes("done")) || !done->commit() || !first->append(as_bytes("part"))) return 2;
    ::raise(SIGTERM);
    return 3;
  });
  EXPECT_EQ(code, 42);
  EXPECT_EQ(read_file(folder / "done"), "done");
  EXPECT_EQ(folder.count(), 1U);
}

}  // namespace
