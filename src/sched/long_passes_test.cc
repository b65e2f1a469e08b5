// A long prompt beside the decode steps of another user: it is cut into smaller chunks, so that
// each step of the other user takes less time. The tokens are the same.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "sched/testing.h"

namespace pie {
namespace {

using testing::Mirror;
using testing::Outcome;

constexpr uint32_t kBatch = 512;
constexpr uint32_t kPrompt = 4'000;

class LongPassesTest : public testing::SchedulerFixture {
 protected:
  void Start() { SchedulerFixture::Start({.seed = 3, .max_batch_tokens = kBatch}); }
  AccountId AccountOf(uint64_t user) {
    auto view = std::make_shared<AccountView>();
    view->user = user;
    return scheduler_->OpenAccount(std::move(view));
  }
  Mirror CreateFor(AccountId account) { return {scheduler_->Create({}, account), {}}; }

  // How many tokens of a prompt were read in chunks of at most a quarter of the batch, while
  // `account` decoded.
  uint32_t ReadInSmallChunks(AccountId account) {
    Mirror prompt = CreateFor(AccountOf(1));
    Mirror decode = CreateFor(account);
    scheduler_->Own(Block().id, account);
    const Outcome read = Append(prompt, Tokens(kPrompt, 'p'));
    Outcome token = Append(decode, {'d'});
    gate_->Open();
    while (!read.ended()) {
      EXPECT_EQ(token.Token(), Greedy(decode));
      token = Append(decode, {Greedy(decode)});
    }
    EXPECT_EQ(token.Token(), Greedy(decode));
    EXPECT_EQ(read.Token(), Greedy(prompt));
    uint32_t tokens = 0;
    for (const auto& batch : gate_->batches()) {
      const uint32_t chunk = std::ranges::max(batch);
      if (chunk > 1 && chunk <= kBatch / 4) tokens += chunk;
    }
    return tokens;
  }
};

TEST_P(LongPassesTest, LeaveRoomForTheStepsOfOtherUsers) {
  Start();
  EXPECT_GT(ReadInSmallChunks(AccountOf(2)), kPrompt / 2);
}

TEST_P(LongPassesTest, FillTheBatchBesideStepsOfTheSameUser) {
  Start();
  EXPECT_LT(ReadInSmallChunks(AccountOf(1)), kPrompt / 2);
}

PIE_ON_BOTH_DEVICES(LongPassesTest);

}  // namespace
}  // namespace pie
