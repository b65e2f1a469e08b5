#include "backend/cpu/machine/thread_pool.h"

#include <gtest/gtest.h>

#include <chrono>
#include <mutex>
#include <numeric>
#include <set>

namespace pie::cpu {
namespace {

TEST(ThreadPool, RunsEveryPartOnce) {
  ThreadPool pool(4);
  for (uint32_t parts : {0U, 1U, 2U, 3U, 17U, 1000U}) {
    std::vector<int> runs(parts);  // not atomic: ParallelFor makes the writes visible
    pool.ParallelFor(parts, [&](uint32_t i) { ++runs[i]; });
    EXPECT_EQ(std::accumulate(runs.begin(), runs.end(), 0), static_cast<int>(parts));
    for (int each : runs) EXPECT_EQ(each, 1);
  }
}

TEST(ThreadPool, RunsManyShortJobsInSuccession) {
  ThreadPool pool(4);
  uint64_t total = 0;
  std::vector<uint64_t> values(5);
  for (uint64_t job = 0; job < 3000; ++job) {
    const auto parts = static_cast<uint32_t>(job % 5 + 1);
    pool.ParallelFor(parts, [&](uint32_t i) { values[i] = job + i; });
    for (uint32_t i = 0; i < parts; ++i) total += values[i] - i - job;
  }
  EXPECT_EQ(total, 0U);
}

TEST(ThreadPool, WakesSleepingThreads) {
  ThreadPool pool;
  for (int i = 0; i < 5; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
    std::atomic<int> runs = 0;
    pool.ParallelFor(100, [&](uint32_t) { ++runs; });
    EXPECT_EQ(runs, 100);
  }
}

TEST(ThreadPool, WaitsForSlowParts) {
  ThreadPool pool;
  std::vector<int> done(8);
  pool.ParallelFor(8, [&](uint32_t i) {
    if (i % 2 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    done[i] = 1;
  });
  EXPECT_EQ(std::accumulate(done.begin(), done.end(), 0), 8);
}

TEST(ThreadPool, UsesNoMoreThreadsThanProcessors) {
  ThreadPool pool(1000);
  EXPECT_LE(pool.threads(), ThreadPool::AvailableCpus());
  std::mutex mutex;
  std::set<std::thread::id> seen;
  pool.ParallelFor(1000, [&](uint32_t) {
    const std::scoped_lock lock(mutex);
    seen.insert(std::this_thread::get_id());
  });
  EXPECT_LE(seen.size(), pool.threads());
}

TEST(ThreadPool, ANestedCallRunsOnTheSameThread) {
  ThreadPool pool;
  std::vector<std::vector<std::thread::id>> inner(6, std::vector<std::thread::id>(3));
  std::vector<std::thread::id> outer(6);
  pool.ParallelFor(6, [&](uint32_t i) {
    outer[i] = std::this_thread::get_id();
    pool.ParallelFor(3, [&, i](uint32_t j) { inner[i][j] = std::this_thread::get_id(); });
  });
  for (int i = 0; i < 6; ++i) {
    for (const auto& id : inner[i]) EXPECT_EQ(id, outer[i]);
  }
}

TEST(ThreadPool, WorksWithOneThread) {
  ThreadPool pool(0);
  EXPECT_EQ(pool.threads(), 1U);
  int runs = 0;
  pool.ParallelFor(7, [&](uint32_t) { ++runs; });
  EXPECT_EQ(runs, 7);
}

TEST(ThreadPool, StopsWithoutEverRunningAJob) {
  for (int i = 0; i < 50; ++i) ThreadPool pool;
}

}  // namespace
}  // namespace pie::cpu
