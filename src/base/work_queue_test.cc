#include "base/work_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

namespace pie {
namespace {

TEST(WorkQueue, RunsJobsOnItsOwnThreads) {
  WorkQueue queue("test", 1, 10);
  std::promise<std::thread::id> ran_on;
  ASSERT_TRUE(queue.Push("ada", [&] { ran_on.set_value(std::this_thread::get_id()); }));
  EXPECT_NE(ran_on.get_future().get(), std::this_thread::get_id());
}

TEST(WorkQueue, ABlockedThreadLeavesTheOthersToWork) {
  WorkQueue queue("test", 2, 10);
  std::promise<void> open;
  std::shared_future<void> gate = open.get_future().share();
  ASSERT_TRUE(queue.Push("ada", [gate] { gate.wait(); }));
  std::promise<void> ran;
  ASSERT_TRUE(queue.Push("bob", [&] { ran.set_value(); }));
  ran.get_future().get();
  open.set_value();
}

TEST(WorkQueue, RefusesJobsWhenItIsFull) {
  std::promise<void> open;
  std::promise<void> busy;
  std::shared_future<void> gate = open.get_future().share();
  WorkQueue queue("test", 1, 2);
  ASSERT_TRUE(queue.Push("ada", [&busy, gate] {
    busy.set_value();
    gate.wait();
  }));
  busy.get_future().get();
  EXPECT_TRUE(queue.Push("ada", [] {}));
  EXPECT_TRUE(queue.Push("ada", [] {}));
  EXPECT_FALSE(queue.Push("ada", [] {}));
  EXPECT_EQ(queue.size(), 2U);
  open.set_value();
}

TEST(WorkQueue, OneUserLeavesThreadsAndRoomForOthers) {
  std::promise<void> open;
  std::shared_future<void> gate = open.get_future().share();
  std::atomic<int> running = 0;
  WorkQueue queue("test", 4, 100);
  int pushed = 0;
  while (queue.Push("ada", [&running, gate] {
    ++running;
    gate.wait();
  })) {
    ASSERT_LT(++pushed, 100);
  }
  EXPECT_GT(pushed, 70);
  while (running < 2) std::this_thread::yield();
  for (const char* user : {"bob", "eve"}) {
    std::promise<void> ran;
    ASSERT_TRUE(queue.Push(user, [&] { ran.set_value(); }));
    EXPECT_EQ(ran.get_future().wait_for(std::chrono::seconds(20)), std::future_status::ready);
  }
  EXPECT_EQ(running, 2);
  open.set_value();
  while (running < pushed) std::this_thread::yield();  // her other jobs take their turns
}

TEST(WorkQueue, UsersTakeTurns) {
  std::promise<void> open;
  std::promise<void> busy;
  std::shared_future<void> gate = open.get_future().share();
  std::string order;
  std::promise<void> done;
  WorkQueue queue("test", 1, 100);
  ASSERT_TRUE(queue.Push("ada", [&busy, gate] {
    busy.set_value();
    gate.wait();
  }));
  busy.get_future().get();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(queue.Push("ada", [&] { order += 'a'; }));
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(queue.Push("bob", [&] { order += 'b'; }));
  ASSERT_TRUE(queue.Push("eve", [&] { order += 'e'; }));
  ASSERT_TRUE(queue.Push("ada", [&] { done.set_value(); }));
  open.set_value();
  done.get_future().get();
  EXPECT_EQ(order, "abeaba");
}

TEST(WorkQueue, AJobThatThrowsDoesNotEndTheThread) {
  WorkQueue queue("test", 1, 10);
  ASSERT_TRUE(queue.Push("ada", [] { throw std::runtime_error("a test of this"); }));
  std::promise<void> ran;
  ASSERT_TRUE(queue.Push("ada", [&] { ran.set_value(); }));
  ran.get_future().get();
}

TEST(WorkQueue, StopDestroysWaitingJobsWithoutRunningThem) {
  const auto held = std::make_shared<int>(0);
  std::atomic<int> ran = 0;
  std::promise<void> open;
  std::promise<void> busy;
  std::shared_future<void> gate = open.get_future().share();
  WorkQueue queue("test", 1, 10);
  ASSERT_TRUE(queue.Push("ada", [&busy, gate] {
    busy.set_value();
    gate.wait();
  }));
  busy.get_future().get();
  ASSERT_TRUE(queue.Push("ada", [&ran, held] { ++ran; }));
  std::thread opener([&] {
    while (queue.size() > 0) std::this_thread::yield();  // until Stop has taken the job away
    open.set_value();
  });
  queue.Stop();
  opener.join();
  EXPECT_EQ(ran, 0);
  EXPECT_EQ(held.use_count(), 1);
  EXPECT_FALSE(queue.Push("ada", [] {}));
}

}  // namespace
}  // namespace pie
