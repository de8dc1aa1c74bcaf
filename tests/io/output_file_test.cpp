#include "ecq/io/output_file.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ecq/io/model_files.hpp"
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

/// Writes `text` to the file that `path` names or leads to.
void write_output(const std::filesystem::path& path, std::string_view text) {
  auto file = output_file::create(path);
  ASSERT_TRUE(file) << file.error().to_string();
  ASSERT_TRUE(file->append(as_bytes(text)));
  const auto done = file->commit();
  ASSERT_TRUE(done) << done.error().to_string();
}

TEST(OutputFile, GoesWhereSymbolicLinksLead) {
  namespace fs = std::filesystem;
  const temporary_folder folder;
  fs::create_directory(folder / "links");
  fs::create_directory(folder / "data");
  write_file(folder / "data/old", "old");
  fs::create_symlink("../data/old", folder / "links/old");
  fs::create_symlink("old", folder / "links/twice");
  fs::create_symlink(folder / "data/new", folder / "links/dangling");
  for (const auto& [link, target] : {std::pair("links/old", "data/old"),
                                     {"links/twice", "data/old"},
                                     {"links/dangling", "data/new"},
                                     {"links/dangling", "data/new"}}) {
    SCOPED_TRACE(link);
    auto file = output_file::create(folder / link);
    ASSERT_TRUE(file) << file.error().to_string();
    EXPECT_EQ(file->path(), folder / link);
    EXPECT_EQ(std::distance(fs::directory_iterator(folder / "links"), fs::directory_iterator()), 3)
        << "the temporary file is beside the target, where it can be renamed";
    ASSERT_TRUE(file->append(as_bytes(link)));
    ASSERT_TRUE(file->commit());
    EXPECT_EQ(read_file(folder / target), link);
    EXPECT_TRUE(fs::is_symlink(folder / link));
    EXPECT_FALSE(fs::is_symlink(folder / target));
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(folder / "data"), fs::directory_iterator()), 2);
}

/// Returns the message of an output that is refused; it has to name `path`.
std::string refusal(const std::filesystem::path& path) {
  const auto file = output_file::create(path);
  if (file) return "accepted";
  EXPECT_EQ(file.error().code(), errc::io_error);
  EXPECT_NE(file.error().message().find("'" + path.string() + "'"), std::string::npos) << file.error().message();
  return file.error().message();
}

TEST(OutputFile, SaysWhatItRefusesToReplace) {
  const temporary_folder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  const int descriptor = ::socket(AF_UNIX, SOCK_STREAM, 0);
  ::sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string name = (folder / "socket").string();
  ASSERT_LT(name.size(), sizeof address.sun_path);
  std::copy(name.begin(), name.end(), address.sun_path);
  ASSERT_EQ(::bind(descriptor, reinterpret_cast<const ::sockaddr*>(&address), sizeof address), 0);
  ::close(descriptor);
  std::filesystem::create_directory(folder / "folder");
  std::filesystem::create_symlink("pipe", folder / "link");
  std::filesystem::create_symlink("loop", folder / "loop");
  std::filesystem::create_symlink("missing/", folder / "nowhere");
  const auto before = folder.count();
  const auto expect = [&](const std::filesystem::path& path, std::string_view words) {
    EXPECT_NE(refusal(path).find(words), std::string::npos) << refusal(path);
  };
  expect(folder / "pipe", "is a pipe");
  expect(folder / "link", "is a pipe");
  expect(folder / "socket", "is a socket");
  expect(folder / "folder", "is a directory");
  expect(folder.path() / "folder" / "", "is a directory");
  expect(folder.path() / "new" / "", "is the name of a directory");
  expect(folder / "nowhere", "is the name of a directory");
  expect(folder / "loop", "symbolic links");
  expect("/dev/null", "is a character device");
  expect("", "the name is empty");
  EXPECT_EQ(folder.count(), before);
}

mode_t mode_of(const std::filesystem::path& path) {
  struct ::stat status {};
  EXPECT_EQ(::stat(path.c_str(), &status), 0);
  return status.st_mode & 07777;
}

