#include "cli/models.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

namespace pie::cli {
namespace {

namespace fs = std::filesystem;

class ModelsTest : public testing::Test {
 protected:
  ModelsTest() {
    fs::create_directories(cache_ / "models");
    setenv("PIE_CACHE", cache_.c_str(), 1);
  }
  ~ModelsTest() override {
    unsetenv("PIE_CACHE");
    fs::remove_all(cache_);
  }
  static void Write(const fs::path& path, std::string_view text) {
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  static std::string ErrorOf(const Result<std::string>& result) {
    return result ? "" : result.error().text;
  }

  const fs::path cache_ = fs::path(testing::TempDir()) / fmt::format("pie-models-{}", getpid());
};

TEST_F(ModelsTest, ListsModelsThatCanBeOpened) {
  EXPECT_TRUE(LocalModels().empty());
  Write(ModelsDir() / "one" / "a.gguf", "12345");
  Write(ModelsDir() / "owner--two" / "config.json", "{}");
  Write(ModelsDir() / "empty" / "readme", "");
  const std::vector<LocalModel> models = LocalModels();
  ASSERT_EQ(models.size(), 2u);
  EXPECT_EQ(models[0].name, "one");
  EXPECT_EQ(models[0].bytes, 5u);
  EXPECT_EQ(models[1].name, "owner/two");
}

TEST_F(ModelsTest, FindsFilesFoldersAndNames) {
  const fs::path file = ModelsDir() / "one" / "a.gguf";
  Write(file, "x");
  Write(ModelsDir() / "owner--two" / "config.json", "{}");
  EXPECT_EQ(FindModel("one").value(), file);
  EXPECT_EQ(FindModel(file.string()).value(), file);
  EXPECT_EQ(FindModel(file.parent_path().string()).value(), file);
  EXPECT_EQ(FindModel("owner/two").value(), ModelsDir() / "owner--two");
  setenv("HOME", cache_.c_str(), 1);
  EXPECT_EQ(FindModel("~/models/one/a.gguf").value(), file);
}

TEST_F(ModelsTest, ErrorsSayWhatIsMissing) {
  EXPECT_NE(ErrorOf(FindModel(kDefaultModel)).find("pie model download"), std::string::npos);
  EXPECT_NE(ErrorOf(FindModel("nothing")).find("no model 'nothing' was found"), std::string::npos);
  EXPECT_FALSE(FindModel("../models"));
  Write(ModelsDir() / "both" / "a.gguf", "x");
  Write(ModelsDir() / "both" / "b.gguf", "x");
  EXPECT_NE(ErrorOf(FindModel("both")).find("2 .gguf files"), std::string::npos);
  fs::create_directories(ModelsDir() / "none");
  EXPECT_NE(ErrorOf(FindModel("none")).find("holds no model"), std::string::npos);
}

TEST_F(ModelsTest, RemovesOnlyFoldersOfModels) {
  Write(ModelsDir() / "one" / "a.gguf", "x");
  Write(cache_ / "keep" / "a.gguf", "x");
  EXPECT_TRUE(RemoveModel("one"));
  EXPECT_FALSE(fs::exists(ModelsDir() / "one"));
  for (const char* name : {"one", "../keep", "..", "", "/", "a/b/c", "."}) {
    EXPECT_FALSE(RemoveModel(name)) << name;
  }
  EXPECT_TRUE(fs::exists(cache_ / "keep" / "a.gguf"));
}

TEST_F(ModelsTest, RefusesToDownloadUnknownNames) {
  EXPECT_FALSE(DownloadModel("../x"));
  EXPECT_FALSE(DownloadModel("no-such-model")) << "not in the catalogue";
}

}  // namespace
}  // namespace pie::cli
