#include "sched/lane_table.h"

#include <gtest/gtest.h>

#include "kv/page_pool.h"
#include "kv/prefix_index.h"
#include "sched/flights.h"
#include "sched/queue.h"
#include "sched/step_time.h"

namespace pie {
namespace {

TEST(LaneTable, APageThatNoSequenceHoldsIsReported) {
  constexpr uint32_t kPageTokens = 4;
  PagePool pool(8);
  PrefixIndex index(pool, kPageTokens, {});
  Flights flights(1);
  StepTime time;
  const BackendInfo info{.page_tokens = kPageTokens, .total_pages = 8};
  CommandQueue queue;
  const LaneTable lanes(info, index, flights, time, queue);
  EXPECT_TRUE(lanes.CheckIntegrity());

  const std::optional<PageId> lost = pool.Take();
  ASSERT_TRUE(lost);
  const Status status = lanes.CheckIntegrity();
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().text.find("page 0"), std::string::npos) << status.error().text;

  pool.Release(*lost);
  EXPECT_TRUE(lanes.CheckIntegrity());
}

TEST(LaneTable, SuspensionsAndTruncationsThatWaitTakeOnePlace) {
  constexpr uint32_t kPageTokens = 4;
  PagePool pool(8);
  PrefixIndex index(pool, kPageTokens, {});
  Flights flights(1);
  StepTime time;
  const BackendInfo info{.page_tokens = kPageTokens, .total_pages = 8, .max_positions = 32};
  CommandQueue queue;
  LaneTable lanes(info, index, flights, time, queue);
  const SequenceId id{1};
  lanes.Apply(command::Create{.sequence = id});
  auto pass = std::make_unique<ScheduledPass>();
  pass->forward.sequence = id;
  pass->forward.tokens = {1};
  pass->forward.positions = {0};
  lanes.Apply(command::Execute{std::move(pass)});
  for (uint32_t i = 0; i < 10; ++i) {
    for (uint32_t j = 0; j < 100; ++j) lanes.Apply(command::Suspend{id});
    for (uint32_t j = 0; j < 100; ++j) lanes.Apply(command::Truncate{id, 100 - j});
  }
  EXPECT_EQ(lanes.Get(id)->waiting(), 20U);
  EXPECT_EQ(lanes.Get(id)->operations.back().tokens, 1U);
}

}  // namespace
}  // namespace pie
