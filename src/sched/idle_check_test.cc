// The check of the engine's books while there is nothing to do.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "backend/dummy/dummy_backend.h"
#include "base/clock.h"
#include "sched/queue.h"
#include "sched/scheduler.h"
#include "sched/step_loop.h"

namespace pie {
namespace {

using namespace std::chrono_literals;

// For as long as a busy machine or a sanitizer needs.
bool WaitForCheck(const auto& stats, uint64_t before = 0) {
  for (int i = 0; i < 6000 && stats().integrity_checks == before; ++i) {
    std::this_thread::sleep_for(10ms);
  }
  return stats().integrity_checks > before;
}

TEST(IdleCheck, MismatchIsLoggedAndCounted) {
  const auto backend = MakeDummyBackend({});
  CommandQueue queue;
  StepLoop loop(*backend, {}, queue, SteadyClock::Get());
  ASSERT_TRUE(loop.pool_for_tests().Take());  // a page that no sequence holds
  testing::internal::CaptureStderr();
  std::thread thread([&] { loop.Run(); });
  EXPECT_TRUE(WaitForCheck([&] { return loop.stats(); }));
  queue.Close();
  thread.join();
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_NE(log.find("pie: a bug in the scheduler: page 0 counts 1 references, page tables hold 0"),
            std::string::npos)
      << log;
  EXPECT_EQ(loop.stats().integrity_failures, loop.stats().integrity_checks);
}

TEST(IdleCheck, LargeEnginesAreCheckedToo) {
  constexpr uint32_t kTokens = 20'000;
  Scheduler scheduler(MakeDummyBackend({.page_tokens = 1, .total_pages = 2 * kTokens}), {});
  EXPECT_TRUE(WaitForCheck([&] { return scheduler.stats(); }));  // of the empty engine
  std::vector<uint32_t> positions(kTokens);
  std::iota(positions.begin(), positions.end(), 0);
  std::promise<bool> promise;
  scheduler.Execute({.sequence = scheduler.Create(),
                     .tokens = std::vector<uint32_t>(kTokens, 7),
                     .positions = std::move(positions),
                     .done = [&](auto slots) { promise.set_value(slots.has_value()); }});
  EXPECT_TRUE(promise.get_future().get());
  // The check comes although the last one was a moment ago and nothing else happens.
  EXPECT_TRUE(WaitForCheck([&] { return scheduler.stats(); }, 1));
  EXPECT_GE(scheduler.stats().pages_used, kTokens);
  EXPECT_EQ(scheduler.stats().integrity_failures, 0U);
}

TEST(IdleCheck, ACommandInterruptsIt) {
  const auto backend = MakeDummyBackend({.total_pages = 10'000});
  CommandQueue queue;
  const StepLoop loop(*backend, {}, queue, SteadyClock::Get());
  const Status ended = loop.CheckIntegrity(Interruption([] { return true; }));
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().code, Code::kCancelled);
  EXPECT_TRUE(loop.CheckIntegrity());
}

}  // namespace
}  // namespace pie
