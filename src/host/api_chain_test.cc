// Chains against loops of passes: the same tokens, and the same context, wherever one stops.
#include "host/api_testing.h"

namespace pie::host {
namespace {

using Tokens = std::vector<uint32_t>;
using State = pie_bridge::ChainState;

struct Counts {
  uint32_t committed, pages, tokens;
  friend bool operator==(const Counts&, const Counts&) = default;
};

class ApiChainTest : public ApiTest {
 protected:
  uint32_t NewContext() {
    uint32_t context = 0;
    Ok(ContextCreate(guest(), model_, &context, out_));
    return context;
  }
  Counts CountsOf(uint32_t context) {
    Counts counts{};
    Ok(ContextCommittedPageCount(guest(), context, &counts.committed, out_));
    Ok(ContextWorkingPageCount(guest(), context, &counts.pages, out_));
    Ok(ContextWorkingPageTokenCount(guest(), context, &counts.tokens, out_));
    return counts;
  }
  static uint32_t Length(const Counts& counts) { return counts.committed * 4 + counts.tokens; }

  // A pass as an SDK makes it: the tokens follow what is there, pages are reserved for them.
  uint32_t Pass(uint32_t context, const Tokens& tokens, std::optional<uint64_t> seed = {}) {
    const Counts counts = CountsOf(context);
    const auto needed = static_cast<uint32_t>((counts.tokens + tokens.size() + 3) / 4);
    if (needed > counts.pages) {
      Ok(ContextReserveWorkingPages(guest(), context, needed - counts.pages, out_));
    }
    uint32_t pass = 0;
    Ok(PassNew(guest(), model_, &pass, out_));
    Ok(PassContext(guest(), pass, context, out_));
    Tokens positions;
    for (size_t i = 0; i < tokens.size(); ++i) positions.push_back(Length(counts) + i);
    Ok(Input(pass, tokens, positions));
    pie_bridge::Sampler sampler{.kind = pie_bridge::SamplerKind::Multinomial,
                                .temperature = seed ? 1.5F : 0,
                                .count = 1,
                                .p = 1};
    const auto row = static_cast<uint32_t>(tokens.size() - 1);
    Ok(PassSampler(guest(), pass, {&row, 1}, &sampler, out_));
    if (seed) Ok(PassSeed(guest(), pass, *seed, out_));
    return pass;
  }
  // One step of a loop: the token that is chosen behind `tokens`.
  uint32_t Step(uint32_t context, const Tokens& tokens, std::optional<uint64_t> seed = {}) {
    uint32_t future = 0;
    const uint32_t pass = Pass(context, tokens, seed);
    EXPECT_TRUE(PassExecute(guest(), pass, &future, out_)) << text();
    while (true) {
      PassOutput& output = **process_->handles().outputs.Get(future).value();
      if (output.ready.load(std::memory_order_acquire)) {
        EXPECT_TRUE(output.result) << output.result.error().text;
        const uint32_t full = CountsOf(context).tokens / 4;
        Ok(ContextCommitWorkingPages(guest(), context, full, out_));
        return output.result ? std::get<TokenSlot>(output.result->at(0)).token : 0;
      }
      std::this_thread::yield();
    }
  }
  Tokens Loop(uint32_t context, const Tokens& prompt, size_t count,
              std::optional<uint64_t> seed = {}) {
    Tokens tokens;
    for (size_t i = 0; i < count; ++i) {
      const Tokens input = tokens.empty() ? prompt : Tokens{tokens.back()};
      tokens.push_back(Step(context, input, seed ? std::optional(*seed + i) : seed));
    }
    return tokens;
  }

