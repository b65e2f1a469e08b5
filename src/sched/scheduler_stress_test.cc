// Many threads, random histories, small memories and failing devices: every answer is compared with
// a plain recomputation, and the books of pages are checked after every step.
#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>

#include "sched/scheduler.h"
#include "sched/testing.h"

namespace pie {
namespace {

using testing::Mirror;
using testing::Outcome;

struct Load {
  uint32_t threads = 4;
  uint32_t steps = 300;        // a thread
  uint32_t longest_pass = 40;  // tokens
  uint32_t longest_sequence = 200;
  uint32_t sequences = 6;  // a thread
};

// One caller with its own sequences. It always knows what they must hold.
class Caller {
 public:
  Caller(Scheduler& scheduler, const DummyOptions& device, const Load& load, uint32_t seed)
      : scheduler_(scheduler), device_(device), load_(load), random_(seed) {}

  void Run() {
    for (uint32_t step = 0; step < load_.steps; ++step) Step();
    while (!sequences_.empty()) DropLast();
    for (Pending& pending : pending_) Check(pending);
  }

  uint32_t answers = 0;
  uint32_t failures = 0;
  uint32_t vanished = 0;

 private:
  struct Pending {
    Outcome outcome;
    uint32_t expected = 0;
  };

  uint32_t Random(uint32_t below) { return static_cast<uint32_t>(random_() % below); }

  void Step() {
    if (sequences_.empty()) sequences_.push_back({scheduler_.Create(), {}});
    Mirror& mirror = sequences_[Random(static_cast<uint32_t>(sequences_.size()))];
    switch (Random(10)) {
      case 0:
        if (sequences_.size() < load_.sequences) {
          std::vector<DummySlot> slots = mirror.slots;
          sequences_.push_back({scheduler_.Fork(mirror.id), std::move(slots)});
        }
        break;
      case 1: {
        const uint32_t keep = Random(static_cast<uint32_t>(mirror.slots.size()) + 1);
        scheduler_.Truncate(mirror.id, keep);
        mirror.slots.resize(keep);
        break;
      }
      case 2:
        std::swap(mirror, sequences_.back());
        DropLast();
        break;
      default:
        Append(mirror);
    }
    // Sometimes many operations are in flight, sometimes none.
    if (pending_.size() > 8 || Random(3) == 0) {
      for (Pending& pending : pending_) Check(pending);
      pending_.clear();
    }
  }

  void Append(Mirror& mirror) {
    const uint32_t count = Random(3) == 0 ? 1 + Random(load_.longest_pass) : 1;
    if (mirror.slots.size() + count > load_.longest_sequence) {
      scheduler_.Truncate(mirror.id, 0);
      mirror.slots.clear();
    }
    std::vector<uint32_t> tokens(count);
    for (uint32_t& token : tokens) token = Random(256);
    Forward forward = mirror.Append(tokens);
    Pending& pending = pending_.emplace_back();
    pending.expected = mirror.Greedy(device_);
    forward.done = pending.outcome.Callback();
    scheduler_.Execute(std::move(forward));
  }

  void DropLast() {
    scheduler_.Drop(sequences_.back().id);
    sequences_.pop_back();
  }

  void Check(Pending& pending) {
    const auto result = pending.outcome.Get();
    if (!result) {
      ++vanished;
    } else if (!*result) {
      ++failures;
    } else {
      ++answers;
      EXPECT_EQ(std::get<TokenSlot>((*result)->at(0)).token, pending.expected);
    }
  }