TEST(OutputFile, KeepsThePermissionsOfWhatItReplaces) {
  const temporary_folder folder;
  const mode_t before = ::umask(027);
  write_output(folder / "new", "new");
  EXPECT_EQ(mode_of(folder / "new"), 0640U);
  std::filesystem::create_symlink("old", folder / "link");
  for (const mode_t mode : {0600U, 0666U, 0644U, 0444U, 0755U}) {
    write_file(folder / "old", "old");
    ASSERT_EQ(::chmod((folder / "old").c_str(), mode), 0);
    write_output(folder / (mode == 0666U ? "link" : "old"), "new");
    EXPECT_EQ(mode_of(folder / "old"), mode);
    EXPECT_EQ(read_file(folder / "old"), "new");
  }
  ::umask(before);
}

TEST(OutputFile, IsPrivateFromTheStartIfItsPredecessorWas) {
  const temporary_folder folder;
  write_file(folder / "old", "old");
  ASSERT_EQ(::chmod((folder / "old").c_str(), 0600), 0);
  const auto file = output_file::create(folder / "old");
  ASSERT_TRUE(file);
  EXPECT_EQ(folder.count(), 2U);
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    EXPECT_EQ(mode_of(entry.path()), 0600U) << entry.path();
  }
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
  // The child ended without destructors, as in a crash: the final name is free nevertheless.
  EXPECT_FALSE(std::filesystem::exists(folder / "out"));
}

/// Kills a process that writes the output `path`, so that its unfinished file is left behind.
void abandon(const std::filesystem::path& path) {
  EXPECT_EQ(in_child([&] {
              auto file = output_file::create(path);
              if (!file || !file->append(as_bytes("part"))) return 1;
              ::raise(SIGKILL);
              return 2;
            }),
            -SIGKILL);
}

TEST(OutputFile, RemovesWhatKilledRunsLeft) {
  const temporary_folder folder;
  const std::string name(255, 'n');  // too long for the temporary names
  std::filesystem::create_symlink("out", folder / "link");
  for (const std::string_view output : {std::string_view("out"), std::string_view("link"), std::string_view(name)}) {
    const std::size_t before = folder.count();
    abandon(folder / output);
    EXPECT_EQ(folder.count(), before + 1);
    { ASSERT_TRUE(output_file::create(folder / output)); }
    EXPECT_EQ(folder.count(), before) << output;
  }
}

TEST(OutputFile, RemovesNothingElse) {
  const temporary_folder folder;
  abandon(folder / "other");
  const auto living = output_file::create(folder / "out");
  ASSERT_TRUE(living);
  write_file(folder / "out.partial", "");
  write_file(folder / "out.0123456789abcdef.partial2", "");
  write_file(folder / "out.0123456789ABCDEF.partial", "");
  write_file(folder / "my out.0123456789abcdef.partial", "");
  write_file(folder / "target", "");
  std::filesystem::create_symlink("target", folder / "out.0123456789abcdef.partial");
  ASSERT_EQ(::mkfifo((folder / "out.0123456789abcdee.partial").c_str(), 0600), 0);
  const std::size_t before = folder.count();
  write_output(folder / "out", "whole");
  EXPECT_EQ(folder.count(), before + 1);
  EXPECT_EQ(read_file(folder / "out"), "whole");
}

TEST(OutputFile, WritersAtOnceLeaveEachOtherAlone) {
  const temporary_folder folder;
  int to_child[2], to_parent[2];
  ASSERT_EQ(::pipe(to_child), 0);
  ASSERT_EQ(::pipe(to_parent), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    char byte = 0;
    auto file = output_file::create(folder / "out");
    if (!file || ::write(to_parent[1], "x", 1) != 1 || ::read(to_child[0], &byte, 1) != 1) ::_exit(1);
    if (!file->append(as_bytes("child")) || !file->commit()) ::_exit(2);
    ::_exit(0);
  }
  char byte = 0;
  ASSERT_EQ(::read(to_parent[0], &byte, 1), 1);
  write_output(folder / "out", "parent");  // while the child is about to write
  EXPECT_EQ(read_file(folder / "out"), "parent");
  ASSERT_EQ(::write(to_child[1], "x", 1), 1);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_EQ(read_file(folder / "out"), "child");
  EXPECT_EQ(folder.count(), 1U);
  for (const int descriptor : {to_child[0], to_child[1], to_parent[0], to_parent[1]}) ::close(descriptor);
}

