#include "host/chain_output.h"

#include <gtest/gtest.h>

namespace pie::host {
namespace {

using Tokens = std::vector<uint32_t>;

constexpr size_t kRowBytes = 10;

class ChainOutputTest : public testing::Test {
 protected:
  void Give(uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) output_.Give(next_++, std::nullopt);
  }
  bool woken() { return output_.woken(); }

  ManualClock clock_;
  std::shared_ptr<ByteBudget> budget_ = std::make_shared<ByteBudget>(1000);
  ChainOutput output_{Charge(budget_), kRowBytes, clock_};
  uint32_t next_ = 0;
};

TEST_F(ChainOutputTest, WakesAtOnceThenByTheChunk) {
  EXPECT_FALSE(woken());
  Give(1);
  EXPECT_TRUE(woken());
  EXPECT_EQ(output_.Take()->tokens, Tokens({0}));
  EXPECT_FALSE(woken());
  Give(ChainOutput::kWakeTokens - 1);
  EXPECT_FALSE(woken());
  Give(1);
  EXPECT_TRUE(woken());
  EXPECT_EQ(output_.Take()->tokens.size(), ChainOutput::kWakeTokens);
  EXPECT_FALSE(woken());
}

TEST_F(ChainOutputTest, WakesWhenTimeHasPassed) {
  Give(1);
  ASSERT_TRUE(output_.Take());
  clock_.AdvanceNs(ChainOutput::kWakeNs - 1);
  Give(1);
  EXPECT_FALSE(woken());
  clock_.AdvanceNs(1);
  Give(1);
  EXPECT_TRUE(woken());
  EXPECT_EQ(output_.Take()->tokens, Tokens({1, 2}));
}

TEST_F(ChainOutputTest, TakesWithoutBeingWoken) {
  Give(1);
  ASSERT_TRUE(output_.Take());
  Give(2);
  EXPECT_EQ(output_.Take()->tokens, Tokens({1, 2}));
  const auto nothing = output_.Take();
  EXPECT_TRUE(nothing->tokens.empty());
  EXPECT_FALSE(nothing->ended);
}

TEST_F(ChainOutputTest, TheEndWakesAndSaysWhy) {
  Give(1);
  ASSERT_FALSE(output_.Take()->ended);
  output_.Give(7, Chain::End::kStop);
  EXPECT_TRUE(woken());
  output_.Finish({});                   // Finish may be called again after the end
  output_.Give(8, Chain::End::kLimit);  // after the end, Give has no effect
  const auto taken = output_.Take();
  EXPECT_EQ(taken->tokens, Tokens({7}));
  EXPECT_TRUE(taken->ended);
  EXPECT_EQ(taken->end, Chain::End::kStop);
  EXPECT_TRUE(woken());  // the signal stays fired, so a second wait returns at once
  EXPECT_TRUE(output_.Take()->ended);
}

TEST_F(ChainOutputTest, TokensBeforeAnErrorComeFirst) {
  Give(3);
  output_.Finish(Fail(Code::kExhausted, "out of pages"));
  const auto taken = output_.Take();
  EXPECT_EQ(taken->tokens, Tokens({0, 1, 2}));
  EXPECT_FALSE(taken->ended);
  EXPECT_TRUE(woken());
  EXPECT_EQ(output_.Take().error().text, "out of pages");
  EXPECT_EQ(output_.Take().error().text, "out of pages");
}

TEST_F(ChainOutputTest, RowsAreChargedUntilTheirTokensAreTaken) {
  EXPECT_TRUE(output_.Admit(60));
  Give(60);
  EXPECT_EQ(budget_->used(), 600u);
  EXPECT_TRUE(output_.Admit(40));
  const Status refused = output_.Admit(1);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().text.find("memory limit"), std::string::npos);
  EXPECT_EQ(output_.Take()->tokens.size(), 60u);
  EXPECT_EQ(budget_->used(), 400u) << "the context pays for those that were taken";
  output_.Cancel();
  EXPECT_EQ(budget_->used(), 0u);
}

TEST_F(ChainOutputTest, FinishedWithoutAnEndWasCancelled) {
  output_.Finish({});
  EXPECT_TRUE(woken());
  const auto taken = output_.Take();
  EXPECT_TRUE(taken->ended);
  EXPECT_EQ(taken->end, std::nullopt);
}

TEST_F(ChainOutputTest, CancelForgetsWhatWasNotTaken) {
  Give(3);
  output_.Cancel();
  Give(1);
  output_.Finish(Fail(Code::kInternal, "late"));
  EXPECT_TRUE(woken());
  const auto taken = output_.Take();
  EXPECT_TRUE(taken->tokens.empty());
  EXPECT_TRUE(taken->ended);
  EXPECT_EQ(taken->end, std::nullopt);
}

}  // namespace
}  // namespace pie::host
