#include "host/mailbox.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace pie::host {
namespace {

using Text = std::optional<std::string>;

std::shared_ptr<Mailbox> Box(size_t messages = 100, size_t bytes = 1000) {
  return std::make_shared<Mailbox>(messages, bytes);
}

TEST(Mailbox, FirstInFirstOut) {
  auto box = Box();
  for (const char* text : {"a", "b", "c"}) ASSERT_TRUE(box->Push(text));
  for (const char* text : {"a", "b", "c"}) EXPECT_EQ(box->Receive()->Take(), text);
  EXPECT_TRUE(box->idle());
}

TEST(Mailbox, LettersAreServedInTheOrderTheyWereAskedFor) {
  auto box = Box();
  auto first = box->Receive(), second = box->Receive();
  EXPECT_EQ(first->Take(), std::nullopt);
  ASSERT_TRUE(box->Push("a"));
  ASSERT_TRUE(box->Push("b"));
  EXPECT_EQ(second->Take(), "b");
  EXPECT_EQ(first->Take(), "a");
  EXPECT_EQ(first->Take(), std::nullopt) << "a message is given once";
}

TEST(Mailbox, LetterDroppedUnreadPutsItsMessageBackInFront) {
  auto box = Box();
  auto lost_the_race = box->Receive();
  ASSERT_TRUE(box->Push("a"));
  ASSERT_TRUE(box->Push("b"));
  lost_the_race.reset();
  EXPECT_EQ(box->Receive()->Take(), "a");
  EXPECT_EQ(box->Receive()->Take(), "b");
}

TEST(Mailbox, WhatIsPutBackGoesToTheNextWhoWaits) {
  auto box = Box();
  auto first = box->Receive(), second = box->Receive();
  ASSERT_TRUE(box->Push("a"));
  first.reset();
  EXPECT_EQ(second->Take(), "a");
}

TEST(Mailbox, LetterDroppedBeforeAnythingCameTakesNothing) {
  auto box = Box();
  box->Receive().reset();
  auto second = box->Receive();
  ASSERT_TRUE(box->Push("a"));
  EXPECT_EQ(second->Take(), "a");
}

TEST(Mailbox, NothingRemainsOfDroppedLetters) {
  constexpr size_t kBoxes = 2'000, kLetters = 60;
  std::vector<std::shared_ptr<Mailbox>> boxes;
  for (size_t i = 0; i < kBoxes; ++i) boxes.push_back(Box());
  const size_t before = mallinfo2().uordblks;
  for (const auto& box : boxes) {
    for (size_t i = 0; i < kLetters; ++i) box->Receive().reset();
    EXPECT_FALSE(box->awaited());
  }
  const size_t after = mallinfo2().uordblks;
  EXPECT_LT(after - std::min(after, before), kBoxes * kLetters * 8);
}

TEST(Mailbox, ALetterThatIsDroppedWhileItIsServedLosesNothing) {
  for (int i = 0; i < 2'000; ++i) {
    auto box = Box();
    auto letter = box->Receive();
    std::thread sender([&] { ASSERT_TRUE(box->Push("a")); });
    letter.reset();
    sender.join();
    EXPECT_EQ(box->Receive()->Take(), "a");
    EXPECT_TRUE(box->idle());
  }
}

TEST(Mailbox, FullByMessages) {
  auto box = Box(2);
  ASSERT_TRUE(box->Push("a"));
  ASSERT_TRUE(box->Push("b"));
  Status third = box->Push("c");
  ASSERT_FALSE(third);
  EXPECT_EQ(third.error().code, Code::kExhausted);
  EXPECT_NE(third.error().text.find("the queue is full: 2 messages"), std::string::npos);
  EXPECT_EQ(box->Receive()->Take(), "a");
  EXPECT_TRUE(box->Push("c"));
}

TEST(Mailbox, FullByBytes) {
  auto box = Box(100, 10);
  ASSERT_TRUE(box->Push(std::string(10, 'x')));
  EXPECT_FALSE(box->Push("y"));
  EXPECT_TRUE(box->Receive()->Take());
  EXPECT_TRUE(box->Push("y"));
  EXPECT_FALSE(box->Push(std::string(11, 'x')));
}

// A guest that pulls and never reads must not make the engine's memory grow.
TEST(Mailbox, UnreadLettersCountAgainstTheLimits) {
  auto box = Box(3, 1000);
  std::vector<std::shared_ptr<Letter>> unread;
  for (int i = 0; i < 3; ++i) {
    unread.push_back(box->Receive());
    ASSERT_TRUE(box->Push("x"));
  }
  unread.push_back(box->Receive());
  EXPECT_FALSE(box->Push("x"));
  EXPECT_FALSE(box->idle());
  EXPECT_EQ(unread[0]->Take(), "x");
  EXPECT_TRUE(box->Push("x"));
}

TEST(Mailbox, MessagesAreChargedToTheirSenderAndGivenBack) {
  auto budget = std::make_shared<ByteBudget>(600);
  {
    auto one = Box(), two = Box();
    ASSERT_TRUE(one->Push(std::string(200, 'x'), Charge(budget)));
    const size_t each = budget->used();
    EXPECT_GT(each, 200u) << "a message takes more memory than its text";
    EXPECT_FALSE(two->Push(std::string(200, 'x'), Charge(budget)));
    ASSERT_TRUE(two->Push("", Charge(budget)));
    EXPECT_EQ(budget->used(), each + each - 200);
    EXPECT_TRUE(one->Receive()->Take());
    EXPECT_EQ(budget->used(), each - 200);
    auto unread = two->Receive();
    EXPECT_EQ(budget->used(), each - 200) << "still there, in the letter";
  }
  EXPECT_EQ(budget->used(), 0u);
}

TEST(Mailbox, CloseEndsTheWaitAndKeepsWhatCame) {
  auto box = Box();
  auto waits = box->Receive();
  box->Close();
  EXPECT_EQ(waits->Take(), std::nullopt);
  Status late = box->Push("late");
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, Code::kCancelled);

