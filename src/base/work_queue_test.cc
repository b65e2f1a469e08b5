#include "base/work_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <thread>

namespace pie {
namespace {

TEST(WorkQueue, RunsJobsOnItsOwnThreads) {
  WorkQueue queue("test", 1, 10);
  std::promise<std::thread::id> ran_on;
  ASSERT_TRUE(queue.Push([&] { ran_on.set_value(std::this_thread::get_id()); }));
  EXPECT_NE(ran_on.get_future().get(), std::this_thread::get_id());
}

TEST(WorkQueue, ABlockedThreadLeavesTheOthersToWork) {
  WorkQueue queue("test", 2, 10);
  std::promise<void> open;
  std::shared_future<void> gate = open.get_future().share();
  ASSERT_TRUE(queue.Push([gate] { gate.wait(); }));
  std::promise<void> ran;
  ASSERT_TRUE(queue.Push([&] { ran.set_value(); }));
  ran.get_future().get();
  open.set_value();
}

TEST(WorkQueue, RefusesJobsWhenItIsFull) {
  std::promise<void> open;
  std::promise<void> busy;
  std::shared_future<void> gate = open.get_future().share();
  WorkQueue queue("test", 1, 2);
  ASSERT_TRUE(queue.Push([&busy, gate] {
    busy.set_value();
    gate.wait();
  }));
  busy.get_future().get();
  EXPECT_TRUE(queue.Push([] {}));
  EXPECT_TRUE(queue.Push([] {}));
  EXPECT_FALSE(queue.Push([] {}));
  EXPECT_EQ(queue.size(), 2U);
  open.set_value();
}

TEST(WorkQueue, StopDestroysWaitingJobsWithoutRunningThem) {
  const auto held = std::make_shared<int>(0);
  std::atomic<int> ran = 0;
  std::promise<void> open;
  std::promise<void> busy;
  std::shared_future<void> gate = open.get_future().share();
  WorkQueue queue("test", 1, 10);
  ASSERT_TRUE(queue.Push([&busy, gate] {
    busy.set_value();
    gate.wait();
  }));
  busy.get_future().get();
  ASSERT_TRUE(queue.Push([&ran, held] { ++ran; }));
  std::thread opener([&] {
    while (queue.size() > 0) std::this_thread::yield();  // until Stop has taken the job away
    open.set_value();
  });
  queue.Stop();
  opener.join();
  EXPECT_EQ(ran, 0);
  EXPECT_EQ(held.use_count(), 1);
  EXPECT_FALSE(queue.Push([] {}));
}

}  // namespace
}  // namespace pie
