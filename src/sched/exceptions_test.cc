// An exception of a device or a listener fails the passes that it concerns, and nothing else.
#include <gtest/gtest.h>

#include <atomic>
#include <new>
#include <stdexcept>

#include "sched/testing.h"

namespace pie {
namespace {

using testing::Outcome;

// A device that throws at the next call of one kind.
class Throwing final : public testing::AroundDummy {
 public:
  enum class At { kNever, kSubmit, kWait };
  explicit Throwing(std::shared_ptr<std::atomic<At>> at) : AroundDummy({}), at_(std::move(at)) {}
  Result<Ticket> Submit(const Batch& batch) override {
    ThrowAt(At::kSubmit);
    return AroundDummy::Submit(batch);
  }
  Result<BatchOutput> Wait(Ticket ticket) override {
    auto output = AroundDummy::Wait(ticket);
    ThrowAt(At::kWait);
    return output;
  }

 private:
  void ThrowAt(At here) {
    At expected = here;
    if (at_->compare_exchange_strong(expected, At::kNever)) throw std::bad_alloc();
  }
  std::shared_ptr<std::atomic<At>> at_;
};

// Rules whose masks cannot be had, which the step thread notices while it builds a batch.
class NoMasks final : public TokenRules {
 public:
  Result<bool> Accept(uint32_t) override { return false; }
  std::vector<uint32_t> Forced(uint32_t) override { return {}; }
  void Prepare(std::vector<uint32_t>&) override {}
  TokenMasks& masks() override { throw std::runtime_error("no masks"); }
};

class ExceptionsTest : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    std::unique_ptr<Backend> device = std::make_unique<Throwing>(at_);
    if (GetParam()) device = MakeAsynchronous(std::move(device));
    scheduler_ = std::make_unique<Scheduler>(std::move(device), SchedulerOptions{});
  }
  Forward PassOf(SequenceId sequence) {
    Forward forward;
    forward.sequence = sequence;
    forward.tokens = {'a'};
    forward.positions = {0};
    forward.samples = {{.rows = {0}}};
    return forward;
  }
  Outcome Run(Forward forward) {
    Outcome outcome;
    forward.done = outcome.Callback();
    scheduler_->Execute(std::move(forward));
    return outcome;
  }
  Outcome Run() { return Run(PassOf(scheduler_->Create())); }

  std::shared_ptr<std::atomic<Throwing::At>> at_ =
      std::make_shared<std::atomic<Throwing::At>>(Throwing::At::kNever);
  std::unique_ptr<Scheduler> scheduler_;
};

INSTANTIATE_TEST_SUITE_P(Devices, ExceptionsTest, ::testing::Bool());

TEST_P(ExceptionsTest, ADeviceThatThrowsFailsItsBatch) {
  for (const Throwing::At at : {Throwing::At::kSubmit, Throwing::At::kWait}) {
    *at_ = at;
    EXPECT_NE(Run().Failure().text.find("bad_alloc"), std::string::npos);
    Run().Token();  // the next batch succeeds
  }
}

TEST_P(ExceptionsTest, AListenerThatThrowsIsAlone) {
  Forward forward = PassOf(scheduler_->Create());
  forward.done = [](const auto&) { throw std::runtime_error("not today"); };
  scheduler_->Execute(std::move(forward));
  Run().Token();
}

TEST_P(ExceptionsTest, TheStepThreadGoesOn) {
  Forward forward = PassOf(scheduler_->Create());
  forward.rules = std::make_shared<NoMasks>();
  EXPECT_NE(Run(std::move(forward)).Failure().text.find("no masks"), std::string::npos);
  Run().Token();
  EXPECT_TRUE(scheduler_->WaitIdle(10'000));
}

}  // namespace
}  // namespace pie
