#include "host/folder_watch.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cstdlib>
#include <string>

#include <filesystem>
#include <fstream>
#include <set>

namespace pie::host {
namespace {

TEST(FolderName, NoWayUpAndNoTwoAlike) {
  std::set<std::string> names;
  const std::string users[] = {"ada",
                               "Ada",
                               ".",
                               "..",
                               "../ada",
                               "a/b",
                               "a%2fb",
                               "",
                               "=x",
                               std::string(128, 'a'),
                               std::string(129, 'a'),
                               std::string(90, '/'),
                               "é",
                               std::string("a\0b", 3)};
  for (const std::string& user : users) {
    const std::string name = FolderName(user);
    EXPECT_TRUE(names.insert(name).second) << user;
    EXPECT_EQ(name.find('/'), std::string::npos);
    EXPECT_NE(name[0], '.');
    EXPECT_LE(name.size(), 255u);
  }
  EXPECT_EQ(FolderName("ada-1"), "ada-1");
}

TEST(MeasureFolder, CountsWhatIsThereAndFollowsNoLink) {
  std::string pattern = testing::TempDir() + "/measure-XXXXXX";
  const std::string dir = mkdtemp(pattern.data());
  std::filesystem::create_directories(dir + "/in/ner");
  std::ofstream(dir + "/in/ner/file") << std::string(100'000, 'x');
  std::filesystem::create_directory_symlink("/usr", dir + "/away");
  const FolderSize size = MeasureFolder(dir, 1000);
  EXPECT_EQ(size.entries, 4u);
  EXPECT_GE(size.bytes, 100'000u);
  EXPECT_LT(size.bytes, 200'000u);
  EXPECT_EQ(MeasureFolder(dir, 1).entries, 2u) << "it stops past the limit";
  EXPECT_EQ(MeasureFolder(dir + "/nowhere", 10).entries, 0u);
  std::filesystem::remove_all(dir);
}

TEST(MeasureFolder, SeesWhatIsBehindLongPaths) {
  std::string pattern = ::testing::TempDir() + "pie-deep-XXXXXX";
  const std::string dir = mkdtemp(pattern.data());
  // A path of 6,000 bytes, made step by step. A measurement by path would miss its end.
  const int home = open(".", O_RDONLY | O_DIRECTORY);
  ASSERT_EQ(chdir(dir.c_str()), 0);
  const std::string name(200, 'd');
  for (int i = 0; i < 30; ++i) {
    ASSERT_EQ(mkdir(name.c_str(), 0700), 0);
    ASSERT_EQ(chdir(name.c_str()), 0);
  }
  std::ofstream("file") << std::string(1 << 20, 'x');
  ASSERT_EQ(fchdir(home), 0);
  close(home);
  FolderSize size = MeasureFolder(dir, 1'000);
  EXPECT_GE(size.bytes, 1u << 20);
  EXPECT_EQ(size.entries, 31u);
  EXPECT_EQ(size.depth, 31u);
  std::filesystem::remove_all(dir);
}

TEST(MeasureFolder, StopsAtTheLimitOfDepth) {
  std::string pattern = ::testing::TempDir() + "pie-deep-XXXXXX";
  const std::string dir = mkdtemp(pattern.data());
  std::string path = dir;
  for (size_t i = 0; i < kMostFolders + 40; ++i) path += "/d";
  std::filesystem::create_directories(path);
  EXPECT_EQ(MeasureFolder(dir, 1'000).depth, kMostFolders + 1);
  std::filesystem::remove_all(dir);
}

TEST(MakePrivateFolder, RefusesWhatOthersMayWriteTo) {
  std::string pattern = ::testing::TempDir() + "pie-private-XXXXXX";
  const std::string dir = mkdtemp(pattern.data());
  EXPECT_TRUE(MakePrivateFolder(dir + "/mine"));
  EXPECT_TRUE(MakePrivateFolder(dir + "/mine")) << "it is there already";
  ASSERT_EQ(chmod((dir + "/mine").c_str(), 0777), 0);
  EXPECT_FALSE(MakePrivateFolder(dir + "/mine"));
  std::filesystem::create_symlink(dir, dir + "/link");
  EXPECT_FALSE(MakePrivateFolder(dir + "/link"));
  std::filesystem::remove_all(dir);
}

}  // namespace
}  // namespace pie::host
