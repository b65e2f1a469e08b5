#include "kv/page_pool.h"

#include <gtest/gtest.h>

namespace pie {
namespace {

TEST(PagePool, GivesEveryPageOnceThenNone) {
  PagePool pool(3);
  EXPECT_EQ(pool.Take(), PageId{0});
  EXPECT_EQ(pool.Take(), PageId{1});
  EXPECT_EQ(pool.Take(), PageId{2});
  EXPECT_EQ(pool.Take(), std::nullopt);
  EXPECT_EQ(pool.pages_used(), 3U);
  EXPECT_TRUE(pool.CheckIntegrity());
}

TEST(PagePool, ThePageIsFreeWithItsLastReference) {
  PagePool pool(1);
  const PageId page = *pool.Take();
  pool.AddRef(page);
  EXPECT_TRUE(pool.shared(page));
  pool.Release(page);
  EXPECT_FALSE(pool.shared(page));
  EXPECT_EQ(pool.pages_free(), 0U);
  pool.Release(page);
  EXPECT_EQ(pool.pages_free(), 1U);
  EXPECT_EQ(pool.Take(), page);
}

TEST(PagePool, IntegrityComparesWithThePageTables) {
  PagePool pool(3);
  const PageId a = *pool.Take();
  const PageId b = *pool.Take();
  pool.AddRef(b);
  EXPECT_TRUE(pool.CheckIntegrity(std::vector{a, b, b}));
  EXPECT_EQ(pool.CheckIntegrity(std::vector{a, b}).error().text,
            "page 1 counts 2 references, page tables hold 1");
  EXPECT_FALSE(pool.CheckIntegrity(std::vector{a, b, b, PageId{2}}));
  EXPECT_FALSE(pool.CheckIntegrity(std::vector{a, b, b, PageId{9}}));
}

TEST(PagePool, EmptyPoolIsAPool) {
  PagePool pool(0);
  EXPECT_EQ(pool.Take(), std::nullopt);
  EXPECT_TRUE(pool.CheckIntegrity());
}

TEST(PagePoolDeathTest, GivingBackTwiceIsABug) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  PagePool pool(1);
  const PageId page = *pool.Take();
  pool.Release(page);
  EXPECT_DEATH(pool.Release(page), "broken invariant");
}

}  // namespace
}  // namespace pie
