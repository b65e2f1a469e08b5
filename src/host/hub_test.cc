#include "host/hub.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

namespace pie::host {
namespace {

Limits Small() {
  Limits limits;
  limits.max_queued_messages = 3;
  limits.max_queued_bytes = 100;
  limits.max_topics = 8;
  limits.max_messaging_bytes = 1'800;
  return limits;
}

class HubTest : public testing::Test {
 protected:
  std::optional<std::string> Pull(const char* user, const char* topic) {
    auto letter = hub_.Pull(users_.Of(user), user, topic);
    return letter ? (*letter)->Take() : std::nullopt;
  }
  const Limits limits_ = Small();
  Users users_{limits_};
  Hub hub_{limits_};
};

TEST_F(HubTest, QueueGivesEachMessageToOneReaderInOrder) {
  ASSERT_TRUE(hub_.Push(users_.Of("ada"), "ada", "work", "1"));
  ASSERT_TRUE(hub_.Push(users_.Of("ada"), "ada", "work", "2"));
  EXPECT_EQ(Pull("ada", "work"), "1");
  EXPECT_EQ(Pull("ada", "work"), "2");
  EXPECT_EQ(Pull("ada", "work"), std::nullopt);
}

TEST_F(HubTest, PullWaitsForAPush) {
  auto letter = *hub_.Pull(users_.Of("ada"), "ada", "work");
  ASSERT_TRUE(hub_.Push(users_.Of("ada"), "ada", "work", "1"));
  EXPECT_EQ(letter->Take(), "1");
}

TEST_F(HubTest, FullQueueRefuses) {
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(hub_.Push(users_.Of("ada"), "ada", "work", "x"));
  Status refused = hub_.Push(users_.Of("ada"), "ada", "work", "x");
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().text.find("the queue is full"), std::string::npos);
}

TEST_F(HubTest, UsersAreApart) {
  ASSERT_TRUE(hub_.Push(users_.Of("ada"), "ada", "work", "hers"));
  EXPECT_EQ(Pull("bob", "work"), std::nullopt);
  auto subscription = *hub_.Subscribe(users_.Of("bob"), "bob", "news");
  ASSERT_TRUE(hub_.Broadcast(users_.Of("ada"), "ada", "news", "hers"));
  EXPECT_EQ(subscription->Take(), std::nullopt);
  EXPECT_EQ(Pull("ada", "work"), "hers");
}

TEST_F(HubTest, BroadcastReachesEverySubscriberOfTheTopic) {
  auto one = *hub_.Subscribe(users_.Of("ada"), "ada", "news"),
       two = *hub_.Subscribe(users_.Of("ada"), "ada", "news");
  auto other = *hub_.Subscribe(users_.Of("ada"), "ada", "sport");
  ASSERT_TRUE(hub_.Broadcast(users_.Of("ada"), "ada", "news", "a"));
  EXPECT_EQ(one->Take(), "a");
  EXPECT_EQ(two->Take(), "a");
  EXPECT_EQ(other->Take(), std::nullopt);
  EXPECT_EQ(one->Take(), std::nullopt);
}

TEST_F(HubTest, BroadcastIsForThosePresent) {
  ASSERT_TRUE(hub_.Broadcast(users_.Of("ada"), "ada", "news", "missed"));
  auto late = *hub_.Subscribe(users_.Of("ada"), "ada", "news");
  EXPECT_EQ(late->Take(), std::nullopt);
}

TEST_F(HubTest, FullSubscriptionLosesTheOldest) {
  auto slow = *hub_.Subscribe(users_.Of("ada"), "ada", "news");
  for (const char* text : {"1", "2", "3", "4", "5"}) {
    ASSERT_TRUE(hub_.Broadcast(users_.Of("ada"), "ada", "news", text));
  }
  EXPECT_EQ(slow->Take(), "3");
  EXPECT_EQ(slow->Take(), "4");
  EXPECT_EQ(slow->Take(), "5");
}

TEST_F(HubTest, FullSubscriptionByBytes) {
  auto slow = *hub_.Subscribe(users_.Of("ada"), "ada", "news");
  ASSERT_TRUE(hub_.Broadcast(users_.Of("ada"), "ada", "news", std::string(60, 'a')));
  ASSERT_TRUE(hub_.Broadcast(users_.Of("ada"), "ada", "news", std::string(60, 'b')));
  EXPECT_EQ(slow->dropped(), 1u);
  EXPECT_EQ(slow->Take(), std::string(60, 'b'));
  EXPECT_EQ(slow->Take(), std::nullopt);
  EXPECT_EQ(slow->dropped(), 1u) << "only the unread message is lost";
}

TEST_F(HubTest, UnsubscribedHearsNothingMore) {
  auto subscription = *hub_.Subscribe(users_.Of("ada"), "ada", "news");
  ASSERT_TRUE(hub_.Broadcast(users_.Of("ada"), "ada", "news", "1"));
  subscription->Close();
  ASSERT_TRUE(hub_.Broadcast(users_.Of("ada"), "ada", "news", "2"));
  EXPECT_EQ(subscription->Take(), "1") << "what came before can be read";
  EXPECT_EQ(subscription->Take(), std::nullopt);
}

TEST_F(HubTest, TopicsVanishWithTheirUsers) {
  EXPECT_EQ(hub_.topics(), 0u);
  ASSERT_TRUE(hub_.Push(users_.Of("ada"), "ada", "work", "1"));
  auto subscription = *hub_.Subscribe(users_.Of("ada"), "ada", "news");
  auto waits = *hub_.Pull(users_.Of("ada"), "ada", "later");
  EXPECT_EQ(hub_.topics(), 3u);
  EXPECT_EQ(Pull("ada", "work"), "1");
  subscription.reset();
  waits.reset();
  EXPECT_EQ(hub_.topics(), 0u);
}

TEST_F(HubTest, TopicOfAnUnreadLetterStays) {
  auto letter = *hub_.Pull(users_.Of("ada"), "ada", "work");
  ASSERT_TRUE(hub_.Push(users_.Of("ada"), "ada", "work", "1"));
  EXPECT_EQ(hub_.topics(), 1u);
  letter.reset();  // the receive lost its race, so the message goes to the next one
  EXPECT_EQ(Pull("ada", "work"), "1");
}

TEST_F(HubTest, TopicsHaveAnEndAndLeaveRoomForOthers) {
  for (int i = 0; i < 7; ++i)
    ASSERT_TRUE(hub_.Push(users_.Of("ada"), "ada", std::to_string(i), "x"));
  Status refused = hub_.Push(users_.Of("ada"), "ada", "one more", "x");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().text, "messaging: you use 7 topics, and all users 7 of 8");
  EXPECT_TRUE(hub_.Push(users_.Of("ada"), "ada", "1", "x")) << "known topics go on";
  EXPECT_FALSE(hub_.Subscribe(users_.Of("ada"), "ada", "another"));
  EXPECT_TRUE(hub_.Push(users_.Of("bob"), "bob", "work", "x")) << "one user cannot take all topics";
}

