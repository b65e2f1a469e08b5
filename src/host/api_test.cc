// Host calls as the bridge makes them, on a process that no guest runs: what a component can hardly
// bring about (a pass whose context goes away, limits at their edge).
#include "host/api.h"

#include <gtest/gtest.h>

#include <bit>

#include "host/api_testing.h"
#include "host/host_table.h"

namespace pie::host {
namespace {

TEST(HostTable, HasEveryFunction) {
  const pie_bridge::HostTable& table = HostFunctions();
  using Pointers = std::array<uintptr_t, sizeof(table) / sizeof(uintptr_t)>;
  for (uintptr_t function : std::bit_cast<Pointers>(table)) EXPECT_NE(function, 0u);
}

TEST_F(ApiTest, ResultIsGivenOnce) {
  const uint32_t pass = NewPass();
  Sample(pass, pie_bridge::SamplerKind::TopK);
  uint32_t future = 0;
  Ok(PassExecute(guest(), pass, &future, out_));
  EXPECT_TRUE(BecomesReady(future));
  EXPECT_FALSE(Ready(future));
  bool failed = true;
  Ok(OutputFailure(guest(), future, &failed, out_));
  EXPECT_FALSE(failed);
}

// Otherwise the guest would wait for ever.
TEST_F(ApiTest, PassWhoseContextIsDestroyedFails) {
  gate_->Hold();
  uint32_t first = 0, second = 0;
  Ok(PassExecute(guest(), NewPass(), &first, out_));
  ASSERT_TRUE(gate_->WaitBusy());
  Ok(PassExecute(guest(), NewPass(), &second, out_));
  Ok(ContextDestroy(guest(), context_, out_));
  gate_->Open();
  EXPECT_TRUE(BecomesReady(second));
  bool failed = false;
  Ok(OutputFailure(guest(), second, &failed, out_));
  EXPECT_TRUE(failed);
  EXPECT_EQ(text(), "the context was destroyed before this pass had run");
}

// A pass that makes no sense is refused before it can cost the context.
TEST_F(ApiTest, FaultyPassLeavesItsContextWhole) {
  uint32_t future = 0;
  uint32_t pass = NewPass();
  const uint32_t nothing[] = {262};  // a mask that allows no token of the 262
  Ok(PassLogitMask(guest(), pass, {nothing, 1}, out_));
  EXPECT_FALSE(PassExecute(guest(), pass, &future, out_));
  EXPECT_EQ(text(), "the logit mask allows no token: allow at least one");

  EXPECT_FALSE(PassExecute(guest(), NewPass({999}), &future, out_));
  EXPECT_EQ(text(), "token 999 is not in the vocabulary of 262");

  pass = NewPass();
  Sample(pass, pie_bridge::SamplerKind::TopK, 1, {1});
  EXPECT_FALSE(PassExecute(guest(), pass, &future, out_));
  EXPECT_EQ(text(), "row 1 is sampled, but there are 1 input tokens");

  Ok(PassExecute(guest(), NewPass(), &future, out_));
  EXPECT_TRUE(engine_->models()[0].scheduler->WaitIdle(5000));
  bool failed = true;
  Ok(OutputFailure(guest(), future, &failed, out_));
  EXPECT_FALSE(failed) << text();
}

TEST_F(ApiTest, PassIsExecutedOnce) {
  const uint32_t pass = NewPass();
  uint32_t future = 0;
  Ok(PassExecute(guest(), pass, &future, out_));
  EXPECT_FALSE(PassExecute(guest(), pass, &future, out_));
  EXPECT_EQ(text(), "this pass was executed already; make a new one");
}

TEST_F(ApiTest, RefusalsComeFromExecute) {
  uint32_t future = 0;
  uint32_t pass = NewPass();
  Sample(pass, pie_bridge::SamplerKind::Embedding);
  EXPECT_FALSE(PassExecute(guest(), pass, &future, out_));
  EXPECT_EQ(text(), "embedding: this model gives no embeddings");

  pass = NewPass();
  Sample(pass, pie_bridge::SamplerKind::Multinomial, UINT32_MAX);
  EXPECT_FALSE(PassExecute(guest(), pass, &future, out_));
  EXPECT_NE(text().find("a pass gives at most 65536 slots"), std::string::npos) << text();

  pass = 0;
  Ok(PassNew(guest(), model_, &pass, out_));
  EXPECT_FALSE(PassExecute(guest(), pass, &future, out_));
  EXPECT_NE(text().find("empty input"), std::string::npos);
}

// The memory that a guest's passes take in the engine has an end, and comes back.
TEST_F(ApiTest, PassesHaveAMemoryLimit) {
  const std::vector<uint32_t> many(1'000, 'a'), positions(1'000);
  std::vector<uint32_t> passes;
  uint32_t future = 0;
  std::string refusal;
  for (int i = 0; i < 500 && refusal.empty(); ++i) {
    uint32_t pass = 0;
    if (!PassNew(guest(), model_, &pass, out_)) {
      refusal = text();
      break;
    }
    passes.push_back(pass);
    Ok(Input(pass, many, positions));
    if (!PassExecute(guest(), pass, &future, out_) &&
        text().find("memory limit") != std::string::npos) {
      refusal = text();
    }
  }
  EXPECT_EQ(refusal, "memory limit: the passes and unread results of an inferlet have 1 MiB");
  EXPECT_GT(passes.size(), 100u);
  for (uint32_t pass : passes) Ok(HandleDrop(guest(), HandleKind::ForwardPass, pass, out_));
  Ok(PassExecute(guest(), NewPass(), &future, out_));
}

TEST_F(ApiTest, SamplersWithoutRowsCountToo) {
  const uint32_t pass = NewPass();
  uint32_t future = 0;
  for (int i = 0; i < 20'000; ++i) Sample(pass, pie_bridge::SamplerKind::TopK, 1, {});
  EXPECT_FALSE(PassExecute(guest(), pass, &future, out_));
  EXPECT_NE(text().find("memory limit"), std::string::npos) << text();
}

TEST_F(ApiTest, LaunchNamesWhatIsMissing) {
  uint32_t child = 0;
  EXPECT_FALSE(RuntimeLaunch(guest(), ToStr("nobody"), ToStr("{}"), &child, out_));
  EXPECT_EQ(text(), "no program is named 'nobody'; install it first");
}

TEST_F(ApiTest, WhatCannotBeWaitedForSaysSo) {
  const pie_bridge::Signal* signal = nullptr;
  EXPECT_FALSE(HandleSignal(guest(), HandleKind::Model, model_, &signal, out_));
  EXPECT_EQ(text(), "this kind of handle cannot be waited for");
  EXPECT_FALSE(HandleSignal(guest(), HandleKind::FutureOutput, 77, &signal, out_));
  EXPECT_EQ(text(), "no output has handle 77");
}

}  // namespace
}  // namespace pie::host
