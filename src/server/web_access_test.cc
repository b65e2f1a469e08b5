#include "server/web_access.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace pie::server {
namespace {

const WebAccess kAccess({.hosts = {"Pie.Example"}, .origins = {"https://app.example"}}, "box");

bool May(Asked asked) {
  if (asked.method.empty()) asked.method = "GET";
  return kAccess.RefusalOf(asked).empty();
}

TEST(WebAccessTest, PagesOfThisMachineMayConnect) {
  for (const char* origin : {"", "http://localhost:3000", "http://127.0.0.1", "http://[::1]:80"}) {
    EXPECT_TRUE(May({.origin = origin, .host = "127.0.0.1:8080", .upgrade = true})) << origin;
  }
  for (const char* origin : {"https://evil.example", "null", "http://localhost.evil.example",
                             "http://127.0.0.1.evil.example:8080", "file://", "http://["}) {
    EXPECT_FALSE(May({.origin = origin, .host = "127.0.0.1:8080", .upgrade = true})) << origin;
    EXPECT_FALSE(May({.origin = origin, .host = "127.0.0.1:8080"})) << origin;
  }
  EXPECT_FALSE(May({.origin = "http://", .host = ""}));
}

TEST(WebAccessTest, TheHostMustBeANameOfTheServer) {
  for (const char* host :
       {"localhost", "localhost.:80", "LocalHost:8080", "a.localhost", "box:1", "pie.example",
        "127.0.0.1:8080", "10.1.2.3", "[::1]:8080", "[fe80::1]"}) {
    EXPECT_TRUE(May({.host = host})) << host;
  }
  for (const char* host : {"evil.example", "evil.example:8080", "localhost.evil.example", "x",
                           "127.0.0.1.evil.example", "[::1", "[evil]", "a.pie.example", ":80"}) {
    EXPECT_FALSE(May({.host = host})) << host;
    // The origin of a page from an attacker's name is the same name.
    const std::string origin = std::string("http://") + host;
    EXPECT_FALSE(May({.origin = origin, .host = host, .upgrade = true})) << host;
  }
  EXPECT_TRUE(May({.host = ""})) << "HTTP/1.0";
  EXPECT_TRUE(May({.host = "evil.example", .upgrade = true})) << "no browser: it names no origin";
  EXPECT_TRUE(May({.origin = "http://pie.example:80", .host = "pie.example:80"}));
  EXPECT_TRUE(May({.origin = "http://10.1.2.3:80", .host = "10.1.2.3:80", .upgrade = true}));
  EXPECT_FALSE(May({.origin = "http://10.1.2.4", .host = "10.1.2.3"}));
}

TEST(WebAccessTest, RequestsWithoutAnOriginNameTheirSite) {
  Asked image{.method = "GET", .host = "localhost:80", .fetch_site = "cross-site"};
  image.fetch_mode = "no-cors";
  image.fetch_dest = "image";
  EXPECT_FALSE(May(image));
  for (const char* site : {"same-origin", "none", "same-site"}) {
    Asked near = image;
    near.fetch_site = site;
    EXPECT_TRUE(May(near)) << site;
    near.host = "pie.example";
    EXPECT_EQ(May(near), std::string_view(site) != "same-site");
  }
  Asked link = image;
  link.fetch_mode = "navigate";
  link.fetch_dest = "document";
  EXPECT_TRUE(May(link));
  link.fetch_dest = "iframe";
  EXPECT_FALSE(May(link));
}

TEST(WebAccessTest, DocumentsAtTheIpv6LoopbackMoveToTheNameThatPoliciesKnow) {
  Asked asked{.target = "/apps/chat/?a=b", .host = "[::1]:8080"};
  asked.method = "GET";
  asked.fetch_mode = "navigate";
  const WebAccess nameless({}, "::");
  EXPECT_EQ(nameless.NamedPlaceOf(asked), "http://localhost:8080/apps/chat/?a=b");
  for (const char* host :
       {"localhost:8080", "127.0.0.1:8080", "[fe80::1]:8080", "[::1", "[::1]:80@evil.example"}) {
    Asked other = asked;
    other.host = host;
    EXPECT_EQ(nameless.NamedPlaceOf(other), "") << host;
  }
  Asked other = asked;
  other.fetch_mode = "cors";  // what a script asks for stays where it is
  EXPECT_EQ(nameless.NamedPlaceOf(other), "");
  other = asked;
  other.secure = true;
  EXPECT_EQ(nameless.NamedPlaceOf(other), "");
}

TEST(WebAccessTest, DocumentsAtOtherIpv6AddressesMoveToANameOfTheServer) {
  const WebAccess named({.hosts = {"[2001:db8::1]", "192.0.2.1", "pie.example", "b.example"}},
                        "::");
  Asked asked{.method = "GET", .target = "/apps/chat/", .host = "[2001:db8::1]:8080"};
  asked.fetch_mode = "navigate";
  EXPECT_EQ(named.NamedPlaceOf(asked), "http://pie.example:8080/apps/chat/");
  for (const char* host :
       {"pie.example:8080", "192.0.2.1", "[2001:db8::1]:80@evil.example", "[x]"}) {
    Asked other = asked;
    other.host = host;
    EXPECT_EQ(named.NamedPlaceOf(other), "") << host;
  }
}

TEST(WebAccessTest, APolicyIsMadeOnceForAnAddressAndAnInferlet) {
  const std::vector<std::string> prefixes = {"/v1"};
  Policies policies(prefixes);
  const Asked asked{.host = "localhost:80"};
  const auto policy = policies.Of(asked, "/apps/a");
  EXPECT_EQ(*policy, PolicyOf(asked, std::vector<std::string>{"/apps/a", "/v1"}));
  EXPECT_EQ(policies.Of(asked, "/apps/a"), policy);
  EXPECT_NE(*policies.Of(asked, "/apps/b"), *policy);
  EXPECT_NE(*policies.Of({.host = "localhost:81"}, "/apps/a"), *policy);
  EXPECT_NE(*policies.Of({.host = "localhost:80", .secure = true}, "/apps/a"), *policy);
  // Addresses that clients invent do not accumulate in the cache.
  for (int i = 0; i < 1'000; ++i) {
    const std::string host = fmt::format("h{}", i);
    const auto one = policies.Of({.host = host}, "/apps/a");
    EXPECT_NE(one->find(host + "/apps/a/"), std::string::npos);
  }
  EXPECT_NE(policies.Of(asked, "/apps/a"), policy) << "it was forgotten and made again";
}

TEST(WebAccessTest, DocumentsOfInferletsReachTheirOwnPaths) {
  const std::vector<std::string> prefixes = {"/apps/chat", "/v1"};
  EXPECT_EQ(PolicyOf({.host = "localhost:80"}, prefixes),
            "connect-src data: blob: https: wss: localhost:80/apps/chat/ localhost:80/v1/; "
            "frame-src data: blob: https: wss: localhost:80/apps/chat/ localhost:80/v1/; "
            "object-src 'none'");
  EXPECT_EQ(PolicyOf({.host = "a.example", .secure = true}, prefixes).find("https:"),
            std::string::npos);
  for (const char* host : {"", "[::1]:80", "a;script-src", "a b", "a,b", "*"}) {
    EXPECT_TRUE(PolicyOf({.host = host}, prefixes).starts_with("sandbox ")) << host;
  }
  EXPECT_TRUE(PolicyOf({.host = "a"}, {{"/apps/a;b"}}).starts_with("sandbox "));
  EXPECT_FALSE(May({.origin = "null", .host = "localhost:80"}));
}

TEST(WebAccessTest, OriginsOfTheConfig) {
  EXPECT_TRUE(May({.origin = "https://app.example", .host = "localhost"}));
  EXPECT_TRUE(May({.origin = "https://app.example", .host = "localhost", .upgrade = true}));
  EXPECT_FALSE(May({.origin = "https://app.example", .host = "evil.example"}));
  EXPECT_FALSE(May({.origin = "http://app.example", .host = "localhost"}));
  EXPECT_EQ(kAccess.ReaderOf({.origin = "https://APP.example"}), "https://APP.example");
  EXPECT_EQ(kAccess.ReaderOf({.origin = "http://localhost:3000"}), "");
  EXPECT_EQ(kAccess.ReaderOf({.origin = ""}), "");
}

TEST(WebAccessTest, TrustedApps) {
  const WebAccess access({.trusted_apps = {"chat"}}, "");
  EXPECT_TRUE(access.Trusts("chat"));
  EXPECT_TRUE(access.Trusts("chat@1.0.0"));
  EXPECT_FALSE(access.Trusts("chat2"));
  EXPECT_FALSE(access.Trusts(""));
}

TEST(WebAccessTest, HeadersOfInferlets) {
  const std::string head =
      "Content-Type:text/html\nSet-Cookie:a\nset-cookie:b\nService-Worker-Allowed:/\n"
      "Access-Control-Allow-Origin:*\nX-A:b";
  EXPECT_EQ(GuardedHead({}, head), head);
  EXPECT_EQ(GuardedHead({.reader = "https://a.example"}, "Access-Control-Allow-Origin:*\nx:y"),
            "x:y\naccess-control-allow-origin:https://a.example\n"
            "access-control-expose-headers:*\nvary:Origin\n");
  const HeadGuard guard{.shares_origin = true,
                        .policy = std::make_shared<const std::string>("sandbox")};
  EXPECT_EQ(GuardedHead(guard, head),
            "Content-Type:text/html\nAccess-Control-Allow-Origin:*\nX-A:b\n"
            "content-security-policy:sandbox\nx-content-type-options:nosniff\n");
  EXPECT_TRUE(GuardedHead(guard, "").starts_with("content-security-policy:"));
}

}  // namespace
}  // namespace pie::server
