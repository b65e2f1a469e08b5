#include "sched/suffix_drafter.h"

#include <gtest/gtest.h>

#include "sched/row_price.h"

namespace pie {
namespace {

using Tokens = std::vector<uint32_t>;

SuffixIndex IndexOf(const Tokens& tokens) {
  SuffixIndex index;
  for (const uint32_t token : tokens) index.Add(token);
  return index;
}

Tokens AfterOwn(const Tokens& tokens, uint32_t most) {
  const SuffixIndex index = IndexOf(tokens);
  return index.After(index.tokens(), most);
}

TEST(SuffixIndexTest, FindsWhatFollowedBefore) {
  EXPECT_EQ(AfterOwn({1, 2, 3, 4, 5, 9, 1, 2, 3}, 2), Tokens({4}));
  EXPECT_EQ(AfterOwn({1, 2, 3, 4, 5, 9, 1, 2, 3, 4}, 2), Tokens({5, 9}));
  EXPECT_EQ(AfterOwn({1, 2, 3, 4, 5, 9, 1, 2, 3}, 0), Tokens());
  EXPECT_EQ(AfterOwn({1, 2, 3, 4, 5, 9, 8, 2, 3}, 2), Tokens());
  EXPECT_EQ(AfterOwn({1, 2}, 2), Tokens());
}

TEST(SuffixIndexTest, PrefersTheLongestMatchAndThenTheLatest) {
  EXPECT_EQ(AfterOwn({7, 1, 2, 3, 40, 8, 1, 2, 3, 50, 7, 1, 2, 3}, 1), Tokens({40}));
  EXPECT_EQ(AfterOwn({1, 2, 3, 40, 1, 2, 3, 50, 1, 2, 3}, 1), Tokens({50}));
}

TEST(SuffixIndexTest, GoesOnRepeatingBehindTheEnd) {
  Tokens repeated;
  for (int i = 0; i < 4; ++i) repeated.insert(repeated.end(), {1, 2, 3});
  EXPECT_EQ(AfterOwn(repeated, 7), Tokens({1, 2, 3, 1, 2, 3, 1}));
  EXPECT_EQ(AfterOwn({5, 5, 5, 5, 5, 5}, 3), Tokens({5, 5, 5}));
}

TEST(SuffixIndexTest, GrowsWithoutLosingPlaces) {
  Tokens tokens;
  for (uint32_t i = 0; i < 20'000; ++i) tokens.push_back(i * 7'919 % 1'000'003);
  const Tokens gram(tokens.begin() + 5, tokens.begin() + 8);
  tokens.insert(tokens.end(), gram.begin(), gram.end());
  EXPECT_EQ(AfterOwn(tokens, 2), Tokens({tokens[8]}));
}

TEST(SuffixDrafterTest, AChainThatEndsSoonIsNotWorthALongLook) {
  EXPECT_EQ(SuffixDrafter::Window(0), 0U);
  EXPECT_EQ(SuffixDrafter::Window(1), 128U);
  EXPECT_EQ(SuffixDrafter::Window(8), 1'024U);
  EXPECT_EQ(SuffixDrafter::Window(64), SuffixDrafter::kMostTokens);
  EXPECT_EQ(SuffixDrafter::Window(UINT32_MAX), SuffixDrafter::kMostTokens);
}

TEST(SuffixDrafterTest, UsesWhatTheUsersOtherChainsGave) {
  StepTime time;
  const auto recent = std::make_shared<RecentTokens>();
  {
    SuffixDrafter first(Tokens{1}, recent, time);
    for (const uint32_t token : {10, 11, 12, 13, 14}) first.Add(token);
  }
  SuffixDrafter second(Tokens{2}, recent, time);
  for (const uint32_t token : {10, 11, 12}) second.Add(token);
  EXPECT_EQ(second.Draft(2), Tokens({13}));
}

TEST(SuffixDrafterTest, GuessesLessWhenItIsWrong) {
  StepTime time;
  time.row_price = 0.25;
  SuffixDrafter drafter(Tokens(20, 5), nullptr, time);
  EXPECT_GT(drafter.Draft(32)->size(), 2U);
  for (int i = 0; i < 20; ++i) drafter.Judge(4, 0);
  uint32_t guesses = 0;
  for (int i = 0; i < 320; ++i) guesses += static_cast<uint32_t>(drafter.Draft(32)->size());
  EXPECT_EQ(guesses, 10U);  // one now and then
  for (int i = 0; i < 20; ++i) drafter.Judge(1, 1);
  EXPECT_GT(drafter.Draft(32)->size(), 8U);
}

TEST(SuffixDrafterTest, CountsGuessesAfterFewEqualTokensApart) {
  StepTime time;
  time.row_price = 0.25;
  SuffixDrafter drafter(Tokens{1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3}, nullptr, time);
  for (int i = 0; i < 5; ++i) {
    drafter.Draft(8);
    drafter.Judge(1, 0);
  }
  EXPECT_EQ(drafter.Draft(8), Tokens());  // {1, 2, 3} was not followed by 4
  for (const uint32_t token : {4, 5, 6, 7}) drafter.Add(token);
  EXPECT_EQ(drafter.Draft(8), Tokens({8, 9, 1, 2, 3}));
}

TEST(SuffixDrafterTest, DoesNotGuessWhereRowsAreDear) {
  StepTime time;
  time.row_price = 0.95;
  SuffixDrafter drafter(Tokens(20, 5), nullptr, time);
  EXPECT_EQ(drafter.Draft(32), Tokens());
}

TEST(RowPriceTest, LearnsFromBatches) {
  RowPrice price;
  const double unknown = price.Of(1);
  for (int i = 0; i < 50; ++i) price.Add(1, 2'500);
  EXPECT_EQ(price.Of(1), unknown);  // one size tells nothing
  for (int i = 0; i < 50; ++i) {
    for (const size_t rows : {1U, 4U, 8U}) price.Add(rows, 2'000 + 500 * static_cast<int>(rows));
  }
  EXPECT_NEAR(price.Of(1), 0.2, 0.01);
  EXPECT_NEAR(price.Of(8), 4'000.0 / 6'000, 0.01);
  for (int i = 0; i < 300; ++i) price.Add(i % 2 == 0 ? 1 : 9, 2'500);
  EXPECT_LT(price.Of(1), 0.05);
}

}  // namespace
}  // namespace pie
