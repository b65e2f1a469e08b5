#include "host/rows_charge.h"

#include <gtest/gtest.h>

namespace pie::host {
namespace {

constexpr size_t kPage = 100;  // bytes

class RowsChargeTest : public testing::Test {
 protected:
  RowsCharge New(uint32_t paid = 0) {
    RowsCharge rows(kPage, paid);
    rows.PayFrom(Charge(budget_));
    return rows;
  }
  size_t pages() const { return budget_->used() / kPage; }

  std::shared_ptr<ByteBudget> budget_ = std::make_shared<ByteBudget>(10 * kPage);
};

TEST_F(RowsChargeTest, EndsAtTheLimit) {
  RowsCharge rows = New();
  EXPECT_TRUE(rows.Cover(10));
  EXPECT_FALSE(rows.Cover(11));
  EXPECT_EQ(pages(), 10u);
  EXPECT_TRUE(rows.Cover(4)) << "they are charged already";
  EXPECT_EQ(pages(), 10u);
  rows.Cut(4);
  EXPECT_EQ(pages(), 4u);
  rows.Release();
  EXPECT_EQ(pages(), 0u);
}

TEST_F(RowsChargeTest, ForksShareWhatTheyHaveInCommon) {
  RowsCharge rows = New();
  ASSERT_TRUE(rows.Cover(5));
  std::vector<RowsCharge> forks;
  for (int i = 0; i < 1'000; ++i) forks.push_back(rows.Fork());
  EXPECT_EQ(pages(), 5u);
  EXPECT_TRUE(forks[0].Cover(7));
  EXPECT_TRUE(forks[1].Cover(6));
  EXPECT_EQ(pages(), 8u);
  rows.Release();
  EXPECT_EQ(pages(), 8u) << "the forks have the first five";
  forks.erase(forks.begin() + 1, forks.end());
  EXPECT_EQ(pages(), 7u);
  forks.clear();
  EXPECT_EQ(pages(), 0u);
}

TEST_F(RowsChargeTest, WhatIsCutIsChargedWhileAForkHasIt) {
  RowsCharge rows = New();
  ASSERT_TRUE(rows.Cover(4));
  RowsCharge fork = rows.Fork();
  ASSERT_TRUE(rows.Cover(6));
  rows.Cut(2);
  EXPECT_EQ(pages(), 4u);
  EXPECT_TRUE(rows.Cover(3)) << "another third page";
  EXPECT_EQ(pages(), 5u);
  rows.Cut(0);
  fork.Cut(0);
  EXPECT_EQ(pages(), 0u);
}

TEST_F(RowsChargeTest, PagesOfAFileAreChargedElsewhere) {
  RowsCharge rows = New(3);
  EXPECT_TRUE(rows.Cover(3));
  EXPECT_EQ(pages(), 0u);
  EXPECT_TRUE(rows.Cover(5));
  EXPECT_EQ(pages(), 2u);
  rows.Cut(1);
  EXPECT_TRUE(rows.Cover(2));
  EXPECT_EQ(pages(), 1u);
}

// A context that is forked at each page, as in a tree search, is charged at most twice its length.
TEST_F(RowsChargeTest, AChainOfForksCostsLittle) {
  budget_ = std::make_shared<ByteBudget>(1'000'000 * kPage);
  RowsCharge rows = New();
  for (uint32_t pages = 1; pages <= 10'000; ++pages) {
    ASSERT_TRUE(rows.Cover(pages));
    rows = rows.Fork();
  }
  EXPECT_GE(pages(), 10'000u);
  EXPECT_LE(pages(), 20'000u);
  rows.Release();
  EXPECT_EQ(pages(), 0u);
}

}  // namespace
}  // namespace pie::host