  Scheduler& scheduler_;
  const DummyOptions device_;
  const Load load_;
  std::mt19937 random_;
  std::vector<Mirror> sequences_;
  std::vector<Pending> pending_;
};

struct Totals {
  uint32_t answers = 0;
  uint32_t failures = 0;
};

class SchedulerStress : public ::testing::TestWithParam<testing::Device> {
 protected:
  static std::unique_ptr<Backend> Make(const DummyOptions& options) {
    return testing::MakeDevice(GetParam(), options, std::make_shared<testing::Gate>());
  }
  static Totals Stress(const DummyOptions& device, SchedulerOptions options, const Load& load);
};

Totals SchedulerStress::Stress(const DummyOptions& device, SchedulerOptions options,
                               const Load& load) {
  options.check_integrity = true;
  Scheduler scheduler(Make(device), options);
  std::vector<Caller> callers;
  for (uint32_t i = 0; i < load.threads; ++i) callers.emplace_back(scheduler, device, load, i);
  std::vector<std::thread> threads;
  for (Caller& caller : callers) threads.emplace_back([&caller] { caller.Run(); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(scheduler.WaitIdle(30'000));
  const SchedulerStats stats = scheduler.stats();
  EXPECT_EQ(stats.sequences, 0U);
  EXPECT_EQ(stats.pages_used, 0U);
  EXPECT_EQ(stats.queued, 0U);
  Totals totals;
  for (const Caller& caller : callers) {
    totals.answers += caller.answers;
    totals.failures += caller.failures;
  }
  return totals;
}

TEST_P(SchedulerStress, AnswersAreRightWhateverThePagesAndBatches) {
  for (uint32_t page_tokens : {1U, 3U, 16U, 64U}) {
    for (uint32_t max_batch_tokens : {1U, 7U, 2048U}) {
      const Totals totals = Stress({.seed = page_tokens,
                                    .page_tokens = page_tokens,
                                    .total_pages = 8192,
                                    .max_batch_tokens = max_batch_tokens},
                                   {}, {.steps = 150});
      EXPECT_GT(totals.answers, 150U);
      EXPECT_EQ(totals.failures, 0U);
    }
  }
}

TEST_P(SchedulerStress, FewMembersABatch) {
  const Totals totals = Stress({.max_batch_members = 2}, {}, {});
  EXPECT_GT(totals.answers, 300U);
  EXPECT_EQ(totals.failures, 0U);
}

TEST_P(SchedulerStress, TinyMemoryFailsHonestlyAndNeverHangs) {
  const Totals totals =
      Stress({.page_tokens = 4, .total_pages = 60, .max_batch_tokens = 16}, {.page_wait_ms = 1},
             {.threads = 4, .steps = 300, .longest_sequence = 100});
  EXPECT_GT(totals.answers, 0U);
}

TEST_P(SchedulerStress, FailingDevicesBreakOnlyTheirBatches) {
  const Totals totals = Stress({.page_tokens = 4, .fail_every = 13}, {}, {});
  EXPECT_GT(totals.answers, 100U);
  EXPECT_GT(totals.failures, 0U);
}

TEST_P(SchedulerStress, SlowDevicesGatherBatches) {
  const Totals totals = Stress({.latency_us = 300}, {.spin_us = 0}, {.steps = 100});
  EXPECT_GT(totals.answers, 100U);
  EXPECT_EQ(totals.failures, 0U);
}

TEST_P(SchedulerStress, DestructionInTheMiddle) {
  for (int round = 0; round < 20; ++round) {
    auto scheduler = std::make_unique<Scheduler>(Make({.page_tokens = 4}),
                                                 SchedulerOptions{.check_integrity = true});
    std::vector<Outcome> outcomes;
    for (uint32_t i = 0; i < 50; ++i) {
      Mirror mirror{scheduler->Create(), {}};
      for (int pass = 0; pass < 4; ++pass) {
        Forward forward = mirror.Append(std::vector<uint32_t>(1 + i, 'a'));
        forward.done = outcomes.emplace_back().Callback();
        scheduler->Execute(std::move(forward));
      }
      if (i % 3 == 0) scheduler->Drop(mirror.id);
    }
    scheduler.reset();
    for (const Outcome& outcome : outcomes) EXPECT_TRUE(outcome.ended());
  }
}

PIE_ON_BOTH_DEVICES(SchedulerStress);

}  // namespace
}  // namespace pie
