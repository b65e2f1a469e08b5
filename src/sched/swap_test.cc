#include "sched/swap.h"

#include <gtest/gtest.h>

namespace pie {
namespace {

TEST(Swap, TheCheaperWayIsTaken) {
  EXPECT_TRUE(SwapIsCheaper({}, 16, 1)) << "nothing is known yet";
  EXPECT_TRUE(SwapIsCheaper({.token_ns = 1000}, 16, 1));
  EXPECT_TRUE(SwapIsCheaper({.token_ns = 1000, .page_ns = 7999}, 16, 1)) << "out and in";
  EXPECT_FALSE(SwapIsCheaper({.token_ns = 1000, .page_ns = 8000}, 16, 1));
  EXPECT_FALSE(SwapIsCheaper({.token_ns = 1, .page_ns = 100}, 160, 10));
}

TEST(Swap, AveragesMoveSlowly) {
  double average = 0;
  Smooth(average, 100);
  EXPECT_EQ(average, 100);
  Smooth(average, 260);
  EXPECT_EQ(average, 110);
}

TEST(Swap, TheRoomComesBackWithTheLastHolder) {
  SwapPool pool(10);
  Rows rows;
  rows.tokens = {1, 2, 3};
  rows.positions = {0, 1, 2};
  std::vector<std::byte> pages(8);
  pages[4] = std::byte{7};
  auto kept = pool.Keep(rows, MakePageContents(pages, 4));
  EXPECT_EQ(pool.pages_free(), 8U);
  EXPECT_EQ(kept->rows().size(), 3U);
  EXPECT_EQ(kept->Page(1).value()[0], std::byte{7});
  auto fork = kept;
  kept.reset();
  EXPECT_EQ(pool.pages_free(), 8U);
  fork.reset();
  EXPECT_EQ(pool.pages_free(), 10U);
}

}  // namespace
}  // namespace pie
