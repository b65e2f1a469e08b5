#include "server/routes.h"

#include <gtest/gtest.h>

namespace pie::server {
namespace {

std::string Seen(const Routes& routes, std::string_view target) {
  const auto route = routes.Find(target);
  return route ? route->program + " " + route->target : "";
}

TEST(RoutesTest, AppsSeeThePathBehindTheirName) {
  const Routes routes({});
  EXPECT_EQ(Seen(routes, "/apps/hello"), "hello /");
  EXPECT_EQ(Seen(routes, "/apps/hello?x=1"), "hello /?x=1");
  EXPECT_EQ(Seen(routes, "/apps/hello@0.1.0/a/b?c=/d"), "hello@0.1.0 /a/b?c=/d");
  EXPECT_EQ(Seen(routes, "/apps/"), "");
  EXPECT_EQ(Seen(routes, "/apps//x"), "");
  EXPECT_EQ(Seen(routes, "/appsx"), "");
}

TEST(RoutesTest, PrefixesEndAtASlash) {
  const Routes routes(Routes::Table{{"/v1", "openai"}});
  EXPECT_EQ(Seen(routes, "/v1/models"), "openai /v1/models");
  EXPECT_EQ(Seen(routes, "/v1"), "openai /v1");
  EXPECT_EQ(Seen(routes, "/v1?x"), "openai /v1?x");
  EXPECT_EQ(Seen(routes, "/v10/models"), "");
  EXPECT_EQ(Seen(routes, "/metrics"), "");
}

}  // namespace
}  // namespace pie::server
