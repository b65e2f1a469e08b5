#include "host/guest_files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "host/byte_budget.h"

namespace pie::host {
namespace {

namespace fs = std::filesystem;

TEST(GuestFilesTest, PathsStayInTheirFolders) {
  const std::string root = ::testing::TempDir() + "guest-files-" + std::to_string(getpid());
  fs::create_directories(root + "/scratch/sub");
  fs::create_directories(root + "/data");
  std::ofstream(root + "/secret") << "secret";
  std::ofstream(root + "/scratch/sub/file") << "mine";
  fs::create_symlink(root, root + "/scratch/up");
  fs::create_symlink(root + "/secret", root + "/scratch/sub/link");
  mkfifo((root + "/scratch/sub/pipe").c_str(), 0600);
  const GuestFiles files({root + "/scratch", 100'000}, {root + "/data", 100'000});
  Charge charge(std::make_shared<ByteBudget>(1'000));
  EXPECT_EQ(*files.Read("/scratch/sub", "file", 100, charge), "mine");
  EXPECT_EQ(*files.Read("/scratch//./sub/", "file", 100, charge), "mine");
  EXPECT_FALSE(files.Read("/scratch/sub", "file", 3, charge));
  EXPECT_FALSE(files.Read("/scratch/sub", "link", 100, charge));
  EXPECT_FALSE(files.Read("/scratch/sub", "pipe", 100, charge));
  EXPECT_FALSE(files.Read("/scratch/up", "secret", 100, charge));
  for (const std::string_view path : {"/scratch/..", "/scratch/../", "/scratch/sub/../..", "..", "",
                                      "/", "/etc", "scratch/sub", "/scratchy", "/data/../secret"}) {
    EXPECT_FALSE(files.Read(path, "secret", 100, charge)) << path;
    EXPECT_FALSE(files.Write(path, {{"x", "y"}})) << path;
  }
  EXPECT_FALSE(files.Write("/scratch/up", {{"x", "y"}}));
  ASSERT_TRUE(files.Write("/data/new", {{"x", "first"}, {"y", "other"}}));
  ASSERT_TRUE(files.Write("/data/new", {{"x", "second"}}));
  EXPECT_EQ(*files.Read("/data/new", "x", 100, charge), "second");
  EXPECT_FALSE(files.Write("/data/new", {{"x", std::string(200'000, 'a')}}));
  // A file of holes takes no room on the disk, but the memory that it is read into is charged.
  std::ofstream(root + "/data/holes") << "";
  fs::resize_file(root + "/data/holes", 1'001);
  EXPECT_FALSE(files.Read("/data", "holes", 2'000, charge));
  const GuestFiles none({}, {});
  EXPECT_FALSE(none.Read("/scratch/sub", "file", 100, charge));
  fs::remove_all(root);
}

}  // namespace
}  // namespace pie::host
