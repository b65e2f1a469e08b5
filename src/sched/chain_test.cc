#include "sched/chain.h"

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>

#include "sched/pass.h"
#include "sched/testing.h"

namespace pie {
namespace {

using testing::Mirror;
using testing::Outcome;
using Tokens = std::vector<uint32_t>;

// The tokens that a chain gave, and how it ended.
class Given {
 public:
  auto Callback() {
    return [state = state_](uint32_t token, std::optional<Chain::End> end) {
      const std::lock_guard lock(state->mutex);
      EXPECT_FALSE(state->end) << "a token after the end";
      state->tokens.push_back(token);
      state->end = end;
    };
  }
  Tokens tokens() const {
    const std::lock_guard lock(state_->mutex);
    return state_->tokens;
  }
  std::optional<Chain::End> end() const {
    const std::lock_guard lock(state_->mutex);
    return state_->end;
  }

 private:
  struct State {
    std::mutex mutex;
    Tokens tokens;
    std::optional<Chain::End> end;
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

struct Running {
  Outcome outcome;
  Given given;
};

class AllowsNothingAfterOneToken final : public TokenRules, public TokenMasks {
 public:
  Result<bool> Accept(uint32_t) override {
    bits_.assign(bits_.size(), 0);
    return false;
  }
  Tokens Forced(uint32_t) override { return {}; }
  void Prepare(Tokens&) override {}
  TokenMasks& masks() override { return *this; }
  Result<std::span<const uint32_t>> Bits(uint32_t) override { return bits_; }