TEST(OutputFile, IsNotCreatedOverAFileThatAnotherRunIsRemoving) {
  const temporary_folder folder;
  write_file(folder / "part", "");
  const int cleaner = ::open((folder / "part").c_str(), O_RDWR | O_CLOEXEC);
  const int writer = ::open((folder / "part").c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(::flock(cleaner, LOCK_EX | LOCK_NB), 0);
  EXPECT_FALSE(ecq::detail::lock_temporary(writer, folder / "part")) << "it is about to be removed";
  std::filesystem::remove(folder / "part");
  ::close(cleaner);
  EXPECT_FALSE(ecq::detail::lock_temporary(writer, folder / "part")) << "it has been removed";
  ::close(writer);
}

TEST(OutputFile, IsKnownAsInputByWhateverName) {
  namespace fs = std::filesystem;
  const temporary_folder folder;
  write_file(folder / "in", "x");
  write_file(folder / "same", "x");
  fs::create_symlink("in", folder / "link");
  fs::create_hard_link(folder / "in", folder / "hard");
  fs::create_directory(folder / "sub");
  const std::vector<fs::path> inputs{folder / "index", folder / "in"};
  for (const char* name : {"in", "link", "hard", "sub/../in", "./in"}) {
    const auto refused = ecq::refuse_to_overwrite(folder / name, inputs);
    ASSERT_FALSE(refused) << name;
    EXPECT_EQ(refused.error().code(), errc::invalid_argument);
    EXPECT_NE(refused.error().message().find((folder / name).string()), std::string::npos);
    EXPECT_NE(refused.error().message().find((folder / "in").string()), std::string::npos);
  }
  for (const char* name : {"same", "new", "no/such/folder"}) {
    EXPECT_TRUE(ecq::refuse_to_overwrite(folder / name, inputs)) << name;
  }
}

void clean_and_leave(int) {
  ecq::remove_unfinished_files();
  ::_exit(42);
}

TEST(OutputFile, SignalHandlerRemovesWhatIsUnfinishedAndNothingElse) {
  const temporary_folder folder;
  std::filesystem::create_directory(folder / "there");
  const int code = in_child([&] {
    ::signal(SIGTERM, clean_and_leave);
    const auto there = ecq::output_folder::create(folder / "there");
    const auto made = ecq::output_folder::create(folder / "made");
    const auto kept = ecq::output_folder::create(folder / "kept");
    if (!there || !made || !kept) return 1;
    auto done = output_file::create(folder / "kept/done");
    auto first = output_file::create(folder / "there/first");
    auto second = output_file::create(folder / "made/second");
    if (!done || !first || !second) return 1;
    if (!done->append(as_bytes("done")) || !done->commit() || !first->append(as_bytes("part"))) return 2;
    ::raise(SIGTERM);
    return 3;
  });
  EXPECT_EQ(code, 42);
  EXPECT_EQ(read_file(folder / "kept/done"), "done");
  EXPECT_TRUE(std::filesystem::is_empty(folder / "there"));
  EXPECT_FALSE(std::filesystem::exists(folder / "made"));
}

TEST(OutputFile, SignalHandlerRemovesAnyNumberOfFiles) {
  const temporary_folder folder;
  const int code = in_child([&] {
    ::signal(SIGTERM, clean_and_leave);
    std::vector<output_file> files;
    for (int i = 0; i < 100; ++i) {
      auto file = output_file::create(folder / std::to_string(i));
      if (!file) return 1;
      files.push_back(std::move(*file));
    }
    for (int i = 0; i < 50; ++i) files.pop_back();  // frees places for others
    for (int i = 0; i < 20; ++i) {
      auto file = output_file::create(folder / std::to_string(i));
      if (!file) return 1;
      files.push_back(std::move(*file));
    }
    ::raise(SIGTERM);
    return 3;
  });
  EXPECT_EQ(code, 42);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

}  // namespace
