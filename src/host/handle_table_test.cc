#include "host/handle_table.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace pie::host {
namespace {

// Counts how many of it are alive.
struct Counted {
  explicit Counted(int* count) : alive(count) { ++*alive; }
  ~Counted() { --*alive; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  int* alive;
};

TEST(HandleTable, GivesWhatWasPutIn) {
  std::atomic<int64_t> live = 0;
  HandleTable<int> table("number", 10, &live);
  const uint32_t seven = *table.Emplace(7);
  const uint32_t nine = *table.Emplace(9);
  EXPECT_NE(seven, nine);
  EXPECT_EQ(**table.Get(seven), 7);
  EXPECT_EQ(**table.Get(nine), 9);
  EXPECT_EQ(live, 2);
}

TEST(HandleTable, UnknownAndRemovedHandlesAreNamed) {
  std::atomic<int64_t> live = 0;
  HandleTable<int> table("number", 10, &live);
  EXPECT_EQ(table.Get(5).error().text, "no number has handle 5");
  const uint32_t handle = *table.Emplace(1);
  table.Remove(handle);
  EXPECT_EQ(table.Get(handle).error().code, Code::kNotFound);
  EXPECT_FALSE(table.Get(UINT32_MAX));
}

TEST(HandleTable, LimitCountsWhatIsHeldNow) {
  std::atomic<int64_t> live = 0;
  HandleTable<int> table("number", 2, &live);
  const uint32_t first = *table.Emplace(1);
  ASSERT_TRUE(table.Emplace(2));
  auto third = table.Emplace(3);
  ASSERT_FALSE(third);
  EXPECT_EQ(third.error().code, Code::kExhausted);
  EXPECT_EQ(third.error().text, "handle limit: the inferlet holds 2 objects of kind number");
  table.Remove(first);
  EXPECT_TRUE(table.Emplace(3));
  EXPECT_EQ(live, 2);
}

TEST(HandleTable, ReusesNumbers) {
  std::atomic<int64_t> live = 0;
  HandleTable<int> table("number", 100, &live);
  for (int i = 0; i < 10'000; ++i) {
    const uint32_t handle = *table.Emplace(i);
    EXPECT_LT(handle, 1u);
    table.Remove(handle);
  }
  EXPECT_EQ(live, 0);
}

TEST(HandleTable, RemovingTwiceCountsOnce) {
  std::atomic<int64_t> live = 0;
  int alive = 0;
  HandleTable<Counted> table("thing", 10, &live);
  const uint32_t handle = *table.Emplace(&alive);
  table.Remove(handle);
  table.Remove(handle);
  table.Remove(77);
  EXPECT_EQ(live, 0);
  EXPECT_EQ(alive, 0);
  // Had the number been freed twice, two objects would share it now.
  EXPECT_NE(*table.Emplace(&alive), *table.Emplace(&alive));
}

TEST(HandleTable, SweepDestroysAndCountsAll) {
  std::atomic<int64_t> live = 5;  // of other tables
  int alive = 0;
  {
    HandleTable<Counted> table("thing", 100, &live);
    for (int i = 0; i < 20; ++i) ASSERT_TRUE(table.Emplace(&alive));
    for (uint32_t handle = 0; handle < 20; handle += 3) table.Remove(handle);
    EXPECT_EQ(alive, 13);
    EXPECT_EQ(live, 18);
  }
  EXPECT_EQ(alive, 0);
  EXPECT_EQ(live, 5);
}

}  // namespace
}  // namespace pie::host
