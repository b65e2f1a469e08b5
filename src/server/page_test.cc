#include "server/page.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace pie::server {
namespace {

namespace fs = std::filesystem;

class PageTest : public testing::Test {
 protected:
  PageTest() {
    std::string pattern = testing::TempDir() + "/page-XXXXXX";
    dir = mkdtemp(pattern.data());
  }
  ~PageTest() override { fs::remove_all(dir); }
  void Write(const std::string& name, const std::string& text) const {
    std::ofstream(dir + "/" + name, std::ios::binary) << text;
  }
  std::string dir;
};

TEST_F(PageTest, FilesHaveTheirPathsTypesAndTags) {
  Write("index.html", "<!doctype html>");
  Write("app.js", "1");
  Write("style.css", "2");
  Write("icon.svg", "3");
  const auto page = Page::Read(dir);
  ASSERT_TRUE(page);
  ASSERT_NE(page->Find("/"), nullptr);
  EXPECT_EQ(page->Find("/")->type, "text/html; charset=utf-8");
  EXPECT_EQ(page->Find("/")->bytes, "<!doctype html>");
  EXPECT_EQ(page->Find("/page/app.js")->type, "text/javascript; charset=utf-8");
  EXPECT_EQ(page->Find("/page/style.css")->type, "text/css; charset=utf-8");
  EXPECT_EQ(page->Find("/page/icon.svg")->type, "image/svg+xml");
  EXPECT_NE(page->Find("/page/app.js")->etag, page->Find("/page/style.css")->etag);
}

TEST_F(PageTest, NothingElseIsFound) {
  Write("index.html", "x");
  Write("notes.txt", "x");
  fs::create_directory(dir + "/folder.js");
  const auto page = Page::Read(dir);
  ASSERT_TRUE(page);
  for (const char* path :
       {"", "/index.html", "/page/", "/page/index.html", "/page/notes.txt", "/page/folder.js",
        "/page/../index.html", "/page/%2e%2e/index.html", "//", "/page//etc/passwd"}) {
    EXPECT_EQ(page->Find(path), nullptr) << path;
  }
}

TEST_F(PageTest, AMissingFolderIsAnEmptyPage) {
  const auto page = Page::Read(dir + "/nowhere");
  ASSERT_TRUE(page);
  EXPECT_TRUE(page->empty());
  Write("index.html", std::string((4 << 20) + 1, 'x'));
  EXPECT_FALSE(Page::Read(dir)) << "a file that is too large";
}

}  // namespace
}  // namespace pie::server
