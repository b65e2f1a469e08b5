#include "sched/lane_table.h"

#include <gtest/gtest.h>

#include "kv/page_pool.h"
#include "kv/prefix_index.h"
#include "sched/flights.h"
#include "sched/queue.h"
#include "sched/step_time.h"

namespace pie {
namespace {

class LaneTableTest : public ::testing::Test {
 protected:
  const BackendInfo info_{.page_tokens = 4, .total_pages = 8, .max_positions = 32};
  PagePool pool_{info_.total_pages};
  PrefixIndex index_{pool_, info_.page_tokens};
  Flights flights_{1};
  StepTime time_;
  CommandQueue queue_;
  LaneTable lanes_{info_, index_, flights_, time_, queue_};
};

TEST_F(LaneTableTest, APageThatNoSequenceHoldsIsReported) {
  EXPECT_TRUE(lanes_.CheckIntegrity());

  const std::optional<PageId> lost = pool_.Take();
  ASSERT_TRUE(lost);
  const Status status = lanes_.CheckIntegrity();
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().text.find("page 0"), std::string::npos) << status.error().text;

  pool_.Release(*lost);
  EXPECT_TRUE(lanes_.CheckIntegrity());
}

TEST_F(LaneTableTest, SuspensionsAndTruncationsThatWaitTakeOnePlace) {
  const SequenceId id{1};
  lanes_.Apply(command::Create{.sequence = id});
  auto pass = std::make_unique<ScheduledPass>();
  pass->forward.sequence = id;
  pass->forward.tokens = {1};
  pass->forward.positions = {0};
  lanes_.Apply(command::Execute{std::move(pass)});
  for (uint32_t i = 0; i < 10; ++i) {
    for (uint32_t j = 0; j < 100; ++j) lanes_.Apply(command::Suspend{id});
    for (uint32_t j = 0; j < 100; ++j) lanes_.Apply(command::Truncate{id, 100 - j});
  }
  EXPECT_EQ(lanes_.Get(id)->waiting(), 20U);
  EXPECT_EQ(lanes_.Get(id)->operations.back().tokens, 1U);
}

}  // namespace
}  // namespace pie
