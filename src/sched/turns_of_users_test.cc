#include "sched/turns_of_users.h"

#include <gtest/gtest.h>

namespace pie {
namespace {

using Indices = std::vector<uint32_t>;

Indices OrderOf(TurnsOfUsers& turns, std::vector<uint64_t> users) {
  Indices order;
  EXPECT_TRUE(turns.Order(users, order));
  return order;
}

TEST(TurnsOfUsers, OneUserKeepsTheOrder) {
  TurnsOfUsers turns;
  Indices order;
  EXPECT_FALSE(turns.Order(std::vector<uint64_t>{7, 7, 7}, order));
  EXPECT_FALSE(turns.Order({}, order));
}

TEST(TurnsOfUsers, UsersTakeTurns) {
  TurnsOfUsers turns;
  EXPECT_EQ(OrderOf(turns, {1, 1, 1, 1, 2, 2, 3}), (Indices{0, 4, 6, 1, 5, 2, 3}));
}

TEST(TurnsOfUsers, WhoWasServedLeastIsFirst) {
  TurnsOfUsers turns;
  OrderOf(turns, {1, 2});
  turns.Add(1, 100);
  EXPECT_EQ(OrderOf(turns, {1, 1, 2}), (Indices{2, 0, 1}));
  turns.Add(2, 200);
  EXPECT_EQ(OrderOf(turns, {1, 1, 2}), (Indices{0, 2, 1}));
}

TEST(TurnsOfUsers, NobodySavesUpTurns) {
  TurnsOfUsers turns;
  OrderOf(turns, {1, 2});
  turns.Add(1, 1'000);
  turns.Add(2, 1'000);
  OrderOf(turns, {1, 2});
  EXPECT_EQ(OrderOf(turns, {1, 3}), (Indices{0, 1})) << "3 was away, and has as much as the others";
  turns.Add(3, 1);
  EXPECT_EQ(OrderOf(turns, {3, 1}), (Indices{1, 0}));
}

TEST(TurnsOfUsers, AFloodOfLongPassesDoesNotStarveAnother) {
  TurnsOfUsers turns;
  // Each batch has room for one pass. User 1 always has older passes.
  int of_second = 0;
  for (int batch = 0; batch < 100; ++batch) {
    const std::vector<uint64_t> users = {1, 1, 1, 2};
    const uint64_t first = users[OrderOf(turns, users).front()];
    of_second += first == 2 ? 1 : 0;
    turns.Add(first, 512);
  }
  EXPECT_EQ(of_second, 50);
}

}  // namespace
}  // namespace pie