  auto kept = Box();
  ASSERT_TRUE(kept->Push("a"));
  kept->Close();
  EXPECT_EQ(kept->Receive()->Take(), "a");
  EXPECT_EQ(kept->Receive()->Take(), std::nullopt);
}

TEST(Mailbox, ClosedBoxTakesBackWhatALetterHeld) {
  auto box = Box();
  ASSERT_TRUE(box->Push("a"));
  auto letter = box->Receive();
  box->Close();
  letter.reset();
  EXPECT_EQ(box->Receive()->Take(), "a");
}

TEST(Mailbox, IdleOnlyWhenNobodyNeedsIt) {
  auto box = Box();
  EXPECT_TRUE(box->idle());
  auto letter = box->Receive();
  EXPECT_FALSE(box->idle()) << "a letter waits";
  ASSERT_TRUE(box->Push("a"));
  EXPECT_FALSE(box->idle()) << "an unread letter may come back";
  EXPECT_TRUE(letter->Take());
  EXPECT_TRUE(box->idle());
  box->Receive().reset();
  EXPECT_TRUE(box->idle());
}

// There are many writers, and readers that give up now and then. Every message arrives once.
TEST(Mailbox, ManyThreads) {
  constexpr int kWriters = 3, kReaders = 3, kEach = 400;
  auto box = Box(kWriters * kEach, 1 << 20);
  std::atomic<int> received = 0;
  std::mutex mutex;
  std::multiset<std::string> seen;
  std::vector<std::thread> threads;
  for (int w = 0; w < kWriters; ++w) {
    threads.emplace_back([&, w] {
      for (int i = 0; i < kEach; ++i) {
        EXPECT_TRUE(box->Push(std::to_string(w) + ":" + std::to_string(i)));
      }
    });
  }
  for (int r = 0; r < kReaders; ++r) {
    threads.emplace_back([&, r] {
      int turn = r;
      while (received < kWriters * kEach) {
        auto letter = box->Receive();
        if (++turn % 4 == 0) continue;  // dropped, with or without a message
        for (int look = 0; look < 50; ++look) {
          if (Text text = letter->Take()) {
            const std::lock_guard lock(mutex);
            seen.insert(*text);
            ++received;
            break;
          }
          std::this_thread::yield();
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(seen.size(), size_t{kWriters * kEach});
  EXPECT_EQ(std::set<std::string>(seen.begin(), seen.end()).size(), seen.size());
  EXPECT_TRUE(box->idle());
}

TEST(Mailbox, AWriterThatLeavesIsToldOnce) {
  auto box = std::make_shared<Mailbox>(8, 1024);
  auto waiting = box->Receive();
  box->Interrupt();
  EXPECT_FALSE(waiting->Take()) << "it was told that no message comes";
  auto next = box->Receive();
  ASSERT_TRUE(box->Push("back")) << "the box takes messages again";
  EXPECT_EQ(next->Take(), "back");

  box->Interrupt();  // no letter waits: messages are delivered first, then one letter is told
  ASSERT_TRUE(box->Push("late"));
  EXPECT_EQ(box->Receive()->Take(), "late");
  auto told = box->Receive();
  auto after = box->Receive();
  ASSERT_TRUE(box->Push("more"));
  EXPECT_FALSE(told->Take());
  EXPECT_EQ(after->Take(), "more");

  box->Interrupt();
  box->Resume();  // the writer came back before a letter was told
  auto unaware = box->Receive();
  ASSERT_TRUE(box->Push("on"));
  EXPECT_EQ(unaware->Take(), "on");
}

}  // namespace
}  // namespace pie::host