 private:
  Tokens bits_ = Tokens(100, UINT32_MAX);
};

class ChainTest : public testing::SchedulerFixture {
 protected:
  Forward Chained(Mirror& mirror, const Tokens& tokens, uint32_t max_tokens, const Given& given) {
    Forward forward = mirror.Append(tokens);
    forward.chain = std::make_unique<Chain>();
    forward.chain->max_tokens = max_tokens;
    forward.chain->give = Given(given).Callback();
    return forward;
  }
  Running RunChain(Mirror& mirror, const Tokens& tokens, uint32_t max_tokens) {
    Running running;
    running.outcome = Run(Chained(mirror, tokens, max_tokens, running.given));
    return running;
  }
  // The expected content of the sequence after a chain: every token but the last was fed.
  static void Feed(Mirror& mirror, const Tokens& tokens, size_t count) {
    for (size_t i = 0; i < count; ++i) mirror.Append({tokens[i]});
  }
  // The oracle: greedy tokens one after the other, from the dummy model's definition.
  Tokens Greedy(Mirror mirror, size_t count) const {
    Tokens tokens;
    for (size_t i = 0; i < count; ++i) {
      tokens.push_back(mirror.Greedy(device_));
      mirror.Append({tokens.back()});
    }
    return tokens;
  }
  void PreemptOneChain(bool share, uint32_t swap_pages, const BidPlan& poor_bids = {.fixed = 1});
  void ExpectWhole(Mirror& mirror) {
    const uint32_t token = Run(mirror.Append({'!'})).Token();
    EXPECT_EQ(token, mirror.Greedy(device_));
  }
};

TEST_P(ChainTest, GivesTheTokensOfPassesOneByOne) {
  Start({.seed = 3, .page_tokens = 4});
  Mirror mirror = Create();
  const Running chain = RunChain(mirror, {'h', 'e', 'l', 'l', 'o'}, 30);
  EXPECT_EQ(chain.outcome.Token(), Greedy(mirror, 30).back());
  EXPECT_EQ(chain.given.tokens(), Greedy(mirror, 30));
  EXPECT_EQ(chain.given.end(), Chain::End::kLimit);
  EXPECT_EQ(gate_->batches().size(), 30u);  // one pass each, and no further one
  Feed(mirror, chain.given.tokens(), 29);
  ExpectWhole(mirror);
}

TEST_P(ChainTest, DrawsAsPassesWithTheSameSeeds) {
  Start({.seed = 3, .page_tokens = 4});
  const auto drawing = [](Forward forward, uint64_t seed) {
    forward.samples[0].kind = SampleSpec::Kind::kMultinomial;
    forward.samples[0].temperature = 1.5F;
    forward.seed = seed;
    return forward;
  };
  Mirror stepped = Create();
  Tokens expected = {Run(drawing(stepped.Append({'a', 'b'}), 100)).Token()};
  for (uint64_t i = 1; i < 20; ++i) {
    expected.push_back(Run(drawing(stepped.Append({expected.back()}), 100 + i)).Token());
  }
  Mirror mirror = Create();
  Running chain;
  Forward forward = drawing(Chained(mirror, {'a', 'b'}, 20, chain.given), 100);
  forward.chain->seed = [](uint32_t step) { return uint64_t{100} + step; };
  Run(std::move(forward)).Get();
  EXPECT_EQ(chain.given.tokens(), expected);
}

TEST_P(ChainTest, EndsWithAStopToken) {
  Start({.seed = 3, .page_tokens = 4});
  Mirror mirror = Create();
  Mirror prompt = mirror;
  prompt.Append({'x', 'y', 'z'});
  const Tokens greedy = Greedy(prompt, 40);
  const uint32_t stop = greedy[12];
  const auto first = static_cast<size_t>(std::ranges::find(greedy, stop) - greedy.begin());

  Running chain;
  Forward forward = Chained(mirror, {'x', 'y', 'z'}, 40, chain.given);
  forward.chain->stops = {stop};
  EXPECT_EQ(Run(std::move(forward)).Token(), stop);
  EXPECT_EQ(chain.given.tokens(), Tokens(greedy.begin(), greedy.begin() + first + 1));
  EXPECT_EQ(chain.given.end(), Chain::End::kStop);
  Feed(mirror, greedy, first);  // the stop token itself is not fed
  ExpectWhole(mirror);
}

TEST_P(ChainTest, TruncationEndsItAndTakesBackWhatItDid) {
  Start({.seed = 5, .page_tokens = 4});
  Mirror mirror = Create();
  gate_->Hold();
  const Running chain = RunChain(mirror, {'a', 'b', 'c'}, 1'000'000);
  ASSERT_TRUE(gate_->WaitBusy());
  scheduler_->Truncate(mirror.id, 2);
  gate_->Open();
  EXPECT_TRUE(chain.outcome.Get()->has_value());
  EXPECT_EQ(chain.given.tokens(), Greedy(mirror, 1));
  EXPECT_EQ(chain.given.end(), std::nullopt);
  mirror.slots.resize(2);
  ExpectWhole(mirror);
}

TEST_P(ChainTest, AnythingBehindItEndsIt) {
  Start({.seed = 5, .page_tokens = 4, .total_pages = 4096});
  Mirror mirror = Create();
  const Running chain = RunChain(mirror, {'a', 'b', 'c'}, 1'000'000);
  while (chain.given.tokens().size() < 8) std::this_thread::yield();
  Mirror fork{scheduler_->Fork(mirror.id), {}};
  ASSERT_TRUE(chain.outcome.Get()->has_value());
  const Tokens tokens = chain.given.tokens();
  EXPECT_EQ(tokens, Greedy(mirror, tokens.size()));
  // A chain that ended between two passes has not fed its last token.
  Feed(mirror, tokens, tokens.size() - 1);
  fork.slots = mirror.slots;
  ExpectWhole(fork);
  ExpectWhole(mirror);
}

TEST_P(ChainTest, ChainsShareTheirBatches) {
  Start({.seed = 5, .page_tokens = 4});
  Mirror blocker = Create();
  gate_->Hold();
  Run(blocker.Append({'#'}));
  ASSERT_TRUE(gate_->WaitBusy());
  Mirror mirrors[3] = {Create(), Create(), Create()};
  std::vector<Running> chains;
  for (Mirror& mirror : mirrors) chains.push_back(RunChain(mirror, {'p'}, 10));
  gate_->Open();
  for (size_t i = 0; i < 3; ++i) {
    chains[i].outcome.Get();
    EXPECT_EQ(chains[i].given.tokens(), Greedy(mirrors[i], 10));
  }
  const auto batches = gate_->batches();
  ASSERT_EQ(batches.size(), 11u);
  for (size_t i = 1; i < batches.size(); ++i) EXPECT_EQ(batches[i], Tokens({1, 1, 1}));
}

// Two chains grow until memory is full. The one that bids less loses its pages between two of its
// passes, waits for the other to end, and goes on as if nothing had happened.
void ChainTest::PreemptOneChain(bool share, uint32_t swap_pages, const BidPlan& poor_bids) {
  SchedulerOptions options{.check_integrity = true};
  options.prefix.share = share;
  options.memory.swap_pages = swap_pages;
  Start({.seed = 5, .page_tokens = 4, .total_pages = 10}, options);
  Mirror blocker = Create();
  gate_->Hold();
  Run(blocker.Append({'#'}));
  ASSERT_TRUE(gate_->WaitBusy());
  Mirror poor = Create();
  Mirror rich = Create();
  scheduler_->Bid(poor.id, poor_bids);
  scheduler_->Bid(rich.id, {.fixed = 5});
  const Running low = RunChain(poor, {'p', 'o', 'o', 'r'}, 30);  // 9 pages at its end
  Running high;
  Forward forward = Chained(rich, {'r', 'i', 'c', 'h'}, 24, high.given);  // 7 pages
  std::atomic<size_t> given_then = 0;
  forward.done = [&, done = high.outcome.Callback()](auto result) mutable {
    given_then = low.given.tokens().size();
    scheduler_->Drop(rich.id);
    done(std::move(result));
  };
  scheduler_->Execute(std::move(forward));
  scheduler_->Drop(blocker.id);
  gate_->Open();

  low.outcome.Get();
  EXPECT_EQ(low.given.tokens(), Greedy(poor, 30));
  EXPECT_EQ(high.given.tokens(), Greedy(rich, 24));
  EXPECT_GT(given_then, 1U);   // it had run at least one pass
  EXPECT_LT(given_then, 23U);  // and ran no pass while the other chain ran
  Feed(poor, low.given.tokens(), 29);
  ExpectWhole(poor);
  ASSERT_TRUE(scheduler_->WaitIdle(20'000));
  const SchedulerStats stats = scheduler_->stats();
  EXPECT_EQ(stats.suspensions, 1U);
  EXPECT_EQ(stats.pages_swapped > 0, swap_pages > 0);
  EXPECT_EQ(stats.pages_restored, stats.pages_swapped);
  EXPECT_EQ(stats.replayed_tokens > 0, swap_pages == 0);
}

TEST_P(ChainTest, PreemptedIsReplayed) {
  PreemptOneChain(false, 0);
}

TEST_P(ChainTest, PreemptedIsReplayedFromWhatIsStillInMemory) {
  PreemptOneChain(true, 0);
}

TEST_P(ChainTest, AnIdleContextIsPreempted) {
  PreemptOneChain(false, 0, {.idle = true, .fixed = 1000});
}

// The bid of one pass does not apply to the passes after it.
TEST_P(ChainTest, TheFirstPassAloneHasItsBid) {
  Start({});
  Mirror mirror = Create();
  ScheduledPass pass;
  pass.forward = Chained(mirror, {'a'}, 3, {});
  pass.forward.bid = 7;
  std::vector<Slot> slots = {TokenSlot{'b'}};
  const Result<bool> follows = FollowOn(pass, slots, false);
  EXPECT_TRUE(follows && *follows);
  EXPECT_EQ(pass.forward.bid, std::nullopt);
}

TEST_P(ChainTest, PreemptedIsSwapped) {
  PreemptOneChain(false, 100);
}

// A chain runs a pass in every batch and always finds the few pages that it needs. A lane that
// waits too long for more pages than are free gets them nevertheless.
TEST_P(ChainTest, GivesWayToAnOverdueLane) {
  SchedulerOptions options{.check_integrity = true};
  options.memory.overdue_ms = 1;
  Start({.seed = 5, .page_tokens = 4, .total_pages = 200, .latency_us = 50}, options);
  Mirror mirror = Create();
  Mirror late = Create();
  Outcome ended;
  Forward pass = late.Append(Tokens(500, 'l'));  // 125 pages
  Given given;
  size_t given_then = 0;
  pass.done = [&, done = ended.Callback()](auto result) mutable {
    given_then = given.tokens().size();
    scheduler_->Drop(late.id);
    done(std::move(result));
  };
  Forward chain = Chained(mirror, {'c'}, 790, given);
  chain.chain->give = [&, give = given.Callback()](uint32_t token, auto end) mutable {
    give(token, end);
    if (given.tokens().size() == 400) scheduler_->Execute(std::move(pass));  // has 100 pages
  };
  const Outcome outcome = Run(std::move(chain));
  EXPECT_EQ(ended.Token(), late.Greedy(device_));
  outcome.Get();
  EXPECT_LT(given_then, 790U) << "it had to wait for the chain's end";
  EXPECT_EQ(given.tokens(), Greedy(mirror, 790));
}

TEST_P(ChainTest, DroppedSequenceTakesItAlong) {
  Start({.page_tokens = 4, .total_pages = 4096});
  Mirror mirror = Create();
  const Running chain = RunChain(mirror, {'a'}, 1'000'000);
  while (chain.given.tokens().size() < 5) std::this_thread::yield();
  scheduler_->Drop(mirror.id);
  chain.outcome.Get();
  ASSERT_TRUE(scheduler_->WaitIdle(20'000));
  EXPECT_EQ(scheduler_->stats().sequences, 0u);
  EXPECT_EQ(scheduler_->stats().pages_used, 0u);
  EXPECT_EQ(scheduler_->stats().queued, 0u);
}

TEST_P(ChainTest, RefusedPassLeavesTheSequenceWhole) {
  Start({.seed = 9, .page_tokens = 4});
  Mirror mirror = Create();
  Running chain;
  Forward forward = Chained(mirror, {'a'}, 100, chain.given);
  forward.chain->admit = [left = 5](uint32_t) mutable -> Status {
    if (left-- > 0) return {};
    return Fail(Code::kExhausted, "enough");
  };
  EXPECT_EQ(Run(std::move(forward)).Failure().text, "enough");
  EXPECT_EQ(chain.given.tokens(), Greedy(mirror, 6));
  Feed(mirror, chain.given.tokens(), 5);
  ExpectWhole(mirror);
}

TEST_P(ChainTest, ModelsLengthEndsItWithAnError) {
  Start({.seed = 9, .page_tokens = 4, .max_positions = 12});
  Mirror mirror = Create();
  const Running chain = RunChain(mirror, {'a', 'b'}, 100);
  EXPECT_EQ(chain.outcome.Failure().code, Code::kExhausted);
  EXPECT_EQ(chain.given.tokens(), Greedy(mirror, 11));
  ASSERT_TRUE(scheduler_->WaitIdle(20'000));
  EXPECT_EQ(scheduler_->stats().pages_used, 0u);
}

TEST_P(ChainTest, AChainWithoutAnAllowedTokenFailsAloneAndLeavesItsSequenceWhole) {
  Start({});
  Mirror good = Create();
  Mirror bad = Create();
  gate_->Hold();
  const Running of_good = RunChain(good, {'a'}, 4);
  const Given given;
  Forward failing = Chained(bad, {'b'}, 4, given);
  failing.rules = std::make_shared<AllowsNothingAfterOneToken>();
  const Outcome of_bad = Run(std::move(failing));
  gate_->Open();
  EXPECT_EQ(of_bad.Failure().code, Code::kInvalid);
  EXPECT_EQ(given.tokens().size(), 1U);
  ExpectWhole(bad);
  of_good.outcome.Token();
  EXPECT_EQ(of_good.given.tokens(), Greedy(good, 4));
}

TEST_P(ChainTest, WhatCannotBeAChainIsRefused) {
  Start({});
  const BackendInfo& info = scheduler_->info();
  Mirror mirror = Create();
  const auto fault = [&](auto change) {
    Forward forward = Chained(mirror, {'a', 'b'}, 3, {});
    change(forward);
    const Status valid = Validate(forward, info);
    return valid ? "" : valid.error().text;
  };
  EXPECT_EQ(fault([](Forward&) {}), "");
  EXPECT_EQ(fault([](Forward& f) { f.chain->max_tokens = 0; }),
            "a chain without tokens: ask for at least one");
  EXPECT_EQ(fault([](Forward& f) { f.attention = {{0, 1}, {0, 2}}; }),
            "a chain attends causally: an attention mask holds for the rows of one pass");
  const char* kSampler = "a chain needs one sampler that chooses tokens, and no probes";
  EXPECT_EQ(fault([](Forward& f) { f.samples.clear(); }), kSampler);
  EXPECT_EQ(fault([](Forward& f) { f.samples.push_back(f.samples[0]); }), kSampler);
  EXPECT_EQ(fault([](Forward& f) { f.samples[0].kind = SampleSpec::Kind::kEntropy; }), kSampler);
  const char* kRow = "a chain samples the last row of its input, and no other";
  EXPECT_EQ(fault([](Forward& f) { f.samples[0].rows = {0}; }), kRow);
  EXPECT_EQ(fault([](Forward& f) { f.samples[0].rows = {0, 1}; }), kRow);
}

// On an asynchronous device a chain boards a batch before the last one has chosen its token.
TEST_P(ChainTest, GoesAheadOfTheDevice) {
  Start({.seed = 3, .page_tokens = 4, .latency_us = 100});
  Mirror mirror = Create();
  const Running chain = RunChain(mirror, {'h', 'i'}, 50);
  chain.outcome.Get();
  EXPECT_EQ(chain.given.tokens(), Greedy(mirror, 50));
  ASSERT_TRUE(Idle());
  const uint64_t ahead = scheduler_->stats().steps_ahead;
  if (GetParam() == testing::Device::kAsynchronous) {
    EXPECT_EQ(ahead, 48U);  // all but the prompt's pass and the one after it
  } else {
    EXPECT_EQ(ahead, 0U);
  }
}

TEST_P(ChainTest, APassThatWentAheadOfTheEndLeavesNothing) {
  Start({.seed = 3, .page_tokens = 1});  // every token takes a page
  Mirror mirror = Create();
  Mirror prompt = mirror;
  prompt.Append({'x'});
  const Tokens greedy = Greedy(prompt, 40);
  const auto end = static_cast<size_t>(std::ranges::find(greedy, greedy[20]) - greedy.begin());
  Running chain;
  Forward forward = Chained(mirror, {'x'}, 40, chain.given);
  forward.chain->stops = {greedy[20]};
  auto view = std::make_shared<AccountView>();
  const AccountId account = scheduler_->OpenAccount(view);
  scheduler_->Own(mirror.id, account);
  const Credits endowed = view->balance;
  EXPECT_EQ(Run(std::move(forward)).Token(), greedy[20]);
  ASSERT_TRUE(Idle());
  const uint64_t steps = end + 1;
  const bool late = GetParam() == testing::Device::kAsynchronous;
  EXPECT_EQ(gate_->batches().size(), steps + (late ? 1 : 0)) << "the end is noticed a step late";
  EXPECT_EQ(pages_used(), steps);
  EXPECT_EQ(endowed - view->balance, static_cast<Credits>(steps) * kPagePrice)
      << "and not paid for";
  Feed(mirror, greedy, end);
  ExpectWhole(mirror);
}

TEST_P(ChainTest, ADeviceThatFailsBreaksItOnce) {
  for (const uint32_t fail_every : {1U, 2U, 3U, 7U}) {
    Start({.seed = 3, .page_tokens = 4, .fail_every = fail_every});
    Mirror mirror = Create();
    const Running chain = RunChain(mirror, {'x'}, 100);
    EXPECT_EQ(chain.outcome.Failure().code, Code::kInternal);
    EXPECT_EQ(chain.given.tokens(), Greedy(mirror, fail_every - 1));
    ASSERT_TRUE(Idle());
    EXPECT_EQ(pages_used(), 0U);
    EXPECT_EQ(scheduler_->stats().queued, 0U);
  }
}

TEST_P(ChainTest, WhateverComesWhileItIsAheadEndsIt) {
  Start({.seed = 5, .page_tokens = 2, .latency_us = 50});
  for (int round = 0; round < 30; ++round) {
    Mirror mirror = Create();
    const Running chain = RunChain(mirror, {'a', 'b' + static_cast<uint32_t>(round)}, 1'000'000);
    while (chain.given.tokens().size() < 3) std::this_thread::yield();
    Mirror fork{scheduler_->Fork(mirror.id), {}};
    if (round % 3 == 0) scheduler_->Suspend(mirror.id);
    ASSERT_TRUE(chain.outcome.Get()->has_value());
    const Tokens tokens = chain.given.tokens();
    EXPECT_EQ(tokens, Greedy(mirror, tokens.size()));
    Feed(mirror, tokens, tokens.size() - 1);
    fork.slots = mirror.slots;
    ExpectWhole(fork);
    ExpectWhole(mirror);
    scheduler_->Drop(fork.id);
    scheduler_->Drop(mirror.id);
  }
  ASSERT_TRUE(Idle());
  EXPECT_EQ(pages_used(), 0U);
}

PIE_ON_BOTH_DEVICES(ChainTest);

}  // namespace
}  // namespace pie
