#include "server/tokens.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

namespace pie::server {
namespace {

class TokensTest : public ::testing::Test {
 protected:
  TokensTest() {
    std::string pattern = ::testing::TempDir() + "pie-tokens-XXXXXX";
    folder = mkdtemp(pattern.data());
  }
  ~TokensTest() override { std::filesystem::remove_all(folder); }
  std::string Stored() const {
    std::ifstream file(tokens().path());
    return {std::istreambuf_iterator<char>(file), {}};
  }
  Tokens tokens() const { return Tokens(folder + "/api_tokens.toml"); }

  std::string folder;
};

TEST_F(TokensTest, OnlyTheHashOfAKeyIsStored) {
  const auto key = tokens().Create("ada", "laptop");
  ASSERT_TRUE(key);
  EXPECT_EQ(Stored().find(*key), std::string::npos);
  const auto table = tokens().Read();
  ASSERT_TRUE(table);
  const auto found = table->find(Tokens::HashOf(*key));
  ASSERT_NE(found, table->end());
  EXPECT_EQ(found->second.user, "ada");
  EXPECT_EQ(found->second.name, "laptop");
  EXPECT_NE(*tokens().Create("ada", "phone"), *key);
}

TEST_F(TokensTest, ARevokedKeyIsGone) {
  const auto key = tokens().Create("ada", "laptop");
  EXPECT_FALSE(tokens().Revoke("desktop"));
  EXPECT_TRUE(tokens().Revoke("laptop"));
  EXPECT_TRUE(tokens().Read()->empty());
}

TEST_F(TokensTest, NamesAreUniqueAndPlain) {
  EXPECT_TRUE(tokens().Create("ada", "laptop"));
  EXPECT_FALSE(tokens().Create("eve", "laptop"));
  EXPECT_FALSE(tokens().Create("", "x"));
  EXPECT_FALSE(tokens().Create("eve", "a\nb"));
}

TEST_F(TokensTest, CommandsAtTheSameTimeLoseNoChange) {
  constexpr int kCommands = 8, kEach = 8;
  const auto name = [](int command, int i) { return fmt::format("{}-{}", command, i); };
  std::vector<std::thread> commands;
  for (int command = 0; command < kCommands; ++command) {
    commands.emplace_back([&, command] {
      for (int i = 0; i < kEach; ++i) EXPECT_TRUE(tokens().Create("ada", name(command, i)));
      EXPECT_TRUE(tokens().Revoke(name(command, 0)));
    });
  }
  for (std::thread& command : commands) command.join();
  const auto table = tokens().Read();
  ASSERT_TRUE(table);
  EXPECT_EQ(table->size(), kCommands * (kEach - 1));
  for (const auto& [hash, token] : *table) EXPECT_FALSE(token.name.ends_with("-0")) << token.name;
}

TEST_F(TokensTest, AFileThatOthersCanReadIsRefused) {
  ASSERT_TRUE(tokens().Create("ada", "laptop"));
  chmod(tokens().path().c_str(), 0644);
  EXPECT_FALSE(tokens().Read());
  chmod(tokens().path().c_str(), 0600);
  std::ofstream(tokens().path()) << "laptop = 5\n";
  EXPECT_FALSE(tokens().Read());
}

TEST_F(TokensTest, AMissingFileMeansNoTokens) {
  EXPECT_TRUE(tokens().Read()->empty());
}

}  // namespace
}  // namespace pie::server
