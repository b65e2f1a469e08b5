#include "sched/scheduler.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <numeric>
#include <thread>

#include "base/limits.h"
#include "sched/testing.h"

namespace pie {
namespace {

using namespace std::chrono_literals;
using testing::Mirror;
using testing::Outcome;
using Kind = SampleSpec::Kind;
using Tokens = std::vector<uint32_t>;

class SchedulerTest : public testing::SchedulerFixture {};

TEST_P(SchedulerTest, RunsPassesOneAfterTheOther) {
  Start({.seed = 3, .page_tokens = 4});
  Mirror mirror = Create();
  uint32_t token = Append(mirror, {'h', 'e', 'l', 'l', 'o'}).Token();
  for (int i = 0; i < 30; ++i) {
    ASSERT_EQ(token, Greedy(mirror));
    token = Append(mirror, {token}).Token();
  }
}

TEST_P(SchedulerTest, PassesAskedForAtOnceKeepTheirOrder) {
  Start({.page_tokens = 4});
  Mirror mirror = Create();
  std::vector<Outcome> outcomes;
  std::vector<uint32_t> expected;
  for (uint32_t i = 0; i < 50; ++i) {
    outcomes.push_back(Append(mirror, Tokens(i % 7 + 1, 'a' + i % 26)));
    expected.push_back(Greedy(mirror));
  }
  for (size_t i = 0; i < outcomes.size(); ++i) EXPECT_EQ(outcomes[i].Token(), expected[i]);
}

TEST_P(SchedulerTest, BatchesWhatWaitsTogether) {
  Start({});
  Block();
  std::vector<Mirror> mirrors;
  std::vector<Outcome> outcomes;
  for (uint32_t i = 0; i < 10; ++i) {
    mirrors.push_back(Create());
    outcomes.push_back(Append(mirrors.back(), {'a' + i}));
  }
  gate_->Open();
  for (size_t i = 0; i < 10; ++i) EXPECT_EQ(outcomes[i].Token(), Greedy(mirrors[i]));
  ASSERT_TRUE(Idle());
  EXPECT_LE(gate_->batches().size(),
            3U);  // the blocker's, the next, and what came while it was built
}

TEST_P(SchedulerTest, LongPassesAreChunkedAndTheirSlotsPutTogether) {
  Start({.page_tokens = 4, .max_batch_tokens = 8});
  Mirror mirror = Create();
  Tokens prompt(50);
  std::iota(prompt.begin(), prompt.end(), 'A');
  Forward forward = mirror.Append(prompt);
  forward.samples = {{.rows = {49, 0, 20}},
                     {.kind = Kind::kMultinomial, .temperature = 1, .draws = 3, .rows = {7, 8}},
                     {.kind = Kind::kLogits, .rows = {8}}};
  forward.seed = 77;
  const auto slots = Run(std::move(forward)).Get().value().value();
  ASSERT_EQ(slots.size(), 10U);
  const auto logits = [&](size_t row) {
    return DummyLogits(device_, {mirror.slots.begin(), mirror.slots.begin() + row + 1});
  };
  const auto token = [&](size_t slot) { return std::get<TokenSlot>(slots[slot]).token; };
  EXPECT_EQ(token(0), *Argmax(logits(49), nullptr));
  EXPECT_EQ(token(1), *Argmax(logits(0), nullptr));
  EXPECT_EQ(token(2), *Argmax(logits(20), nullptr));
  EXPECT_EQ(std::get<LogitsSlot>(slots[9]).logits, logits(8));
  Sampling sampling;
  std::vector<Slot> drawn;
  ASSERT_TRUE(sampling.Read({.kind = Kind::kMultinomial, .temperature = 1, .draws = 3}, logits(8),
                            nullptr, {77, 1, 8}, drawn));
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(token(6 + i), std::get<TokenSlot>(drawn[i]).token);

  for (const auto& batch : gate_->batches()) EXPECT_EQ(batch.size(), 1U);
  EXPECT_EQ(gate_->batches().size(), 7U);
  ExpectAppend(mirror, {'z'});
}

TEST_P(SchedulerTest, AttentionRowsFollowTheChunks) {
  Start({.page_tokens = 4, .max_batch_tokens = 4});
  Mirror mirror = Create();
  Forward forward = mirror.Append({'a', 'b', 'c', 'd', 'e', 'f'});
  forward.attention.assign(6, {0, 100});
  forward.attention[5] = {1, 1, 2, 9};  // b, e and f
  EXPECT_EQ(Run(std::move(forward)).Token(),
            *Argmax(DummyLogits(device_, {{'b', 1}, {'e', 4}, {'f', 5}}), nullptr));
}

TEST_P(SchedulerTest, DecodesDoNotWaitForAPrefillToEnd) {
  Start({.page_tokens = 4, .max_batch_tokens = 16});
  Mirror decoder = Create();
  Append(decoder, {'a'}).Token();
  Block();
  Mirror prefiller = Create();
  const Outcome prefill = Append(prefiller, Tokens(1000, 'x'));
  const Outcome decode = Append(decoder, {'b'});
  gate_->Open();
  EXPECT_EQ(decode.Token(), Greedy(decoder));
  EXPECT_EQ(prefill.Token(), Greedy(prefiller));
  // In the first chunk's batch. An asynchronous device may still have had the blocker, for which
  // another token's room was kept.
  const Tokens batch = gate_->batches().at(2);
  const bool late = GetParam() == testing::Device::kAsynchronous && batch[0] == 14;
  EXPECT_EQ(batch, (Tokens{late ? 14U : 15U, 1}));
}

TEST_P(SchedulerTest, ForksShareTheirPastAndGoTheirOwnWays) {
  Start({.page_tokens = 4});
  Mirror parent = Create();
  Append(parent, Tokens(10, 'p')).Token();
  ASSERT_TRUE(Idle());
  EXPECT_EQ(pages_used(), 3U);
  std::vector<Mirror> children;
  for (int i = 0; i < 5; ++i) children.push_back(Fork(parent));
  ASSERT_TRUE(Idle());
  EXPECT_EQ(pages_used(), 3U);
  std::vector<Outcome> outcomes;
  for (uint32_t i = 0; i < 5; ++i) outcomes.push_back(Append(children[i], {'a' + i}));
  for (size_t i = 0; i < 5; ++i) EXPECT_EQ(outcomes[i].Token(), Greedy(children[i]));
  ExpectAppend(parent, {'q'});
  ASSERT_TRUE(Idle());
  EXPECT_EQ(pages_used(), 2U + 6U);
  for (const Mirror& child : children) scheduler_->Drop(child.id);
  ASSERT_TRUE(Idle());
  EXPECT_EQ(pages_used(), 3U);
  EXPECT_EQ(scheduler_->stats().sequences, 1U);
}

TEST_P(SchedulerTest, AForkSeesThePassesQueuedBeforeItAndNoLaterOnes) {
  Start({.page_tokens = 4});
  Block();
  Mirror parent = Create();
  Append(parent, {'a', 'b', 'c'});
  Mirror child = Fork(parent);
  Append(parent, {'d'});
  const Outcome of_child = Append(child, {'x'});
  Mirror grandchild = Fork(child);
  const Outcome of_grandchild = Append(grandchild, {'y'});
  const Outcome of_parent = Append(parent, {'e'});
  gate_->Open();
  EXPECT_EQ(of_child.Token(), Greedy(child));
  EXPECT_EQ(of_grandchild.Token(), Greedy(grandchild));
  EXPECT_EQ(of_parent.Token(), Greedy(parent));
}

TEST_P(SchedulerTest, TruncationWaitsForItsTurn) {
  Start({.page_tokens = 4});
  Mirror mirror = Create();
  std::vector<Outcome> outcomes;
  std::vector<uint32_t> expected;
  for (uint32_t i = 0; i < 20; ++i) {
    outcomes.push_back(Append(mirror, Tokens(9, 'a' + i)));
    expected.push_back(Greedy(mirror));
    Truncate(mirror, 5 + i % 3);
  }
  for (size_t i = 0; i < outcomes.size(); ++i) EXPECT_EQ(outcomes[i].Token(), expected[i]);
  scheduler_->Truncate(mirror.id, 1000);  // longer than it is: nothing
  ExpectAppend(mirror, {'z'});
  Truncate(mirror, 0);
  ASSERT_TRUE(Idle());
  EXPECT_EQ(pages_used(), 0U);
}

TEST_P(SchedulerTest, LongChainsOfForksUnrollWithoutRecursion) {
  Start({.page_tokens = 4, .total_pages = 10}, {.page_wait_ms = 60'000, .check_integrity = false});
  Mirror holder = Create();
  Append(holder, Tokens(40, 'h')).Token();
  Mirror root = Create();
  Append(root, {'r'});  // waits for a page, and all passes below wait for it
  std::vector<SequenceId> chain = {root.id};
  for (int i = 0; i < 50'000; ++i) chain.push_back(scheduler_->Fork(chain.back()));
  Mirror last{chain.back(), root.slots};
  const Outcome outcome = Append(last, {'x'});
  // Only the last sequence is still wanted, but it needs all of its ancestors.
  for (size_t i = 0; i + 1 < chain.size(); ++i) scheduler_->Drop(chain[i]);
  scheduler_->Drop(holder.id);
  EXPECT_EQ(outcome.Token(), Greedy(last));
  ASSERT_TRUE(Idle());
  EXPECT_EQ(scheduler_->stats().sequences, 1U);
  EXPECT_EQ(pages_used(), 1U);
}

TEST_P(SchedulerTest, QueuedPassesOfADroppedSequenceVanish) {
  Start({});
  Block();
  Mirror mirror = Create();
  const Outcome first = Append(mirror, {'a'});
  const Outcome second = Append(mirror, {'b'});
  scheduler_->Drop(mirror.id);
  const Outcome third = Append(mirror, {'c'});
  gate_->Open();
  EXPECT_TRUE(first.Vanished());
  EXPECT_TRUE(second.Vanished());
  EXPECT_TRUE(third.Vanished());
  ASSERT_TRUE(Idle());
  EXPECT_EQ(scheduler_->stats().sequences, 1U);
}

TEST_P(SchedulerTest, ASequenceDroppedInFlightKeepsItsPagesUntilThePassIsOver) {
  Start({.page_tokens = 4});
  Mirror mirror = Create();
  gate_->Hold();
  const Outcome flying = Append(mirror, Tokens(9, 'a'));
  ASSERT_TRUE(gate_->WaitBusy());
  const Outcome queued = Append(mirror, {'b'});
  scheduler_->Drop(mirror.id);
  EXPECT_FALSE(scheduler_->WaitIdle(20));
  gate_->Open();
  EXPECT_EQ(
      flying.Token(),
      *Argmax(DummyLogits(device_, {mirror.slots.begin(), mirror.slots.begin() + 9}), nullptr));
  EXPECT_TRUE(queued.Vanished());
  ASSERT_TRUE(Idle());
  EXPECT_EQ(pages_used(), 0U);
  EXPECT_EQ(scheduler_->stats().sequences, 0U);
}

TEST_P(SchedulerTest, AHalfPrefilledSequenceCanBeDropped) {
  Start({.page_tokens = 4, .max_batch_tokens = 8});
  Mirror mirror = Create();
  gate_->Hold();
  const Outcome outcome = Append(mirror, Tokens(100, 'a'));
  ASSERT_TRUE(gate_->WaitBusy());
  scheduler_->Drop(mirror.id);
  gate_->Open();
  EXPECT_TRUE(outcome.Vanished());
  ASSERT_TRUE(Idle());
  EXPECT_EQ(pages_used(), 0U);
}

TEST_P(SchedulerTest, AForkGetsWhatItWasPromisedThoughItsParentIsGone) {
  Start({.page_tokens = 4});
  Block();
  Mirror parent = Create();
  const Outcome promised = Append(parent, {'a', 'b', 'c', 'd', 'e'});
  Mirror child = Fork(parent);
  const Outcome unwanted = Append(parent, {'f'});
  const Outcome of_child = Append(child, {'x'});
  scheduler_->Drop(parent.id);
  gate_->Open();
  EXPECT_EQ(of_child.Token(), Greedy(child));
  EXPECT_TRUE(promised.Vanished());  // it ran, but no callback is called
  EXPECT_TRUE(unwanted.Vanished());
  scheduler_->Drop(child.id);
  ASSERT_TRUE(Idle());
  EXPECT_EQ(scheduler_->stats().sequences, 1U);
}

TEST_P(SchedulerTest, AForkThatIsDroppedBeforeItStartsLeavesNothing) {
  Start({.page_tokens = 4});
  Block();
  Mirror parent = Create();
  Append(parent, {'a'});
  Mirror child = Fork(parent);
  const Outcome of_child = Append(child, {'x'});
  scheduler_->Drop(child.id);
  gate_->Open();
  EXPECT_TRUE(of_child.Vanished());
  ExpectAppend(parent, {'b'});
  ASSERT_TRUE(Idle());
  EXPECT_EQ(scheduler_->stats().sequences, 2U);
}

TEST_P(SchedulerTest, ForkingWhatIsGoneFails) {
  Start({});
  const SequenceId gone = scheduler_->Create();
  scheduler_->Drop(gone);
  Mirror child{scheduler_->Fork(gone), {}};
  EXPECT_EQ(Append(child, {'a'}).Failure().code, Code::kNotFound);
  scheduler_->Drop(gone);  // harmless
  scheduler_->Truncate(gone, 0);
}

TEST_P(SchedulerTest, AFailedBatchBreaksItsMembersAndNobodyElse) {
  Start({.page_tokens = 4, .fail_every = 2});
  Mirror bystander = Create();
  ExpectAppend(bystander, Tokens(9, 'a'));  // batch 1
  Mirror victim = Create();
  const Error error = Append(victim, Tokens(9, 'a')).Failure();  // batch 2
  EXPECT_EQ(error.code, Code::kInternal);
  EXPECT_EQ(error.text, "the dummy device failed batch 2, as it was told to");
  ASSERT_TRUE(Idle());
  EXPECT_EQ(pages_used(), 3U);  // a broken sequence holds none
  Mirror child = Fork(victim);
  EXPECT_EQ(Append(victim, {'b'}).Failure().text, error.text);
  EXPECT_EQ(Append(child, {'b'}).Failure().text, error.text);
  scheduler_->Truncate(victim.id, 0);
  EXPECT_EQ(Append(victim, {'b'}).Failure().text, error.text);
  ExpectAppend(bystander, {'b'});  // batch 3
}

TEST_P(SchedulerTest, QueuedPassesBehindAFailureFailInTheirTurn) {
  Start({.fail_every = 2});
  Mirror mirror = Create();
  Block();  // batch 1
  const Outcome first = Append(mirror, {'a'});
  const Outcome second = Append(mirror, {'b'});
  Mirror child = Fork(mirror);
  const Outcome of_child = Append(child, {'c'});
  gate_->Open();
  EXPECT_EQ(first.Failure().code, Code::kInternal);
  EXPECT_EQ(second.Failure().text, first.Failure().text);
  EXPECT_EQ(of_child.Failure().text, first.Failure().text);
}

TEST_P(SchedulerTest, APassThatWaitedTooLongFails) {
  // One member a batch of 30 ms: the last of them would wait for seconds. More of them expire than
  // are ended at once.
  Start({.page_tokens = 4, .latency_us = 30'000},
        {.max_batch_members = 1, .request_timeout_ms = 1, .check_integrity = true});
  Block();  // until all have asked
  std::vector<Mirror> mirrors;
  std::vector<Outcome> outcomes;
  for (uint32_t i = 0; i < 150; ++i) {
    mirrors.push_back(Create());
    outcomes.push_back(Append(mirrors.back(), {'a' + i}));
  }
  gate_->Open();
  EXPECT_EQ(outcomes.front().Token(), Greedy(mirrors.front()));
  EXPECT_NE(outcomes.back().Failure().text.find("has waited"), std::string::npos);
  ASSERT_TRUE(Idle());
  Mirror later = Create();  // no pass waits before it
  EXPECT_EQ(Append(later, {'z'}).Token(), Greedy(later));
}

TEST_P(SchedulerTest, CallbacksMayAskForMore) {
  Start({.page_tokens = 4});
  Mirror mirror = Create();
  constexpr int kSteps = 200;
  std::vector<uint32_t> tokens;
  std::function<void(uint32_t)> step = [&](uint32_t token) {
    Forward forward = mirror.Append({token});
    forward.done = [&](Result<std::vector<Slot>> slots) {
      tokens.push_back(std::get<TokenSlot>(slots.value().at(0)).token);
      if (tokens.size() < kSteps) step(tokens.back());
    };
    scheduler_->Execute(std::move(forward));
  };
  step('s');
  while (scheduler_->stats().tokens < kSteps) std::this_thread::sleep_for(1ms);
  ASSERT_TRUE(Idle());
  ASSERT_EQ(tokens.size(), static_cast<size_t>(kSteps));
  EXPECT_EQ(tokens.back(), Greedy(mirror));
}

TEST_P(SchedulerTest, OneSequenceCannotQueueForEver) {
  Start({});
  Block();
  Mirror mirror = Create();
  std::vector<Outcome> outcomes;
  for (uint32_t i = 0; i < limits::kOperationsPerSequence + 10; ++i) {
    outcomes.push_back(Append(mirror, {'a'}));
  }
  Mirror child = Fork(mirror);
  const Outcome of_child = Append(child, {'a'});
  gate_->Open();
  EXPECT_EQ(outcomes.back().Failure().code, Code::kExhausted);
  EXPECT_EQ(of_child.Failure().code, Code::kExhausted);
  for (uint32_t i = 0; i < limits::kOperationsPerSequence; ++i) outcomes[i].Token();  // let in
  ASSERT_TRUE(Idle());
  EXPECT_EQ(Append(mirror, {'a'}).Failure().code, Code::kExhausted);
}

TEST_P(SchedulerTest, BidsOnAnIdleEngineBlockNobody) {
  Start({});
  Mirror mirror = Create();
  ASSERT_TRUE(Idle());
  std::this_thread::sleep_for(10ms);  // the step thread sleeps
  std::atomic<bool> bid = false;
  std::thread bidder([&] {
    for (size_t i = 0; i < limits::kQueuedCommands + 100; ++i) {
      scheduler_->Bid(mirror.id, {.fixed = i});
    }
    bid = true;
  });
  for (int i = 0; i < 1000 && !bid; ++i) std::this_thread::sleep_for(10ms);
  ASSERT_TRUE(bid) << "a bid waits for a step thread that no thread wakes";
  bidder.join();
  ExpectAppend(mirror, {'a'});
}

TEST_P(SchedulerTest, TheBooksAreCheckedWhileThereIsNothingToDo) {
  Start({});
  Mirror mirror = Create();
  ExpectAppend(mirror, {'a'});
  for (int i = 0; i < 1000 && scheduler_->stats().integrity_checks == 0; ++i) {
    std::this_thread::sleep_for(10ms);
  }
  EXPECT_GT(scheduler_->stats().integrity_checks, 0U);
  EXPECT_EQ(scheduler_->stats().integrity_failures, 0U);
}

TEST_P(SchedulerTest, DestructionDropsWhatIsQueued) {
  Start({});
  Mirror flying = Create();
  Mirror waiting = Create();
  gate_->Hold();
  const Outcome first = Append(flying, {'a'});
  ASSERT_TRUE(gate_->WaitBusy());
  const Outcome second = Append(waiting, {'b'});
  std::thread opener([&] {
    std::this_thread::sleep_for(20ms);
    gate_->Open();
  });
  scheduler_.reset();
  opener.join();
  EXPECT_EQ(first.Token(), Greedy(flying));  // the batch under way ends
  EXPECT_TRUE(second.Vanished());
}

TEST_P(SchedulerTest, SampledTokensDoNotDependOnTheCompany) {
  const auto sample = [&](uint32_t max_batch_tokens, int company) {
    Start({.page_tokens = 4, .max_batch_tokens = max_batch_tokens});
    Block();
    std::vector<Mirror> others(static_cast<size_t>(company));
    for (Mirror& other : others) {
      other = Create();
      Append(other, {'x', 'y'});
    }
    Mirror mirror = Create();
    Forward forward = mirror.Append(Tokens(20, 'm'));
    forward.samples[0] = {
        .kind = Kind::kTopP, .temperature = 1, .p = 0.95F, .rows = {3, 9, 15, 19}};
    forward.seed = 1234;
    const Outcome outcome = Run(std::move(forward));
    gate_->Open();
    Tokens tokens;
    for (size_t i = 0; i < 4; ++i) tokens.push_back(outcome.Token(i));
    return tokens;
  };
  const Tokens alone = sample(1000, 0);
  EXPECT_EQ(alone, sample(1000, 30));
  EXPECT_EQ(alone, sample(3, 0));
  EXPECT_EQ(alone, sample(7, 10));
}

TEST_P(SchedulerTest, CountsWhatItDoes) {
  Start({.page_tokens = 4, .total_pages = 50});
  Mirror mirror = Create();
  Append(mirror, Tokens(9, 'a')).Token();
  ASSERT_TRUE(Idle());
  const SchedulerStats stats = scheduler_->stats();
  EXPECT_EQ(stats.sequences, 1U);
  EXPECT_EQ(stats.pages_used, 3U);
  EXPECT_EQ(stats.pages_total, 50U);
  EXPECT_EQ(stats.queued, 0U);
  EXPECT_EQ(stats.steps, 1U);
  EXPECT_EQ(stats.tokens, 9U);
  EXPECT_GT(stats.last_step_seconds, 0);
  EXPECT_EQ(scheduler_->info().page_tokens, 4U);
}

TEST_P(SchedulerTest, IdleMeansEverythingAskedForSoFar) {
  Start({});
  Mirror mirror = Create();
  gate_->Hold();
  const Outcome outcome = Append(mirror, {'a'});
  EXPECT_FALSE(scheduler_->WaitIdle(10));
  gate_->Open();
  EXPECT_TRUE(Idle());
  EXPECT_TRUE(outcome.ended());
}

PIE_ON_BOTH_DEVICES(SchedulerTest);

}  // namespace
}  // namespace pie
