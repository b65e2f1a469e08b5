#include "host/mcp_pages.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace pie::host {
namespace {

using nlohmann::json;

std::string Joined(const std::vector<std::string>& pages) {
  McpPages joined("tools", 1 << 20);
  for (size_t i = 0; i < pages.size(); ++i) {
    const auto next = joined.Add(pages[i]);
    EXPECT_TRUE(next);
    EXPECT_EQ(next && *next, i + 1 < pages.size()) << pages[i];
  }
  return joined.Take();
}

TEST(McpPagesTest, OnePagePassesAsItIs) {
  for (const char* page : {R"( {"tools": [1], "x": 2} )", R"({"tools":[], "nextCursor":""})",
                           R"({"tools":[{"nextCursor":"a"}]})", R"({"nextCursor":"a"})",
                           R"({"tools":[],"nextCursor":null})", R"(["nextCursor"])", "1",
                           R"({"tools":{},"nextCursor":"a"})"}) {
    EXPECT_EQ(Joined({page}), page);
  }
}

TEST(McpPagesTest, PagesAreJoined) {
  const json all =
      json::parse(Joined({R"({ "_meta" : {"a":[1,"]}\""]}, "tools" : [ {"name":"x,y:\"[{"} , 2 ] ,
                   "nextCursor" : "\u0041\"" })",
                          R"({"nextCursor":"b","tools":[]})", R"({"tools":[[3]],"_meta":{}})"}));
  EXPECT_EQ(all, json::parse(R"({"_meta":{"a":[1,"]}\""]},"tools":[{"name":"x,y:\"[{"},2,[3]]})"));
  EXPECT_EQ(Joined({R"({"tools":[],"nextCursor":"a"})", R"({"tools":[1,2]})"}),
            R"({"tools":[1,2]})");
  McpPages pages("tools", 1 << 20);
  EXPECT_EQ(**pages.Add(R"({"tools":[],"nextCursor":"\u0041\""})"), "A\"");
}

TEST(McpPagesTest, AListWithoutAnEndIsCut) {
  McpPages pages("tools", 1 << 20);
  size_t count = 0;
  while (true) {
    const auto next =
        pages.Add(fmt::format(R"({{"tools":[{}],"nextCursor":"c{}"}})", count, count));
    ASSERT_TRUE(next);
    ++count;
    if (!*next) break;
  }
  EXPECT_EQ(count, McpPages::kMostPages);
  const json all = json::parse(pages.Take());
  EXPECT_EQ(all["tools"].size(), count);
  EXPECT_EQ(all["nextCursor"], "c63") << "the guest can see that the list goes on";

  McpPages same("tools", 1 << 20);
  EXPECT_EQ(**same.Add(R"({"tools":[1],"nextCursor":"a"})"), "a");
  EXPECT_EQ(*same.Add(R"({"tools":[1],"nextCursor":"a"})"), std::nullopt);
  EXPECT_EQ(json::parse(same.Take())["nextCursor"], "a");
}

TEST(McpPagesTest, BadPagesAreErrors) {
  McpPages pages("tools", 100);
  EXPECT_TRUE(pages.Add(R"({"tools":[],"nextCursor":"a"})"));
  EXPECT_FALSE(pages.Add(R"({"resources":[]})"));
  EXPECT_FALSE(pages.Add(std::string(100, ' ')));
}

}  // namespace
}  // namespace pie::host
