#include "host/scratch_root.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>

namespace pie::host {
namespace {

namespace fs = std::filesystem;

std::string NewRoot() {
  std::string name = testing::TempDir() + "scratch-root-XXXXXX";
  return std::string(mkdtemp(name.data())) + "/root";
}

TEST(ScratchRoot, RemovesItsFolderAndThoseOfEnginesThatWereKilled) {
  const std::string root = NewRoot();
  {
    auto first = ScratchRoot::Make(root, "first");
    ASSERT_TRUE(first) << first.error().text;
    EXPECT_TRUE(fs::create_directories((*first)->dir() + "/ada/1"));
    fs::create_directories(root + "/killed/ada/1");
    auto second = ScratchRoot::Make(root, "second");
    ASSERT_TRUE(second) << second.error().text;
    EXPECT_FALSE(fs::exists(root + "/killed")) << "no engine had locked the folder";
    EXPECT_TRUE(fs::exists((*first)->dir() + "/ada/1")) << "an engine has locked the folder";
  }
  EXPECT_TRUE(fs::is_empty(root));
}

TEST(ScratchRoot, RefusesAFolderThatOthersMayWriteTo) {
  const std::string root = NewRoot();
  fs::create_directories(root);
  fs::permissions(root, fs::perms::all);
  EXPECT_FALSE(ScratchRoot::Make(root, "engine"));
}

}  // namespace
}  // namespace pie::host
