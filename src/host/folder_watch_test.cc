#include "host/folder_watch.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace pie::host
