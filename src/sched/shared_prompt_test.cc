// Many sequences that begin alike and are queued together. Their common prefix is computed once,
// and a failure of the pass that computes it fails no other pass.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <utility>

#include "sched/testing.h"

namespace pie {
namespace {

using testing::Mirror;
using testing::Outcome;
using Tokens = std::vector<uint32_t>;

constexpr uint32_t kShared = 512;
constexpr uint32_t kOwn = 5;

class SharedPromptTest : public testing::SchedulerFixture {
 protected:
  struct Asked {
    Mirror mirror;
    Outcome outcome;
  };

  void Start(DummyOptions device, bool share = true) {
    SchedulerOptions options{.check_integrity = true};
    options.prefix.share = share;
    SchedulerFixture::Start(device, options);
  }

  // A prompt that all share, and a few tokens of its own.
  Asked AskPrompt(uint32_t which, CacheSalt salt = {}) {
    Tokens tokens;
    for (uint32_t i = 0; i < kShared; ++i) tokens.push_back('a' + i * i % 23);
    for (uint32_t i = 0; i < kOwn; ++i) tokens.push_back('A' + which);
    Asked asked{Create(salt), {}};
    asked.outcome = Append(asked.mirror, tokens);
    return asked;
  }
  std::vector<Asked> AskPrompts(uint32_t count) {
    std::vector<Asked> all;
    for (uint32_t i = 0; i < count; ++i) all.push_back(AskPrompt(i));
    return all;
  }
  void ExpectRight(const Asked& asked) {
    EXPECT_EQ(asked.outcome.Token(), asked.mirror.Greedy(device_));
  }
  uint64_t Computed() {  // without the blocker's tokens
    EXPECT_TRUE(scheduler_->WaitIdle(20'000));
    return scheduler_->stats().tokens - 1;
  }
};

TEST_P(SharedPromptTest, IsComputedOnce) {
  Start({.seed = 3});
  Block();
  const std::vector<Asked> all = AskPrompts(16);
  gate_->Open();
  for (const Asked& asked : all) ExpectRight(asked);
  EXPECT_EQ(Computed(), kShared + 16 * kOwn);
  EXPECT_EQ(gate_->batches().size(), 3U);  // the blocker, the first one, all others
}

TEST_P(SharedPromptTest, IsComputedOnceInChunksThatEndWithinPages) {
  Start({.seed = 3, .max_batch_tokens = 100});
  Block();
  const std::vector<Asked> all = AskPrompts(16);
  gate_->Open();
  for (const Asked& asked : all) ExpectRight(asked);
  EXPECT_EQ(Computed(), kShared + 16 * kOwn);
}

TEST_P(SharedPromptTest, PassesCountTheTokensThatWereFound) {
  Start({.seed = 3});
  auto count = std::make_shared<std::atomic<uint64_t>>(0);
  for (const uint64_t found : {uint64_t{0}, uint64_t{kShared}}) {
    Mirror mirror = Create();
    Tokens tokens;
    for (uint32_t i = 0; i < kShared; ++i) tokens.push_back('a' + i * i % 23);
    tokens.push_back(found == 0 ? 'A' : 'B');
    Forward forward = mirror.Append(tokens);
    forward.cached_tokens = count;
    EXPECT_EQ(Run(std::move(forward)).Token(), mirror.Greedy(device_));
    EXPECT_EQ(count->load(), found);
  }
}

TEST_P(SharedPromptTest, LatecomersWaitForWhoeverIsAtIt) {
  Start({.seed = 3});
  gate_->Hold();
  std::vector<Asked> all = AskPrompts(1);
  ASSERT_TRUE(gate_->WaitBusy());
  for (uint32_t i = 1; i < 8; ++i) all.push_back(AskPrompt(i));
  gate_->Open();
  for (const Asked& asked : all) ExpectRight(asked);
  ASSERT_TRUE(scheduler_->WaitIdle(20'000));
  EXPECT_EQ(scheduler_->stats().tokens, kShared + 8 * kOwn);
}

TEST_P(SharedPromptTest, OthersGoOnWhenTheFirstIsDropped) {
  Start({.seed = 3, .max_batch_tokens = 100});
  Block();
  const std::vector<Asked> all = AskPrompts(4);
  scheduler_->Drop(all[0].mirror.id);  // before it began
  gate_->Open();
  for (uint32_t i = 1; i < 4; ++i) ExpectRight(all[i]);
  EXPECT_EQ(Computed(), kShared + 3 * kOwn);
}

TEST_P(SharedPromptTest, OthersGoOnWhenTheFirstFails) {
  Start({.seed = 3,
         .fail_every = 2});  // the blocker's batch succeeds, the first prompt's batch fails
  Block();
  const std::vector<Asked> all = AskPrompts(2);
  gate_->Open();
  all[0].outcome.Failure();
  ExpectRight(all[1]);
}

// 5,000 pages take five rounds. The other user's pass does not wait for the last of them.
TEST_P(SharedPromptTest, OthersRunWhileACachedPromptIsAdoptedInSeveralRounds) {
  Start({.seed = 3,
         .page_tokens = 4,
         .total_pages = 10'000,
         .max_batch_tokens = 24'000,
         .max_positions = 24'000});
  const Tokens prompt(5'000 * scheduler_->info().page_tokens, 'p');
  Mirror first = Create();
  ExpectAppend(first, prompt);
  const uint64_t computed = Computed();

  Block();
  const size_t batches = gate_->batches().size();
  Mirror again = Create();
  Tokens longer = prompt;
  longer.push_back('q');
  const Outcome late = Append(again, longer);
  Mirror other = Create({.high = 1, .low = 1});
  const Outcome early = Append(other, {'o'});
  gate_->Open();
  EXPECT_EQ(early.Token(), Greedy(other));
  EXPECT_EQ(late.Token(), Greedy(again));
  EXPECT_EQ(Computed(), computed + 3);  // the blocker's token, and one of each pass
  const auto rows = gate_->batches();
  ASSERT_EQ(rows.size(), batches + 2);
  EXPECT_EQ(rows[batches], std::vector<uint32_t>{1});
}

TEST_P(SharedPromptTest, UsersDoNotWaitForEachOther) {
  Start({.seed = 3, .max_batch_tokens = 4096});
  Block();
  std::vector<Asked> all;
  for (uint32_t i = 0; i < 4; ++i) all.push_back(AskPrompt(i, {.high = i, .low = 1}));
  gate_->Open();
  for (const Asked& asked : all) ExpectRight(asked);
  EXPECT_EQ(Computed(), 4 * (kShared + kOwn));
  EXPECT_EQ(gate_->batches().size(), 2U);
}

TEST_P(SharedPromptTest, NobodyWaitsWherePagesAreNotShared) {
  Start({.seed = 3, .max_batch_tokens = 4096}, false);
  Block();
  const std::vector<Asked> all = AskPrompts(4);
  gate_->Open();
  for (const Asked& asked : all) ExpectRight(asked);
  EXPECT_EQ(Computed(), 4 * (kShared + kOwn));
  EXPECT_EQ(gate_->batches().size(), 2U);
}

PIE_ON_BOTH_DEVICES(SharedPromptTest);

}  // namespace
}  // namespace pie