TEST_F(HubTest, AbandonedTopicsMakeRoom) {
  Limits limits = Small();
  limits.topic_idle_secs = 0;
  limits.max_topics = 512;
  limits.max_messaging_bytes = 1 << 20;
  Users users(limits);
  Hub hub(limits);
  auto waits = *hub.Pull(users.Of("ada"), "ada", "awaited");
  for (int i = 0; i < 2'000; ++i) {
    ASSERT_TRUE(hub.Push(users.Of("ada"), "ada", std::to_string(i), "nobody reads this")) << i;
  }
  ASSERT_TRUE(hub.Push(users.Of("ada"), "ada", "awaited", "x"));
  EXPECT_EQ(waits->Take(), "x") << "a topic with a waiting reader stays";
}

TEST_F(HubTest, AMessageIsChargedToItsSender) {
  // The topic belongs to all users; the messages of one user leave room for those of another.
  Limits limits = Small();
  limits.max_queued_bytes = 10'000;
  limits.max_messaging_bytes = 2'000;
  Users users(limits);
  Hub hub(limits);
  while (hub.Push(users.Of("ada"), "", std::to_string(users.Of("ada")->topics.used()), "x")) {
  }
  EXPECT_TRUE(hub.Push(users.Of("bob"), "", "shared", "x"));
}

