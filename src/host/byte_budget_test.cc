#include "host/byte_budget.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace pie::host {
namespace {

std::shared_ptr<ByteBudget> PartOf(const std::shared_ptr<ByteBudget>& whole,
                                   ByteBudget::Part part = {.share_percent = 80}) {
  return std::make_shared<ByteBudget>(whole->limit(), whole, part);
}

// Takes one unit at a time until the budget refuses.
size_t Fill(ByteBudget& budget) {
  while (budget.Take(1)) {
  }
  return budget.used();
}

TEST(ByteBudget, APartIsTakenFromTheWholeAndGivenBack) {
  auto whole = std::make_shared<ByteBudget>(100);
  {
    auto part = PartOf(whole, {.share_percent = 100});
    ASSERT_TRUE(part->Take(60));
    EXPECT_EQ(whole->used(), 60u);
    EXPECT_FALSE(PartOf(whole, {.share_percent = 100})->Take(41));
    part->Give(20);
    EXPECT_EQ(whole->used(), 40u);
    EXPECT_EQ(part->used(), 40u);
  }
  EXPECT_EQ(whole->used(), 0u);
}

TEST(ByteBudget, OneWhoTakesAllTheyCanLeavesRoomForOthers) {
  auto whole = std::make_shared<ByteBudget>(1'000);
  auto greedy = PartOf(whole);
  EXPECT_EQ(Fill(*greedy), 800u);
  auto second = PartOf(whole), third = PartOf(whole);
  EXPECT_EQ(Fill(*second), 160u) << "four times what is left";
  EXPECT_GT(Fill(*third), 30u);
  // When the greedy user gives units back, the others may take more, and the greedy user may not.
  greedy->Give(300);
  EXPECT_GT(Fill(*second), 370u);
  EXPECT_FALSE(greedy->Take(1));
  EXPECT_LT(whole->used(), 1'000u);
}

TEST(ByteBudget, ASmallWholeCanBeUsedUp) {
  for (const size_t limit : {1, 2, 4}) {
    auto whole = std::make_shared<ByteBudget>(limit);
    EXPECT_EQ(Fill(*PartOf(whole)), limit);
  }
}

TEST(ByteBudget, AGrainAsksTheWholeRarelyAndGivesBack) {
  auto whole = std::make_shared<ByteBudget>(1'000);
  auto part = PartOf(whole, {.share_percent = 100, .grain = 100});
  ASSERT_TRUE(part->Take(1));
  EXPECT_EQ(whole->used(), 100u);
  ASSERT_TRUE(part->Take(249));
  EXPECT_EQ(whole->used(), 300u);
  part->Give(240);
  EXPECT_EQ(whole->used(), 100u);
  EXPECT_EQ(Fill(*part), 1'000u) << "the last part of a grain is there too";
}

TEST(ByteBudget, PartsOfParts) {
  auto whole = std::make_shared<ByteBudget>(1'000);
  auto user = PartOf(whole);
  auto inferlet = std::make_shared<ByteBudget>(500, user, ByteBudget::Part{.grain = 16});
  EXPECT_FALSE(inferlet->Take(501));
  EXPECT_EQ(Fill(*inferlet), 500u);
  auto another = std::make_shared<ByteBudget>(500, user, ByteBudget::Part{.grain = 16});
  EXPECT_NEAR(Fill(*another), 300u, 16) << "what the user has left";
  EXPECT_TRUE(PartOf(whole)->Take(50));
}

TEST(ByteBudget, FitsAsksWithoutTaking) {
  auto whole = std::make_shared<ByteBudget>(1'000);
  auto part = PartOf(whole);
  EXPECT_TRUE(part->Fits(1'000));
  ASSERT_TRUE(part->Take(790));
  EXPECT_TRUE(part->Fits(10));
  EXPECT_FALSE(part->Fits(200));
  EXPECT_EQ(whole->used(), 790u);
}

TEST(ByteBudget, ManyThreadsLeaveNothingBehind) {
  auto whole = std::make_shared<ByteBudget>(1 << 20);
  {
    auto user = PartOf(whole);
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&user] {
        auto mine = std::make_shared<ByteBudget>(1 << 20, user, ByteBudget::Part{.grain = 64});
        for (size_t i = 0; i < 20'000; ++i) {
          Charge charge(mine);
          EXPECT_TRUE(charge.Grow(i % 997));
          EXPECT_TRUE(charge.Resize(i % 13));
        }
      });
    }
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(user->used(), 0u);
  }
  EXPECT_EQ(whole->used(), 0u);
}

}  // namespace
}  // namespace pie::host
