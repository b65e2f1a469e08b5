#include "sched/crew.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "sched/testing.h"

namespace pie {
namespace {

using std::chrono::milliseconds;
using testing::Gate;
using testing::GatedBackend;

// Guests that were woken, as functions to call.
class Woken final : public Meanwhile {
 public:
  void Begin() override { step_thread_ = std::this_thread::get_id(); }
  void End() override {}
  bool RunOne() override {
    std::function<void()> guest;
    {
      const std::lock_guard lock(mutex_);
      if (woken_.empty()) return false;
      guest = std::move(woken_.back());
      woken_.pop_back();
    }
    if (std::this_thread::get_id() != step_thread_) ++by_others_;
    guest();
    return true;
  }
  void HandOver() override {
    while (RunOne()) {
    }
  }
  void Wake(std::function<void()> guest) {
    const std::lock_guard lock(mutex_);
    woken_.push_back(std::move(guest));
  }
  uint32_t by_others() const { return by_others_; }

 private:
  std::thread::id step_thread_;
  std::atomic<uint32_t> by_others_ = 0;
  std::mutex mutex_;
  std::vector<std::function<void()>> woken_;
};

// Waits until `done`, for as long as a busy machine needs.
template <class Done>
bool Await(Done&& done) {
  for (int i = 0; i < 20'000; ++i) {
    if (done()) return true;
    std::this_thread::sleep_for(milliseconds(1));
  }
  return false;
}

TEST(CrewTest, FewGuestsAreNotHelped) {
  EXPECT_EQ(Crew::Helpers(12, 1), 0U);
  EXPECT_EQ(Crew::Helpers(12, 7), 0U);
  EXPECT_EQ(Crew::Helpers(12, 8), 1U);
  EXPECT_EQ(Crew::Helpers(12, 64), 12U);
  EXPECT_EQ(Crew::Helpers(0, 64), 0U);
}

TEST(CrewTest, ThreadsThatAreCalledRunWhatWasWoken) {
  const auto woken = std::make_shared<Woken>();
  Crew crew(2);
  crew.Begin(woken);
  std::atomic<int> ran = 0;
  for (int round = 1; round < 20; ++round) {
    woken->Wake([&] { ++ran; });
    // A thread that just stops looking does not hear the call.
    EXPECT_TRUE(Await([&] {
      crew.Call(16);
      return ran == round;
    }));
  }
}

TEST(CrewTest, ThreadsComeBeforeTheGuestsThatAreExpected) {
  const auto woken = std::make_shared<Woken>();
  Crew crew(2);
  crew.Begin(woken);
  std::atomic<int> ran = 0;
  EXPECT_TRUE(Await([&] {
    crew.Expect(16, milliseconds(1));
    std::this_thread::sleep_for(milliseconds(1));
    woken->Wake([&] { ++ran; });
    std::this_thread::sleep_for(milliseconds(1));
    return ran > 0;
  }));
}

TEST(CrewTest, ACallIsHeardBeforeTheExpectedTime) {
  const auto woken = std::make_shared<Woken>();
  Crew crew(2);
  crew.Begin(woken);
  crew.Expect(16, std::chrono::hours(1));
  std::atomic<int> ran = 0;
  woken->Wake([&] { ++ran; });
  EXPECT_TRUE(Await([&] {
    crew.Call(16);
    return ran > 0;
  }));
}

TEST(CrewTest, ItEndsWhileItsThreadsWait) {
  Crew crew(2);
  crew.Begin(std::make_shared<Woken>());
  crew.Expect(16, std::chrono::hours(1));
}

TEST(CrewTest, TheStepThreadIsHelpedWithManyGuests) {
  constexpr uint32_t kGuests = 16;
  constexpr uint32_t kSteps = 30;
  const auto woken = std::make_shared<Woken>();
  Scheduler scheduler{std::make_unique<GatedBackend>(DummyOptions{}, std::make_shared<Gate>()),
                      {.crew_threads = 3}};
  scheduler.SetMeanwhile(woken);
  std::atomic<uint32_t> ended = 0;
  std::function<void(SequenceId, uint32_t)> step = [&](SequenceId sequence, uint32_t position) {
    if (position == kSteps) {
      ++ended;
      return;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(100));
    Forward forward;
    forward.sequence = sequence;
    forward.tokens = {'a'};
    forward.positions = {position};
    forward.samples = {{.rows = {0}}};
    forward.done = [&, sequence, position](const Result<std::vector<Slot>>& slots) {
      EXPECT_TRUE(slots);
      woken->Wake([&step, sequence, position] { step(sequence, position + 1); });
    };
    scheduler.Execute(std::move(forward));
  };
  for (uint32_t i = 0; i < kGuests; ++i) step(scheduler.Create(), 0);
  EXPECT_TRUE(Await([&] { return ended == kGuests; }));
  EXPECT_GT(woken->by_others(), 0U);
  EXPECT_TRUE(scheduler.WaitIdle(20'000));
}

}  // namespace
}  // namespace pie
