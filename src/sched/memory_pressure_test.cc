// Sequences that do not fit into the device's memory, together or alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "sched/scheduler.h"
#include "sched/testing.h"

namespace pie {
namespace {

using testing::Mirror;
using testing::Outcome;
using Tokens = std::vector<uint32_t>;

class MemoryPressureTest : public testing::SchedulerFixture {};

TEST_P(MemoryPressureTest, WhatCanNeverFitFailsAtOnce) {
  Start({.page_tokens = 4, .total_pages = 10, .max_positions = 1000},
        {.page_wait_ms = 60'000, .check_integrity = true});
  Mirror mirror = Create();
  const Error error = Append(mirror, Tokens(41, 'a')).Failure();
  EXPECT_EQ(error.code, Code::kExhausted);
  EXPECT_EQ(error.text,
            "the sequence would have 41 tokens; the KV memory holds 40 (10 pages of 4 tokens)");
  Mirror fits = Create();
  ExpectAppend(fits, Tokens(40, 'a'));
  EXPECT_EQ(Append(fits, {'b'}).Failure().code, Code::kExhausted);
}

TEST_P(MemoryPressureTest, SequencesEndWithTheModelsPositions) {
  Start({.max_positions = 20});
  Mirror mirror = Create();
  Append(mirror, Tokens(15, 'a')).Token();
  Forward forward = mirror.Append(Tokens(6, 'b'));
  forward.positions = {0, 1, 2, 3, 4, 5};  // positions that would do
  EXPECT_EQ(Run(std::move(forward)).Failure().text,
            "the sequence would have 21 tokens; this model takes at most 20");
}

TEST_P(MemoryPressureTest, AnIdleSequenceLosesItsPagesFirst) {
  Start({.page_tokens = 4, .total_pages = 10});
  Mirror holder = Create();
  Append(holder, Tokens(38, 'a')).Token();
  Mirror other = Create();
  ExpectAppend(other, Tokens(40, 'b'));
  ExpectAppend(holder, {'c'});  // the failure takes the rows back
  ASSERT_TRUE(Idle());
  EXPECT_EQ(pages_used(), 10U);
  EXPECT_EQ(scheduler_->stats().suspensions, 2U);
}

TEST_P(MemoryPressureTest, SequencesThatDoNotFitTogetherAllFinish) {
  Start({.page_tokens = 4, .total_pages = 12});
  std::vector<Mirror> mirrors;
  for (int i = 0; i < 6; ++i) mirrors.push_back(Create());
  std::vector<Tokens> given(6, Tokens{'x'});
  for (int step = 0; step < 30; ++step) {  // up to 31 tokens each: 48 pages where there are 12
    std::vector<Outcome> outcomes;
    for (size_t i = 0; i < 6; ++i) outcomes.push_back(Append(mirrors[i], {given[i].back()}));
    for (size_t i = 0; i < 6; ++i) {
      given[i].push_back(outcomes[i].Token());
      ASSERT_EQ(given[i].back(), Greedy(mirrors[i])) << "sequence " << i << ", step " << step;
    }
  }
  EXPECT_GT(scheduler_->stats().suspensions, 0U);
}

// Each of them needs a new page for each of its steps, and there are pages for some of them only.
TEST_P(MemoryPressureTest, ThousandsOfSequencesThatCompeteAreLookedAtAFewTimesABatch) {
  constexpr uint32_t kSequences = 2'000;
  Start({.page_tokens = 1, .total_pages = kSequences, .max_batch_members = 256}, {});
  std::vector<Mirror> mirrors;
  std::vector<Outcome> outcomes;
  for (uint32_t i = 0; i < kSequences; ++i) {
    Mirror& mirror = mirrors.emplace_back(Create());
    Forward forward = mirror.Append({i % 200 + 1, i / 200 + 1});
    forward.chain = std::make_unique<Chain>();
    forward.chain->max_tokens = 4;
    forward.chain->give = [](uint32_t, std::optional<Chain::End>) {};
    outcomes.push_back(Run(std::move(forward)));
  }
  for (const Outcome& outcome : outcomes) ASSERT_TRUE(outcome.Get());
  const SchedulerStats stats = scheduler_->stats();
  EXPECT_GT(stats.suspensions, 0U);
  // A few times, and not once for each sequence that gets pages.
  EXPECT_LT(stats.looks / stats.steps, 16 * kSequences);
}

// No lane is overdue here, and the user of the long sequences bids more than all other users.
TEST_P(MemoryPressureTest, AUserWithinTheirShareNeedNotWaitForOneWhoIsNot) {
  SchedulerOptions options{.check_integrity = true};
  options.memory.overdue_ms = 60'000;
  Start({.page_tokens = 4, .total_pages = 64, .latency_us = 3'000}, options);
  const auto open = [&](uint64_t user) {
    auto view = std::make_shared<AccountView>();
    view->user = user;
    return scheduler_->OpenAccount(std::move(view));
  };
  const AccountId large = open(1);
  const AccountId small = open(2);
  std::vector<Mirror> greedy;
  std::vector<Outcome> ends;
  for (uint32_t i = 0; i < 4; ++i) {  // each grows to 60 pages
    Mirror& mirror = greedy.emplace_back(Mirror{scheduler_->Create({}, large), {}});
    scheduler_->Bid(mirror.id, {.fixed = 1'000});
    Forward forward = mirror.Append(Tokens(4, 'a' + i));
    forward.chain = std::make_unique<Chain>();
    forward.chain->max_tokens = 236;
    forward.chain->give = [](uint32_t, std::optional<Chain::End>) {};
    ends.push_back(Run(std::move(forward)));
  }
  for (int i = 0; i < 10'000 && pages_used() < 56; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  Mirror modest{scheduler_->Create({}, small), {}};
  ExpectAppend(modest, Tokens(16, 'x'));
  ExpectAppend(modest, Tokens(16, 'y'));
  for (const Outcome& end : ends) EXPECT_FALSE(end.ended()) << "it waited for a long sequence";
  for (const Mirror& mirror : greedy) scheduler_->Drop(mirror.id);
  scheduler_->Drop(modest.id);
  EXPECT_TRUE(Idle());
}

TEST_P(MemoryPressureTest, SuspendGivesPagesBackAndTheNextPassBringsThem) {
  for (const bool share : {true, false}) {
    Start({.page_tokens = 4}, {.prefix = {.share = share}, .check_integrity = true});
    Mirror mirror = Create();
    Append(mirror, Tokens(30, 'a')).Token();
    scheduler_->Suspend(mirror.id);
    ASSERT_TRUE(Idle());
    EXPECT_EQ(pages_used(), 0U);
    Mirror fork = Fork(mirror);
    Truncate(fork, 9);
    ExpectAppend(mirror, {'b'});
    ExpectAppend(fork, {'c'});
    ASSERT_TRUE(Idle());
    // Whole pages were still in memory; the other rows are computed again.
    EXPECT_EQ(scheduler_->stats().replayed_tokens, share ? 2U + 1U : 30U + 9U);
    scheduler_->Suspend(fork.id);
    scheduler_->Suspend(fork.id);
    scheduler_->Drop(fork.id);
    scheduler_->Suspend(mirror.id);
    scheduler_->Drop(mirror.id);
    ASSERT_TRUE(Idle());
    EXPECT_EQ(pages_used(), 0U);
  }
}

TEST_P(MemoryPressureTest, MasksAreReplayedToo) {
  Start({.page_tokens = 4}, {.prefix = {.share = false}, .check_integrity = true});
  Mirror mirror = Create();
  Forward forward = mirror.Append({'a', 'b', 'c', 'd', 'e', 'f'});
  forward.attention.assign(6, {0, 100});
  forward.attention[5] = {1, 1, 2, 9};
  Run(std::move(forward)).Token();
  scheduler_->Suspend(mirror.id);
  ExpectAppend(mirror, {'g'});
}

// Copying, hashing and applying large masks takes long, so others run meanwhile.
TEST_P(MemoryPressureTest, LargeMasksAreReplayedInSlices) {
  constexpr uint32_t kRows = 1'500;
  Start({.page_tokens = 4, .total_pages = 4'000, .max_batch_tokens = 8'192},
        {.prefix = {.share = false}});
  std::vector<Mirror> mirrors;
  for (uint32_t i = 0; i < 4; ++i) {
    Mirror& mirror = mirrors.emplace_back(Create());
    Forward forward = mirror.Append(Tokens(kRows, 'a' + i));
    for (uint32_t row = 0; row < kRows; ++row) forward.attention.emplace_back(row + 1, 1);
    ASSERT_TRUE(*Run(std::move(forward)).Get());
    scheduler_->Suspend(mirror.id);
  }
  ASSERT_TRUE(Idle());
  EXPECT_EQ(pages_used(), 0U);
  const size_t before = gate_->batches().size();
  const Mirror blocker = Block();
  std::vector<Outcome> outcomes;
  for (Mirror& mirror : mirrors) outcomes.push_back(Append(mirror, {'z'}));
  Mirror other = Create();
  Outcome small = Append(other, {'x'});
  gate_->Open();
  EXPECT_EQ(small.Token(), Greedy(other));
  for (size_t i = 0; i < mirrors.size(); ++i) EXPECT_EQ(outcomes[i].Token(), Greedy(mirrors[i]));
  EXPECT_EQ(scheduler_->stats().replayed_tokens, 4 * kRows);
  const auto batches = gate_->batches();
  uint32_t largest = 0;
  for (size_t i = before; i < batches.size(); ++i) {
    for (const uint32_t rows : batches[i]) largest = std::max(largest, rows);
  }
  // The masks of the first 723 rows fill a slice of 1 MiB.
  EXPECT_LT(largest, 730U);
  EXPECT_GE(batches.size() - before, 6U);
}

TEST_P(MemoryPressureTest, ForcedSuspensionChangesNoToken) {
  for (const bool swap : {false, true}) {
    SchedulerOptions options{.check_integrity = true, .suspend_every_steps = 1};
    options.prefix.share = false;
    options.memory.swap_pages = swap ? 1000 : 0;
    options.memory.swap_always = swap;
    Start({.seed = 4, .page_tokens = 4, .max_batch_tokens = 8}, options);
    std::vector<Mirror> mirrors;
    for (int i = 0; i < 3; ++i) mirrors.push_back(Create());
    for (uint32_t step = 0; step < 20; ++step) {
      std::vector<Outcome> outcomes;
      for (Mirror& mirror : mirrors) outcomes.push_back(Append(mirror, Tokens(3, 'a' + step)));
      for (size_t i = 0; i < 3; ++i) ASSERT_EQ(outcomes[i].Token(), Greedy(mirrors[i]));
    }
    ASSERT_TRUE(Idle());
    const SchedulerStats stats = scheduler_->stats();
    EXPECT_GT(stats.suspensions, 20U);
    EXPECT_EQ(stats.pages_swapped > 0, swap);
    EXPECT_EQ(stats.replayed_tokens > 0, !swap);
  }
}

PIE_ON_BOTH_DEVICES(MemoryPressureTest);

}  // namespace
}  // namespace pie