TEST_F(HubTest, TopicNamesHaveAnEnd) {
  EXPECT_TRUE(hub_.Push(users_.Of("ada"), "ada", std::string(1024, 't'), "x"));
  Status refused = hub_.Push(users_.Of("ada"), "ada", std::string(1025, 't'), "x");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().text, "a topic's name has at most 1024 bytes, this one has 1025");
}

TEST_F(HubTest, WhatAUserKeepsInAllHasAnEnd) {
  int pushed = 0;
  for (; hub_.Push(users_.Of("ada"), "ada", std::to_string(pushed), std::string(90, 'x'));
       ++pushed) {
    ASSERT_LT(pushed, 7);
  }
  EXPECT_TRUE(hub_.Push(users_.Of("bob"), "bob", "2", std::string(90, 'x')))
      << "there is room left";
  EXPECT_FALSE(hub_.Push(users_.Of("ada"), "ada", "4", "x"));
  for (const char* topic : {"0", "1", "2"}) EXPECT_TRUE(Pull("ada", topic));
  EXPECT_TRUE(hub_.Push(users_.Of("ada"), "ada", "4", "x"));
}

TEST_F(HubTest, BroadcastIsKeptOnceHoweverManyListen) {
  Limits limits = Small();
  limits.max_queued_bytes = 10'000;
  limits.max_messaging_bytes = 10'000;
  Users users(limits);
  Hub hub(limits);
  std::vector<std::shared_ptr<Subscription>> many;
  for (int i = 0; i < 50; ++i) many.push_back(*hub.Subscribe(users.Of("ada"), "ada", "news"));
  ASSERT_TRUE(hub.Broadcast(users.Of("ada"), "ada", "news", std::string(4'000, 'x')));
  Status refused = hub.Broadcast(users.Of("ada"), "ada", "news", std::string(4'000, 'y'));
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().text.find("wait to be read"), std::string::npos);
  for (auto& subscription : many) EXPECT_EQ(subscription->Take(), std::string(4'000, 'x'));
  EXPECT_TRUE(hub.Broadcast(users.Of("ada"), "ada", "news", std::string(4'000, 'y')));
}

// Letters and subscriptions that are dropped at once must not pile up: each round leaked memory
// once.
TEST_F(HubTest, ComingAndGoingLeavesNothing) {
  for (int i = 0; i < 2'000; ++i) {
    ASSERT_TRUE(hub_.Pull(users_.Of("ada"), "ada", "work"));
    ASSERT_TRUE(hub_.Subscribe(users_.Of("ada"), "ada", "news"));
  }
  EXPECT_EQ(hub_.topics(), 0u);
}

TEST(Hub, ManyThreads) {
  const Limits limits;
  Users users_(limits);
  Hub hub(limits);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&hub, &users_, t] {
      const std::string mine = std::to_string(t);
      for (int i = 0; i < 300; ++i) {
        auto subscription = hub.Subscribe(users_.Of("ada"), "ada", "news");
        EXPECT_TRUE(hub.Push(users_.Of("ada"), "ada", mine, std::to_string(i)));
        EXPECT_TRUE(hub.Broadcast(users_.Of("ada"), "ada", "news", "x"));
        EXPECT_EQ((*hub.Pull(users_.Of("ada"), "ada", mine))->Take(), std::to_string(i));
        EXPECT_TRUE((*subscription)->Take());
        if (i % 16 == 0) hub.topics();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(hub.topics(), 0u);
}

}  // namespace
}  // namespace pie::host
