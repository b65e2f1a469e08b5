// Compares chains with loops of passes: they give the same tokens, and leave the same context,
// wherever they stop.
#include "host/api_chain_testing.h"

namespace pie::host {
namespace {

TEST_F(ApiChainTest, GivesWhatALoopGives) {
  for (uint32_t count = 1; count < 14; ++count) {
    const uint32_t looped = NewContext(), chained = NewContext();
    const Tokens expected = Loop(looped, kPrompt, count);
    const Progress all = TakeAll(Run(chained, kPrompt, count));
    EXPECT_EQ(all.tokens, expected);
    EXPECT_EQ(all.ended, ChainsEnding::Limit);
    EXPECT_EQ(CountsOf(chained), CountsOf(looped)) << count;
    EXPECT_EQ(Step(chained, {expected.back()}), Step(looped, {expected.back()}));
  }
}

TEST_F(ApiChainTest, DrawsWhatALoopDraws) {
  const Tokens expected = Loop(NewContext(), kPrompt, 20, 77);
  EXPECT_EQ(TakeAll(Run(NewContext(), kPrompt, 20, {}, 77)).tokens, expected);
  EXPECT_NE(TakeAll(Run(NewContext(), kPrompt, 20, {}, 78)).tokens, expected);
}

// Without a seed, every pass of a process draws from its own number. A chain uses the same number
// of them as a loop.
TEST_F(ApiChainTest, TakesAsManyDrawsAsALoop) {
  const uint64_t before = process_->SetDrawsAside(0);
  DropChain(Run(NewContext(), kPrompt, 1));
  const uint32_t chain = Run(NewContext(), kPrompt, 9);
  TakeAll(chain);
  EXPECT_EQ(process_->SetDrawsAside(0), before + 10);
  // Chains that run side by side use no number twice.
  const uint32_t one = Run(NewContext(), kPrompt, 5), two = Run(NewContext(), kPrompt, 5);
  TakeAll(one);
  TakeAll(two);
  EXPECT_EQ(process_->SetDrawsAside(0), before + 20);
}

TEST_F(ApiChainTest, StopsAtAStopToken) {
  const uint32_t looped = NewContext(), chained = NewContext();
  const Tokens expected = Loop(looped, kPrompt, 10);
  const uint32_t stop = expected[6];
  const auto first = std::ranges::find(expected, stop) - expected.begin() + 1;
  const Progress all = TakeAll(Run(chained, kPrompt, 100, {9999, stop, 0}));
  EXPECT_EQ(all.tokens, Tokens(expected.begin(), expected.begin() + first));
  EXPECT_EQ(all.ended, ChainsEnding::Stop);
}

// A chain that is dropped, or interrupted by another call, leaves the context of a loop that made
// exactly the steps whose tokens were taken.
TEST_F(ApiChainTest, WhatWasNotTakenWasNeverThere) {
  for (size_t enough = 1; enough < 12; enough += 2) {
    const uint32_t chained = NewContext();
    const uint32_t chain = Run(chained, kPrompt, 200);
    Progress more;
    Tokens tokens;
    while (tokens.size() < enough) {
      more = Take(chain);
      tokens.insert(tokens.end(), more.tokens.begin(), more.tokens.end());
    }
    if (enough % 4 == 1) DropChain(chain);
    const uint32_t looped = NewContext();
    EXPECT_EQ(tokens, Loop(looped, kPrompt, tokens.size()));
    EXPECT_EQ(CountsOf(chained), CountsOf(looped));
    EXPECT_EQ(Step(chained, {tokens.back()}), Step(looped, {tokens.back()}));
    EXPECT_EQ(CountsOf(chained), CountsOf(looped));
    if (enough % 4 != 1) {
      EXPECT_EQ(Take(chain).ended, more.ended.value_or(ChainsEnding::Cancelled));
      DropChain(chain);
    }
  }
}

TEST_F(ApiChainTest, ForkSeesWhatWasTaken) {
  const uint32_t chained = NewContext(), looped = NewContext();
  const uint32_t chain = Run(chained, kPrompt, 1000);
  Progress some;
  while (some.tokens.empty()) some = Take(chain);
  const uint32_t fork = Ok(ContextFork(*process_, chained));
  Loop(looped, kPrompt, some.tokens.size());
  EXPECT_EQ(CountsOf(fork), CountsOf(looped));
  const uint32_t next = Step(looped, {some.tokens.back()});
  EXPECT_EQ(Step(fork, {some.tokens.back()}), next);
  EXPECT_EQ(Step(chained, {some.tokens.back()}), next);
}

TEST_F(ApiChainTest, DroppedBeforeItsFirstToken) {
  const uint32_t context = NewContext();
  gate_->Hold();
  DropChain(Run(context, kPrompt, 1000));
  gate_->Open();
  // The context is as after a pass: it holds the input, which can be truncated.
  EXPECT_EQ(CountsOf(context), (Counts{0, 2, 6}));
  Ok(ContextTruncateWorkingPageTokens(*process_, context, 6));
  const uint32_t fresh = NewContext();
  EXPECT_EQ(Step(context, kPrompt), Step(fresh, kPrompt));
}

TEST_F(ApiChainTest, EndsWithItsContext) {
  const uint32_t context = NewContext();
  const uint32_t chain = Run(context, kPrompt, 1000);
  Ok(ContextDestroy(*process_, context));
  EXPECT_EQ(TakeAll(chain).ended, ChainsEnding::Cancelled);
}

TEST_F(ApiChainTest, EndsAtTheDevicesPages) {
  const uint32_t pages = engine_->models()[0].scheduler->info().total_pages;
  const uint32_t context = NewContext();
  const Progress all = TakeAll(Run(context, kPrompt, UINT32_MAX));
  EXPECT_EQ(Length(CountsOf(context)), pages * 4);
  EXPECT_EQ(all.tokens.size(), pages * 4 - kPrompt.size() + 1);
  EXPECT_EQ(all.error,
            fmt::format("cannot reserve 1 pages: the context would hold {}, the device has {}",
                        pages + 1, pages));
}

TEST_F(ApiChainTest, EndsWithTheTokenBudget) {
  const auto first = std::exchange(
      process_, std::make_shared<Process>(
                    engine_.get(), InstanceId{2},
                    Process::Options{.token_budget = std::make_shared<ByteBudget>(10)}));
  first->OnExit({});
  model_ = Ok(ModelLoad(*process_, "default"));
  // Six tokens of the budget go to the prompt, and four are left for passes.
  const Progress all = TakeAll(Run(NewContext(), kPrompt, 100));
  EXPECT_EQ(all.tokens.size(), 5u);
  EXPECT_EQ(all.error, "token budget: 10 of 10 tokens are used, this pass asks for 1");
}

TEST_F(ApiChainTest, WhatCannotRunIsRefusedAtOnce) {
  const auto refused = [&](uint32_t pass, uint32_t max_tokens) {
    return ErrorOf(ChainsRun(*process_, pass, max_tokens, {}));
  };
  const uint32_t context = NewContext();
  EXPECT_EQ(refused(Pass(context, {'a'}), 0), "a chain without tokens: ask for at least one");
  EXPECT_EQ(refused(NewPass(), 5), "a chain needs one sampler that chooses tokens, and no probes");
  uint32_t pass = NewPass({'a', 'b'});
  Sample(pass, pie_bridge::SamplerKind::TopK, 1, {0});
  EXPECT_EQ(refused(pass, 5), "a chain samples the last row of its input, and no other");
  pass = Ok(ForwardPassNew(*process_, model_));
  EXPECT_EQ(refused(pass, 5), "empty input: a pass needs at least one token");
  const uint32_t counts = Length(CountsOf(context));
  EXPECT_EQ(counts, 0u);
}

TEST_F(ApiChainTest, ARefusedChainLeavesItsPassAlone) {
  const uint32_t pass = NewPass();
  EXPECT_FALSE(ChainsRun(*process_, pass, 5, {})) << "it has no sampler";
  Sample(pass, pie_bridge::SamplerKind::TopK);
  EXPECT_TRUE(BecomesReady(Ok(ForwardPassExecute(*process_, pass))));
  EXPECT_EQ(engine_->models()[0].scheduler->stats().tokens, 1u);
}

}  // namespace
}  // namespace pie::host
