#include "ecq/io/mapped_file.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <utility>

#include "support/files.hpp"

namespace {

using ecq::errc;
using ecq::mapped_file;
using ecq_test::as_text;
using ecq_test::temporary_folder;
using ecq_test::write_file;

TEST(MappedFile, ShowsTheBytesBeforeAndAfterTheyAreGivenBack) {
  const temporary_folder folder;
  std::string content(100'000, 'x');
  for (std::size_t at = 0; at < content.size(); ++at) content[at] = static_cast<char>(at * 31 % 251);
  write_file(folder / "file", content);
  auto file = mapped_file::open(folder / "file");
  ASSERT_TRUE(file) << file.error().to_string();
  EXPECT_EQ(as_text(file->bytes()), content);
  for (const std::size_t offset :
       {std::size_t{0}, std::size_t{1}, std::size_t{5000}, content.size(), ~std::size_t{0}}) {
    for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{4096}, ~std::size_t{0}}) {
      file->release(offset, size);
    }
  }
  EXPECT_EQ(as_text(file->bytes()), content);
  const mapped_file moved = std::move(*file);
  EXPECT_EQ(as_text(moved.bytes()), content);
  EXPECT_TRUE(file->bytes().empty());
}

#ifdef __linux__
std::size_t resident_bytes() {
  std::ifstream status("/proc/self/statm");
  std::size_t total = 0, resident = 0;
  status >> total >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

TEST(MappedFile, ReleaseGivesMemoryBack) {
  if (resident_bytes() == 0) GTEST_SKIP() << "no /proc/self/statm";
  const temporary_folder folder;
  constexpr std::size_t size = 64U << 20;
  write_file(folder / "file", std::string(size, 'x'));
  const auto file = mapped_file::open(folder / "file");
  ASSERT_TRUE(file);
  const std::size_t before = resident_bytes();
  std::size_t sum = 0;
  for (std::size_t at = 0; at < size; at += 512) sum += std::to_integer<std::size_t>(file->bytes()[at]);
  EXPECT_EQ(sum, size / 512 * 'x');
  if (resident_bytes() < before + size / 2) GTEST_SKIP() << "this system does not count mapped pages";
  file->release(0, size);
  EXPECT_LT(resident_bytes(), before + size / 4);
}
#endif

TEST(MappedFile, RefusesWhatIsNoFileWithBytes) {
  const temporary_folder folder;
  const auto code = [](const std::filesystem::path& path) {
    const auto file = mapped_file::open(path);
    if (file) return errc::ok;
    EXPECT_NE(file.error().message().find(path.string()), std::string::npos) << file.error().message();
    return file.error().code();
  };
  EXPECT_EQ(code(folder / "missing"), errc::not_found);
  EXPECT_EQ(code(folder / "missing/too"), errc::not_found);
  EXPECT_EQ(code(folder.path()), errc::io_error);
  EXPECT_EQ(code("/dev/null"), errc::io_error);
  write_file(folder / "empty", "");
  EXPECT_EQ(code(folder / "empty"), errc::truncated);
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(code(folder / "pipe"), errc::io_error);  // and does not wait for a writer
  write_file(folder / "secret", "x");
  ASSERT_EQ(::chmod((folder / "secret").c_str(), 0), 0);
  if (::geteuid() != 0) {
    EXPECT_EQ(code(folder / "secret"), errc::io_error);
  }
}

}  // namespace
