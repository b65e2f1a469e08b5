#include "backend/meanwhile.h"

#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "sched/testing.h"

namespace pie {
namespace {

using testing::Gate;
using testing::GatedBackend;

// Guests that were woken, as functions to call.
class Woken final : public Meanwhile {
 public:
  void Begin() override { step_thread_ = std::this_thread::get_id(); }
  void End() override { HandOver(); }
  bool RunOne() override {
    if (woken_.empty()) return false;
    auto guest = std::move(woken_.front());
    woken_.pop_front();
    guest();
    return true;
  }
  void HandOver() override {
    handed_over_ += woken_.size();
    woken_.clear();
  }

  // Step thread.
  void Wake(std::function<void()> guest) { woken_.push_back(std::move(guest)); }
  bool on_step_thread() const { return std::this_thread::get_id() == step_thread_; }

  std::atomic<size_t> handed_over_ = 0;

 private:
  std::thread::id step_thread_;
  std::deque<std::function<void()>> woken_;
};

class MeanwhileTest : public ::testing::Test {
 protected:
  void SetUp() override { scheduler_.SetMeanwhile(woken_); }
  // A pass of one token whose end wakes `guest`.
  void Step(SequenceId sequence, uint32_t position, std::function<void()> guest) {
    Forward forward;
    forward.sequence = sequence;
    forward.tokens = {'a'};
    forward.positions = {position};
    forward.samples = {{.rows = {0}}};
    forward.done = [this, guest = std::move(guest)](const Result<std::vector<Slot>>& slots) {
      EXPECT_TRUE(slots);
      woken_->Wake(guest);
    };
    scheduler_.Execute(std::move(forward));
  }

  std::shared_ptr<Gate> gate_ = std::make_shared<Gate>();
  std::shared_ptr<Woken> woken_ = std::make_shared<Woken>();
  Scheduler scheduler_{std::make_unique<GatedBackend>(DummyOptions{}, gate_), {}};
};

TEST_F(MeanwhileTest, TheStepThreadRunsWhomItHasWoken) {
  constexpr uint32_t kSteps = 50;
  std::atomic<uint32_t> turns = 0;
  const SequenceId sequence = scheduler_.Create();
  std::function<void()> guest = [&] {
    EXPECT_TRUE(woken_->on_step_thread());
    const uint32_t turn = ++turns;
    if (turn < kSteps) {
      Step(sequence, turn, guest);
    } else {
      turns.notify_all();
    }
  };
  Step(sequence, 0, guest);
  for (uint32_t seen; (seen = turns) < kSteps;) turns.wait(seen);
  EXPECT_EQ(woken_->handed_over_, 0U);
}

TEST_F(MeanwhileTest, ABatchThatCanStartWaitsForNoGuest) {
  std::atomic<bool> ran = false;
  const SequenceId first = scheduler_.Create();
  const SequenceId second = scheduler_.Create();
  gate_->Hold();
  Step(first, 0, [&] { ran = true; });
  ASSERT_TRUE(gate_->WaitBusy());
  Step(second, 0, [] {});  // waits for the device, and is not a peer of the first
  gate_->Open();
  EXPECT_TRUE(scheduler_.WaitIdle(20'000));
  EXPECT_FALSE(ran);
  EXPECT_EQ(woken_->handed_over_, 1U);
}

}  // namespace
}  // namespace pie
