#include "sched/lane_table.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "kv/page_pool.h"
#include "kv/prefix_index.h"
#include "sched/flights.h"
#include "sched/queue.h"
#include "sched/step_time.h"

namespace pie {
namespace {

class LaneTableTest : public ::testing::Test {
 protected:
  // Lets a pass wait for a batch, which never comes.
  void Wait(SequenceId id) {
    auto pass = std::make_unique<ScheduledPass>();
    pass->forward.sequence = id;
    pass->forward.tokens = {1};
    pass->forward.positions = {0};
    lanes_.Apply(command::Execute{std::move(pass)});
  }

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
  Wait(id);
  for (uint32_t i = 0; i < 10; ++i) {
    for (uint32_t j = 0; j < 100; ++j) lanes_.Apply(command::Suspend{id});
    for (uint32_t j = 0; j < 100; ++j) lanes_.Apply(command::Truncate{id, 100 - j});
  }
  ASSERT_EQ(lanes_.Get(id)->waiting(), 2U);
  EXPECT_EQ(lanes_.Get(id)->operations.back().tokens, 1U);
}

TEST_F(LaneTableTest, AForkThatIsDroppedLeavesNothingInTheLineOfItsParent) {
  const SequenceId id{1};
  lanes_.Apply(command::Create{.sequence = id});
  Wait(id);
  uint64_t next = 2;
  for (uint32_t i = 0; i < 100; ++i) {
    const SequenceId fork{next++};
    lanes_.Apply(command::Fork{.parent = id, .child = fork});
    lanes_.Apply(command::Drop{fork});
    lanes_.Apply(command::Suspend{id});
    lanes_.Apply(command::Truncate{id, 0});
  }
  EXPECT_LE(lanes_.Get(id)->waiting(), 3U);
  EXPECT_EQ(lanes_.sequences(), 1U);
}

// Each sequence is forked, and dropped. Its fork waits for it, so it stays, and so does its charge.
TEST_F(LaneTableTest, WhatIsLeftOfASequenceHoldsWhatItsOwnerLeft) {
  const SequenceId first{1};
  lanes_.Apply(command::Create{.sequence = first});
  Wait(first);
  std::vector<std::weak_ptr<const int>> charges;
  for (uint64_t i = 1; i <= 10; ++i) {
    const auto charge = std::make_shared<const int>(0);
    charges.push_back(charge);
    lanes_.Apply(command::Fork{.parent = SequenceId{i}, .child = SequenceId{i + 1}});
    lanes_.Apply(command::Drop{.sequence = SequenceId{i}, .held = charge});
  }
  EXPECT_EQ(lanes_.sequences(), 11U);
  for (const auto& charge : charges) EXPECT_FALSE(charge.expired());
  lanes_.Break(*const_cast<Lane*>(lanes_.Get(first)), {Code::kInternal, "the device is gone"});
  EXPECT_EQ(lanes_.sequences(), 1U);
  for (const auto& charge : charges) EXPECT_TRUE(charge.expired());
}

}  // namespace
}  // namespace pie
