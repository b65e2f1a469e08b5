#include "base/whole_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace pie {
namespace {

namespace fs = std::filesystem;

class WholeFile : public testing::Test {
 protected:
  WholeFile() { fs::create_directories(folder_); }
  ~WholeFile() override { fs::remove_all(folder_); }
  std::string Text(const std::string& path) const {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  size_t Files() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(folder_), {}));
  }

  const std::string folder_ = testing::TempDir() + "whole_file_" + std::to_string(getpid());
  const std::string path_ = folder_ + "/file";
};

TEST_F(WholeFile, IsReadUpToALimit) {
  const std::string path = folder_ + "/file";
  ASSERT_TRUE(WriteWhole(path, std::string_view("a\0b\n", 4)));
  const auto read = ReadWhole(path, 4);
  ASSERT_TRUE(read) << read.error().text;
  EXPECT_EQ(*read, std::string_view("a\0b\n", 4));
  const auto long_file = ReadWhole(path, 3);
  ASSERT_FALSE(long_file);
  EXPECT_EQ(long_file.error().code, Code::kExhausted);
  EXPECT_EQ(long_file.error().text, path + " has 4 bytes; at most 3 are allowed");
  const auto missing = ReadWhole(path + "-missing", 4);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Code::kNotFound);
  const auto folder = ReadWhole(folder_, 1 << 20);
  ASSERT_FALSE(folder);
}

TEST_F(WholeFile, ReplacesTheOldFile) {
  ASSERT_TRUE(WriteWhole(path_, "a longer first text"));
  ASSERT_TRUE(WriteWhole(path_, std::string_view("short\0one", 9)));
  EXPECT_EQ(Text(path_), std::string_view("short\0one", 9));
  EXPECT_EQ(Files(), 1);
}

TEST_F(WholeFile, CreatesTheFileWithTheMode) {
  ASSERT_TRUE(WriteWhole(path_, "secret", 0600));
  struct stat status{};
  ASSERT_EQ(stat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600);
}

TEST_F(WholeFile, AFailedWriteLeavesTheOldFile) {
  ASSERT_TRUE(WriteWhole(path_, "old"));
  // A limit on the size of files stands in for a full disk.
  signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{4096, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  const Status status = WriteWhole(path_, std::string(10'000, 'x'));
  setrlimit(RLIMIT_FSIZE, &before);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::kExhausted);
  EXPECT_NE(status.error().text.find(path_), std::string::npos) << status.error().text;
  EXPECT_EQ(Text(path_), "old");
  EXPECT_EQ(Files(), 1);  // the temporary file is gone
}

TEST_F(WholeFile, AFolderAtThePathStays) {
  fs::create_directories(path_);
  EXPECT_FALSE(WriteWhole(path_, "text"));
  EXPECT_TRUE(fs::is_directory(path_));
  EXPECT_EQ(Files(), 1);
}

TEST_F(WholeFile, FailsWithoutTheFolder) {
  const Status status = WriteWhole(folder_ + "/none/file", "text");
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::kInternal);
  EXPECT_TRUE(SyncFolder(folder_));
  EXPECT_FALSE(SyncFolder(folder_ + "/none"));
}

}  // namespace
}  // namespace pie
