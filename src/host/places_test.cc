#include "host/places.h"

#include <gtest/gtest.h>

#include <string>

namespace pie::host {
namespace {

class PlacesTest : public testing::Test {
 protected:
  void Enter(uint64_t id, const char* user) {
    places_.Enter(id, user, [this, user] { started_ += user[0]; });
  }
  Places places_{10, {.share_percent = 80}};
  std::string started_;
};

TEST_F(PlacesTest, OneUserLeavesPlacesForOthers) {
  for (uint64_t i = 0; i < 20; ++i) Enter(i, "ada");
  EXPECT_EQ(started_, "aaaaaaaa");
  EXPECT_FALSE(places_.TryEnter("ada"));
  EXPECT_TRUE(places_.TryEnter("bob"));
  EXPECT_EQ(places_.taken(), 9u);
  EXPECT_EQ(places_.waiting(), 12u);
}

TEST_F(PlacesTest, TheUserWithTheFewestPlacesIsNext) {
  for (uint64_t i = 0; i < 12; ++i) Enter(i, "ada");
  for (uint64_t i = 20; i < 24; ++i) Enter(i, "bob");
  EXPECT_EQ(started_, "aaaaaaaabb") << "both wait";
  started_.clear();
  for (int i = 0; i < 4; ++i) places_.Leave("ada");
  EXPECT_EQ(started_.substr(0, 2), "bb");
}

TEST_F(PlacesTest, TheOldestOfThoseWithEquallyManyIsNext) {
  for (const char* user : {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"}) {
    ASSERT_TRUE(places_.TryEnter(user));
  }
  Enter(1, "x");
  Enter(2, "y");
  Enter(3, "x");
  for (const char* user : {"a", "b", "c"}) places_.Leave(user);
  EXPECT_EQ(started_, "xyx");
}

TEST_F(PlacesTest, OneThatAbandonsIsNotStarted) {
  for (uint64_t i = 0; i < 10; ++i) Enter(i, "ada");
  started_.clear();
  EXPECT_TRUE(places_.Abandon(8));
  EXPECT_FALSE(places_.Abandon(8));
  EXPECT_FALSE(places_.Abandon(0)) << "it runs";
  EXPECT_EQ(places_.waiting(), 1u);
  for (int i = 0; i < 8; ++i) places_.Leave("ada");
  EXPECT_EQ(started_, "a");
  places_.Leave("ada");
  EXPECT_EQ(places_.taken(), 0u);
}

TEST(Places, OnePlaceIsUsed) {
  Places places(1, {.share_percent = 80});
  EXPECT_TRUE(places.TryEnter("ada"));
  EXPECT_FALSE(places.TryEnter("bob"));
  places.Leave("ada");
  EXPECT_TRUE(places.TryEnter("bob"));
}

}  // namespace
}  // namespace pie::host