  uint32_t Run(uint32_t context, const Tokens& prompt, uint32_t max_tokens,
               const Tokens& stops = {}, std::optional<uint64_t> seed = {}) {
    uint32_t chain = 0;
    Ok(ChainRun(guest(), Pass(context, prompt, seed), max_tokens, {stops.data(), stops.size()},
                &chain, out_));
    return chain;
  }
  struct Progress {
    Tokens tokens;
    State state = State::Runs;
    std::string error;
  };
  Progress Take(uint32_t chain) {
    Progress progress;
    if (!ChainTake(guest(), chain, &progress.state, out_)) return {.error = text()};
    const Words words = pie_bridge::pie_out_read_words(out_);
    progress.tokens.assign(words.ptr, words.ptr + words.len);
    return progress;
  }
  // Everything up to the end.
  Progress TakeAll(uint32_t chain) {
    Progress all;
    while (all.state == State::Runs && all.error.empty()) {
      Progress more = Take(chain);
      all.tokens.insert(all.tokens.end(), more.tokens.begin(), more.tokens.end());
      all.state = more.state;
      all.error = more.error;
      std::this_thread::yield();
    }
    return all;
  }
  void DropChain(uint32_t chain) { Ok(HandleDrop(guest(), HandleKind::Chain, chain, out_)); }
};

const Tokens kPrompt = {'h', 'e', 'l', 'l', 'o', '!'};

TEST_F(ApiChainTest, GivesWhatALoopGives) {
  for (uint32_t count = 1; count < 14; ++count) {
    const uint32_t looped = NewContext(), chained = NewContext();
    const Tokens expected = Loop(looped, kPrompt, count);
    const Progress all = TakeAll(Run(chained, kPrompt, count));
    EXPECT_EQ(all.tokens, expected);
    EXPECT_EQ(all.state, State::AtLimit);
    EXPECT_EQ(CountsOf(chained), CountsOf(looped)) << count;
    EXPECT_EQ(Step(chained, {expected.back()}), Step(looped, {expected.back()}));
  }
}

TEST_F(ApiChainTest, DrawsWhatALoopDraws) {
  const Tokens expected = Loop(NewContext(), kPrompt, 20, 77);
  EXPECT_EQ(TakeAll(Run(NewContext(), kPrompt, 20, {}, 77)).tokens, expected);
  EXPECT_NE(TakeAll(Run(NewContext(), kPrompt, 20, {}, 78)).tokens, expected);
}

// Without a seed every pass of a process draws from a number of its own. A chain takes as many
// numbers as a loop would.
TEST_F(ApiChainTest, TakesAsManyDrawsAsALoop) {
  const uint64_t before = process_->SetDrawsAside(0);
  DropChain(Run(NewContext(), kPrompt, 1));
  const uint32_t chain = Run(NewContext(), kPrompt, 9);
  TakeAll(chain);
  EXPECT_EQ(process_->SetDrawsAside(0), before + 10);
  // Side by side, none is used twice.
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
  EXPECT_EQ(all.state, State::Stopped);
}

// The context of a chain that is dropped, or interrupted by another call, is that of a loop that
// made the steps whose tokens were taken, and no more.
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
      const State state = more.state == State::Runs ? State::Cancelled : more.state;
      EXPECT_EQ(Take(chain).state, state);
      DropChain(chain);
    }
  }
}

TEST_F(ApiChainTest, ForkSeesWhatWasTaken) {
  const uint32_t chained = NewContext(), looped = NewContext();
  const uint32_t chain = Run(chained, kPrompt, 1000);
  Progress some;
  while (some.tokens.empty()) some = Take(chain);
  uint32_t fork = 0;
  Ok(ContextFork(guest(), chained, &fork, out_));
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
  // As after a pass: its input is there, and can be taken back.
  EXPECT_EQ(CountsOf(context), (Counts{0, 2, 6}));
  Ok(ContextTruncateWorkingPageTokens(guest(), context, 6, out_));
  const uint32_t fresh = NewContext();
  EXPECT_EQ(Step(context, kPrompt), Step(fresh, kPrompt));
}

TEST_F(ApiChainTest, EndsWithItsContext) {
  const uint32_t context = NewContext();
  const uint32_t chain = Run(context, kPrompt, 1000);
  Ok(ContextDestroy(guest(), context, out_));
  EXPECT_EQ(TakeAll(chain).state, State::Cancelled);
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
  Ok(ModelLoad(guest(), ToStr("default"), &model_, out_));
  // Six for the prompt leave four passes.
  const Progress all = TakeAll(Run(NewContext(), kPrompt, 100));
  EXPECT_EQ(all.tokens.size(), 5u);
  EXPECT_EQ(all.error, "token budget: 10 of 10 tokens are used, this pass asks for 1");
}

TEST_F(ApiChainTest, WhatCannotRunIsRefusedAtOnce) {
  uint32_t chain = 0;
  const auto refused = [&](uint32_t pass, uint32_t max_tokens) {
    EXPECT_FALSE(ChainRun(guest(), pass, max_tokens, {}, &chain, out_));
    return text();
  };
  const uint32_t context = NewContext();
  EXPECT_EQ(refused(Pass(context, {'a'}), 0), "a chain of no tokens: ask for at least one");
  EXPECT_EQ(refused(NewPass(), 5), "a chain needs one sampler that chooses tokens, and no probes");
  uint32_t pass = NewPass({'a', 'b'});
  Sample(pass, pie_bridge::SamplerKind::TopK, 1, {0});
  EXPECT_EQ(refused(pass, 5), "a chain samples the last row of its input, and no other");
  pass = 0;
  Ok(PassNew(guest(), model_, &pass, out_));
  EXPECT_EQ(refused(pass, 5), "empty input: a pass needs at least one token");
  const uint32_t counts = Length(CountsOf(context));
  EXPECT_EQ(counts, 0u);
}

}  // namespace
}  // namespace pie::host
