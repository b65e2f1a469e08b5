#include "sched/queue.h"

#include <gtest/gtest.h>

#include <thread>

namespace pie {
namespace {

using namespace std::chrono_literals;

const command::Truncate& At(const CommandQueue::Drained& drained, size_t i) {
  return std::get<command::Truncate>(drained.commands.at(i));
}

Command Numbered(uint64_t sequence, uint32_t number) {
  return command::Truncate{.sequence = {sequence}, .tokens = number};
}

TEST(CommandQueue, KeepsTheOrderOfEveryCaller) {
  CommandQueue queue(64);
  constexpr uint32_t kCallers = 4;
  constexpr uint32_t kEach = 5000;
  std::vector<std::thread> callers;
  for (uint32_t caller = 0; caller < kCallers; ++caller) {
    callers.emplace_back([&queue, caller] {
      for (uint32_t i = 0; i < kEach; ++i) queue.Push(Numbered(caller, i));
    });
  }
  uint32_t next[kCallers] = {};
  uint32_t total = 0;
  CommandQueue::Drained drained;
  while (total < kCallers * kEach) {
    queue.Sleep(1s);
    queue.Drain(drained);
    EXPECT_LE(drained.commands.size(), 64U);
    for (size_t i = 0; i < drained.commands.size(); ++i, ++total) {
      ASSERT_EQ(At(drained, i).tokens, next[At(drained, i).sequence.value]++);
    }
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_FALSE(queue.pending());
}

TEST(CommandQueue, CallersAreToldThatItIsHalfFull) {
  struct Told : Meanwhile {
    void Begin() override {}
    void End() override {}
    bool RunOne() override { return false; }
    void HandOver() override {}
    void Crowded() override { ++times; }
    int times = 0;
  };
  const auto told = std::make_shared<Told>();
  CommandQueue queue(8);
  queue.SetMeanwhile(told);
  for (uint32_t i = 0; i < 4; ++i) queue.Push(Numbered(1, i));
  EXPECT_EQ(told->times, 0);
  queue.Push(Numbered(1, 4));
  EXPECT_EQ(told->times, 1);
  CommandQueue::Drained drained;
  queue.Drain(drained);
  queue.Push(Numbered(1, 5));
  EXPECT_EQ(told->times, 1);
}

TEST(CommandQueue, AFullQueueMakesCallersWaitButNotStepThreads) {
  CommandQueue queue(2);
  std::atomic<bool> pushed = false;
  queue.Push(Numbered(1, 0));
  queue.Push(Numbered(1, 1));
  std::thread caller([&] {
    queue.Push(Numbered(1, 2));
    pushed = true;
  });
  std::this_thread::sleep_for(20ms);
  EXPECT_FALSE(pushed);
  std::thread([&] {
    CommandQueue::NeverWaitHere();
    queue.Push(Numbered(1, 3));  // a `done` callback may always ask for more
  }).join();
  CommandQueue::Drained drained;
  EXPECT_TRUE(queue.Drain(drained));
  EXPECT_EQ(drained.commands.size(), 3U);
  caller.join();
  EXPECT_TRUE(queue.Drain(drained));
  EXPECT_EQ(drained.commands.size(), 1U);
  EXPECT_EQ(At(drained, 0).tokens, 2U);
}

TEST(CommandQueue, SleepCanWaitForSeveralCommands) {
  CommandQueue queue;
  CommandQueue::Drained drained;
  queue.Push({});
  std::thread pusher([&] {
    for (int i = 0; i < 9; ++i) queue.Push({});
  });
  queue.Sleep(std::nullopt, 10);
  ASSERT_TRUE(queue.Drain(drained));
  EXPECT_EQ(drained.commands.size(), 10U);
  pusher.join();
  queue.Push({});
  queue.Sleep(1ms, 2);
  EXPECT_TRUE(queue.pending()) << "in time, with less";
  std::thread closer([&] { queue.Close(); });
  queue.Sleep(std::nullopt, 2);
  closer.join();
}

TEST(CommandQueue, SleepEndsWithWorkOrInTime) {
  CommandQueue queue;
  const auto start = std::chrono::steady_clock::now();
  queue.Sleep(5ms);
  EXPECT_GE(std::chrono::steady_clock::now() - start, 5ms);
  std::thread caller([&] {
    std::this_thread::sleep_for(5ms);
    queue.Push(Numbered(1, 0));
  });
  queue.Sleep(std::nullopt);
  EXPECT_TRUE(queue.pending());
  caller.join();
}

TEST(CommandQueue, BidsNeverWaitAndTheLastOfASequenceCounts) {
  CommandQueue queue(2);
  queue.Push(Numbered(1, 0));
  queue.Push(Numbered(1, 1));
  for (uint32_t i = 0; i < 1000; ++i) queue.Bid(SequenceId{1 + i % 2}, {.fixed = i});
  EXPECT_EQ(queue.size(), 2U);
  CommandQueue::Drained drained;
  EXPECT_TRUE(queue.Drain(drained));
  EXPECT_EQ(drained.commands.size(), 2U);
  EXPECT_EQ(drained.bids.size(), 2U);
  EXPECT_EQ(drained.bids.at(SequenceId{1}).fixed, 998);
  EXPECT_EQ(drained.bids.at(SequenceId{2}).fixed, 999);
  EXPECT_FALSE(queue.Drain(drained));
  queue.Bid(SequenceId{3}, {.fixed = 1});
  EXPECT_FALSE(queue.pending()) << "a bid wakes no thread";
  EXPECT_TRUE(queue.Drain(drained)) << "but is taken when there is something else to do";
}

TEST(CommandQueue, CloseWakesEverybody) {
  CommandQueue queue(1);
  queue.Push(Numbered(1, 0));
  std::thread caller([&] { queue.Push(Numbered(1, 1)); });
  std::this_thread::sleep_for(5ms);
  queue.Close();
  caller.join();
  queue.Sleep(std::nullopt);
  EXPECT_TRUE(queue.closed());
  CommandQueue::Drained drained;
  queue.Drain(drained);
  EXPECT_EQ(drained.commands.size(), 1U);  // what came after Close was destroyed
  queue.Push(Numbered(1, 2));
  EXPECT_FALSE(queue.Drain(drained));
}

TEST(Fence, TellsOnceForAll) {
  Fence fence;
  EXPECT_FALSE(fence.WaitFor(1ms));
  std::thread signaller([&] { fence.Signal(); });
  EXPECT_TRUE(fence.WaitFor(5s));
  signaller.join();
  EXPECT_TRUE(fence.WaitFor(0ms));
}

}  // namespace
}  // namespace pie
